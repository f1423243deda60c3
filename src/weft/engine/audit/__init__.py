"""Audit and sweep: what is there and should not be."""
