"""Secure aggregation in a federation: the server learns the sum of its clients' vectors and nothing else."""
