"""Records of runs: reading, comparing, tables."""
