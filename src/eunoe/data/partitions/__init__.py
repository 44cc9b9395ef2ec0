"""Partitions: ways to divide samples among clients; all derive from `Partition`."""
