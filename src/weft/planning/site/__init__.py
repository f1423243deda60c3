"""The site's description: what is wrong with it, and what of it is there."""
