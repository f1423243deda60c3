"""The sentences about placements that a tenant is shown, while they aren't messages yet: a table, closed by default."""

from weft.app.sayings.orders import refusal

__all__ = ["refusal"]
