"""Backups of weft's database: made by pg_dump, one file each, and restored in one transaction."""
