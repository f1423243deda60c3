"""The site's description: checks of it, and comparisons with what exists."""
