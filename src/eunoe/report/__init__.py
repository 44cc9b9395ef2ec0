"""Shows what was forgotten: draws the figures of run records and writes the report."""
