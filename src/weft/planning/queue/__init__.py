"""Placement in time: leases, bookings, reservations and the queue."""
