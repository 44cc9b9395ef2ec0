"""Numerics: flat vectors, random streams, optimizer steps, batch plans."""
