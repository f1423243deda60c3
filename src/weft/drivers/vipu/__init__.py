"""V-IPU: IPU-Machines through their agents, a pod's controller through its two APIs. Uses only openvipu's stubs."""

from weft.drivers.vipu.driver import VipuDriver

__all__ = ["VipuDriver"]
