"""What is free: nodes, parts of nodes, bookings, and what keeps nodes from orders."""
