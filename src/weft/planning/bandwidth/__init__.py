"""Bandwidth between nodes: what measurements of pairs say of adapters, nodes and links. Pure."""
