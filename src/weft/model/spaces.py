"""Spaces that numbers are held in, each by one pod or none."""

SEGMENT, VLAN = "segment/", "vlan/"
"""Prefixes: `segment/<fabric>`, and `vlan/<cloud>` of management networks."""
