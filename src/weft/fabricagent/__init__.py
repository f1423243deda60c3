"""`weft fabric-agent`: a small program that runs next to each subnet manager."""
