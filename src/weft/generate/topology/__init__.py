"""A pod's topology in the formats of programs that place and start jobs."""
