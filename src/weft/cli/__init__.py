"""Command line door; speaks to the API only."""
