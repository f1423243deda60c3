"""Named reads and writes for the other rooms."""
