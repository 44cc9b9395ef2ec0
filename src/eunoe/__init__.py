"""Federated learning that does not forget."""
