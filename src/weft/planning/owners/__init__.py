"""Owners without an order: the graph that is wanted of one, and how its rows come to be that."""
