"""Shows what was forgotten: reads run records, draws the figures and writes the page."""
