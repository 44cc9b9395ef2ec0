"""Sources of data sets: files, folders and the hub."""
