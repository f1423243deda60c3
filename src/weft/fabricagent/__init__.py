"""`weft fabric-agent`: its own small program beside each subnet manager."""
