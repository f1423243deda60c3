"""A simulated POD: all agents of it in one process, each on its own address."""
