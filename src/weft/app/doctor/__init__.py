"""`weft doctor`: what weft needs of its host, database, clouds and fabrics, looked at without changing anything."""
