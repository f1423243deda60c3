"""Drivers: strangers to each other."""
