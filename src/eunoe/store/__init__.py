"""Run folders: written, resumed and read."""
