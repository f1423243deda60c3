"""V-IPU: IPU-Machines by their agents, a pod's controller by its two APIs. Of openvipu only the generated stubs."""

from weft.drivers.vipu.driver import VipuDriver

__all__ = ["VipuDriver"]
