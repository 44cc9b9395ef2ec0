"""Federated methods: one short file each, on top of `base.Method`."""
