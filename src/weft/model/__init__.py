"""The lowest layer: frozen values, no I/O, no clock."""
