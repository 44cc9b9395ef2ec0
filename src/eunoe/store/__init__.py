"""Run folders: writing, resuming and reading them.

Here: the folder and its checkpoints (`RunFolder`), the schema of all records (schema.py), reading a folder
into arrays (`RunRecords`, the one type to know), the state between rounds (`RunState`). Not here: what a run
computes (simulation/), what its records mean (analysis/), client states on disk (engines/client_states.py).
"""
