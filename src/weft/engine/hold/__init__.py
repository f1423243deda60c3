"""A worker's hold of an owner: its fence, and what it notes under it."""
