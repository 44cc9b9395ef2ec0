"""Running, resuming and sweeping."""
