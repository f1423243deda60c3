"""openvipu: an open V-IPU controller, wire-compatible with package virmgrpc."""

__version__ = "0.1.0"

VIPU_VERSION = "1.18.0"
"""Version of the V-IPU user API that this controller speaks, as VersionService and clients report it."""
