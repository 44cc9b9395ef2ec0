"""Partitions: ways to divide samples among clients, one file each; all derive from `Partition`."""
