"""Bare metal in the lab: a real Ironic with machines behind a Redfish emulator, and Nova's own driver for them.

Ironic and the emulator have an environment of their own in the cache, made for labs that have machines only.
"""
