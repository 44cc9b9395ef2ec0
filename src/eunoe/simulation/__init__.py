"""Simulations: from a configuration to a finished run.

build.py makes a `Simulation` of a configuration, compatibility.py says which options go together, loop.py
runs the rounds with the cohorts of cohorts.py, and hooks.py evaluates, records and saves. Engines train the
clients (eunoe.engines), and the server's part of a round is in eunoe.server. The type to know is `run.Run`.
"""
