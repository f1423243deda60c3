"""Lists of hardware, as sites have them, into tables of a site file."""
