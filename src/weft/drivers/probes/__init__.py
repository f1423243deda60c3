"""Tries an Ethernet fabric by agents beside its adapters (`weft probe-agent`)."""

from weft.drivers.probes.prober import FrameProber

__all__ = ["FrameProber"]
