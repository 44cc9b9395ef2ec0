"""Numerics: flat vectors, random numbers, optimizer steps, batches, inputs, tasks and compression.

Clients, rounds and run folders are not here. The type to know is `FlatModel`: a module whose parameters are
one vector.
"""
