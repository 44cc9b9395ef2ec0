"""Running, resuming and repeating runs."""
