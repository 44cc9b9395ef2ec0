"""Files, memory and signals: what the operating system gives."""
