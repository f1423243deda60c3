"""Tests an Ethernet fabric through agents next to its adapters (`weft probe-agent`)."""

from weft.drivers.probes.prober import FrameProber

__all__ = ["FrameProber"]
