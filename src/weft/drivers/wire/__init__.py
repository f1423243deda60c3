"""The ports' own tables, read through fabric agents: for every driver of an InfiniBand fabric."""
