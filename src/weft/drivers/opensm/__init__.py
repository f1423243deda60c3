"""OpenSM through the fabric agents beside it."""

from weft.drivers.opensm.driver import OpenSm

__all__ = ["OpenSm"]
