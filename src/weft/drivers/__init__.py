"""Drivers, independent of each other."""
