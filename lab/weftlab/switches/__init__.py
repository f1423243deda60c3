"""The lab's Ethernet fabric: switches in whose place Open vSwitch forwards real frames, and hosts that send them."""

from weftlab.switches.jobs import PACKAGES, switch_jobs
from weftlab.switches.openvswitch import Ovs
from weftlab.switches.plan import Cable, End, FabricPlan, HostPlan, SwitchPlan, leaf_spine

__all__ = [
    "PACKAGES",
    "Cable",
    "End",
    "FabricPlan",
    "HostPlan",
    "Ovs",
    "SwitchPlan",
    "leaf_spine",
    "switch_jobs",
]
