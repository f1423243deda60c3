"""TripleO's roles: which services run on hosts of which functions (Wallaby's composable services)."""

from __future__ import annotations

from typing import Any

from weft.model.fabrictypes import FabricKind
from weft.planning.export.tripleonetworks import TripleoNetworks
from weft.planning.export.view import CloudView

_EVERY = """
Aide AuditD BootParams CACerts IpaClient Ipsec Iscsid Kernel LoginDefs Multipathd MySQLClient
ContainersLogrotateCrond Podman Rhsm Rsyslog RsyslogSidecar Securetty Snmp Sshd Timesync Timezone
TripleoPackages
"""
_CONTROL = """
CinderApi CinderScheduler Clustercheck ContainerImagePrepare GlanceApi GlanceApiInternal HeatApi HeatApiCfn
HeatEngine Horizon Keystone Memcached MySQL NeutronApi NeutronCorePlugin NovaApi NovaConductor NovaMetadata
NovaScheduler NovaVncProxy OpenStackClients Pacemaker PlacementApi OsloMessagingRpc OsloMessagingNotify Tuned
HAproxy
"""
_NETWORK = """
NeutronDhcpAgent NeutronL3Agent NeutronMetadataAgent NeutronOvsAgent NeutronAgentsIBConfig
"""
_COMPUTE = """
ComputeNeutronCorePlugin ComputeNeutronL3Agent ComputeNeutronMetadataAgent ComputeNeutronOvsAgent NovaCompute
NovaLibvirt NovaLibvirtGuests NovaMigrationTarget
"""
_STORAGE = "CinderBackup CinderVolume"


def role_data(view: CloudView, networks: TripleoNetworks, role: str) -> dict[str, Any]:
    """A role of roles_data.yaml."""
    one = view.roles[role]
    # The service has no parameter that turns it off.
    services = [*_EVERY.split(), *(["TripleoFirewall"] if view.deployment.firewall else [])]
    for function, listed in (
        ("control", _CONTROL),
        ("network", _NETWORK),
        ("compute", _COMPUTE),
        ("storage", _STORAGE),
    ):
        if function in one.functions:
            services += listed.split()
    if "compute" in one.functions:
        services += ["NeutronSriovAgent"] if view.mappings(role, FabricKind.ETHERNET) else []
        services += ["NeutronMlnxAgent"] if view.mappings(role, FabricKind.INFINIBAND) else []
    tags = ["primary", "controller"] if "control" in one.functions else []
    tags += ["compute"] if "compute" in one.functions else []
    tags += ["external_bridge"] if one.bridges else []
    found: dict[str, Any] = {
        "name": role,
        "description": f"Hosts with functions {', '.join(one.functions)}",
        "CountDefault": len(view.hosts[role]),
        "tags": tags,
        "networks": {
            networks.names[name]: {"subnet": networks.subnet(name, next(iter(view.networks[name].subnets)))}
            for name in networks.role_networks(role)
        },
        "HostnameFormatDefault": f"%stackname%-{role.lower()}-%index%",
        "update_serial": 1 if "control" in one.functions else 25,
        "ServicesDefault": sorted(f"OS::TripleO::Services::{name}" for name in dict.fromkeys(services)),
    }
    external = view.network_at(view.deployment.external_vip)
    if external in networks.role_networks(role):
        found["default_route_networks"] = [networks.names[external]]
    return found
