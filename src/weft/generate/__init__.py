"""Values to text: partitions.conf, receipts, certificates, schemas, pictures."""
