"""Federated learning that does not forget."""

__version__ = "0.1.0"
