"""What weft needs of the world, as Protocols; each has one contract suite that fakes and real drivers pass."""
