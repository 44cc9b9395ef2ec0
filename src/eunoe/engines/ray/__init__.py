"""Clients trained on a Ray cluster."""
