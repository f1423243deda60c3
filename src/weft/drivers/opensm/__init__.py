"""OpenSM, through the fabric agents next to it."""

from weft.drivers.opensm.driver import OpenSmDriver

__all__ = ["OpenSmDriver"]
