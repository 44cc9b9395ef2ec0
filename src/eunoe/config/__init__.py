"""The configuration of a run: its schema, its values, and the registry of named components."""
