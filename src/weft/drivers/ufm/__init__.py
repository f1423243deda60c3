"""NVIDIA UFM Enterprise through its REST API."""

from weft.drivers.ufm.driver import Ufm

__all__ = ["Ufm"]
