"""Turns values into text: partitions.conf, receipts, certificates, schemas, pictures."""
