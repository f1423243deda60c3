"""Fakes with seeded latency and faults, and example sites."""
