"""Ground floor: frozen values, no I/O, no clock."""
