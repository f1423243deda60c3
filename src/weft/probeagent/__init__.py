"""`weft probe-agent`: sends frames from a host's adapters, and tells which ones came in, for weft."""
