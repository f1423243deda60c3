"""One visit of an owner: from what is wanted to what is there."""
