"""OpenSM, through the fabric agents next to it."""

from weft.drivers.opensm.driver import OpenSm

__all__ = ["OpenSm"]
