"""HTTP door."""
