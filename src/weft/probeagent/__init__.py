"""`weft probe-agent`: sends frames from a host's adapters, and reports to weft which ones arrived."""
