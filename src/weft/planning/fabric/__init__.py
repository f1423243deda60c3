"""The fabric: topology, numbers, and what its manager reports."""
