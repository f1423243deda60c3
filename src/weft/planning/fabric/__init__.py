"""The fabric: its topology, its numbers, and what a fabric manager says of it."""
