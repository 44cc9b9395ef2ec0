"""The operating system: files, memory, signals, log output."""
