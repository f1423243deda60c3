"""OpenSM by way of the fabric agents beside it."""
