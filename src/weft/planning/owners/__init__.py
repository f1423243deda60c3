"""Owners without an order: their desired graph, and how their rows follow it."""
