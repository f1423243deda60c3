"""openvipu: an open V-IPU controller, wire-compatible with package virmgrpc."""
