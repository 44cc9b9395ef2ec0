"""What the records of runs say: summaries, comparisons, diagnosis."""
