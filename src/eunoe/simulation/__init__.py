"""Building a simulation from a config, and running its rounds."""
