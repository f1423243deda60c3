# pyright: basic, reportMissingImports=false
"""Neutron's mechanism driver of the lab for ports of machines: it binds them and configures no switch.

Replaces mlnx_sdn_assist (InfiniBand), and networking-generic-switch (Ethernet) where that isn't loaded, since
nothing boots. networking-baremetal alone doesn't do: ports whose link isn't on a switch that it manages itself it
leaves to others (8.1, `try_to_bind_segment_for_agent`).
"""

from neutron_lib.plugins.ml2 import api
from oslo_config import cfg


class MachinePorts(api.MechanismDriver):
    """Ports of type `baremetal`, on flat and VLAN networks."""

    def initialize(self):
        pass

    @property
    def connectivity(self):
        return "l2"

    def bind_port(self, context):
        if context.current.get("binding:vnic_type") != "baremetal":
            return
        cabled = context.current["binding:profile"].get("local_link_information")
        if cabled and any(cabled) and "genericswitch" in cfg.CONF.ml2.mechanism_drivers:
            return
        for segment in context.segments_to_bind:
            if segment[api.NETWORK_TYPE] in ("flat", "vlan"):
                context.set_binding(segment[api.ID], "other", {"connectivity": "l2"}, status="ACTIVE")
                return
