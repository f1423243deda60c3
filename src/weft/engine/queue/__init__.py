"""From an order to its nodes: gathering, claims, waiting orders, changes."""
