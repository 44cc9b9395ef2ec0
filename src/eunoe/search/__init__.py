"""Searches over runs: sweep, tune and cure.

`sweep` plans and executes many runs. `halving` compares trials by successive halving and keeps a `journal`,
so that an interrupted search continues; `tune` and `cure` are built on it. `Trial` is the type to know: a
configuration to try. Remedies are defined in analysis/remedies.py; what is printed is up to cli/.
"""
