"""Figures of run records, and the HTML report."""
