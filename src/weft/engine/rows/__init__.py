"""Rows of the database as typed records."""
