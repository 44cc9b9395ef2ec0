"""What is measured of a model: accuracy, and what it forgets."""
