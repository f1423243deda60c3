"""The whole site."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property
from typing import Any, Self

from pydantic import Field

from weft.model.base import Document
from weft.model.ids import Name
from weft.model.site.cabling import Link, Rack, Switch
from weft.model.site.checks import ChecksPolicy
from weft.model.site.clouds import Cloud
from weft.model.site.devices import Device, Interface
from weft.model.site.fabrics import Fabric
from weft.model.site.hosts import Hca, Node
from weft.model.site.ipus import IpuMachine, IpuPod
from weft.model.site.monitoring import Monitoring
from weft.model.site.networks import SiteNetwork
from weft.model.site.policies import (
    AcceptancePolicy,
    LeasePolicy,
    PlacementPolicy,
    QueuePolicy,
    RepairPolicy,
)
from weft.model.site.retention import RetentionPolicy
from weft.model.site.webhooks import WebhookPolicy

Unit = Node | IpuMachine
ADAPTERS = "host or adapters (names, fabrics, ports, addresses)"


class SiteHead(Document):
    """The part of a site that is not in tables."""

    name: Name = Field(description="Name of the site; part of the mark on everything that weft creates.")
    clouds: dict[Name, Cloud] = Field(min_length=1, description="OpenStack clouds, by name.")
    fabrics: dict[Name, Fabric] = Field(default_factory=dict, description="RDMA fabrics, by name.")
    ipu_pods: dict[Name, IpuPod] = Field(default_factory=dict, description="IPU-PODs, by name.")
    networks: dict[Name, SiteNetwork] = Field(
        default_factory=dict, description="The site's own networks, by name."
    )
    queue: QueuePolicy = Field(default=QueuePolicy(), description="How waiting orders are served.")
    repair: RepairPolicy = Field(default=RepairPolicy(), description="What happens to nodes that fail.")
    acceptance: AcceptancePolicy = Field(
        default=AcceptancePolicy(), description="Which nodes must be accepted before they are assigned again."
    )
    checks: ChecksPolicy = Field(
        default=ChecksPolicy(), description="What follows from results of nodes' own checks."
    )
    leases: LeasePolicy = Field(default=LeasePolicy(), description="Limits on leases.")
    retention: RetentionPolicy = Field(
        default=RetentionPolicy(), description="How long records that are no longer needed are kept."
    )
    placement: PlacementPolicy = Field(
        default=PlacementPolicy(), description="What decides between possible placements."
    )
    monitoring: Monitoring = Field(
        default=Monitoring(), description="What Prometheus reads of the site, and where alerts go."
    )
    webhooks: WebhookPolicy = Field(
        default=WebhookPolicy(), description="Where tenants may have their pods' events sent."
    )


class Site(SiteHead):
    """The whole site. Equal sites give equal plans."""

    racks: tuple[Rack, ...] = Field(default=(), description="Racks.")
    switches: tuple[Switch, ...] = Field(default=(), description="Switches.")
    links: tuple[Link, ...] = Field(default=(), description="Cables.")
    nodes: tuple[Node, ...] = Field(default=(), description="Hosts.")
    ipu_machines: tuple[IpuMachine, ...] = Field(default=(), description="IPU-Machines.")
    devices: tuple[Device, ...] = Field(
        default=(), description="Other hardware: management switches, PDUs, storage."
    )
    interfaces: tuple[Interface, ...] = Field(
        default=(), description="Interfaces of hardware on the site's own networks."
    )

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with other values, without anything cached from the old ones."""
        copied = super().model_copy(update=update, deep=deep)
        for name in [name for name in vars(copied) if name not in type(self).model_fields]:
            del vars(copied)[name]
        return copied

    @cached_property
    def node_by_name(self) -> dict[str, Node]:
        """Name -> host with accelerators."""
        return {n.name: n for n in self.nodes}

    @cached_property
    def units(self) -> dict[str, Unit]:
        """Name -> unit that pods hold: nodes, then IPU-Machines."""
        return {**self.node_by_name, **self.machine_by_name}

    def ports_of(self, unit: str, fabric: str) -> tuple[tuple[str, str], ...]:
        """Name and id of each port of a unit on a fabric."""
        found = self.units[unit]
        if isinstance(found, Node):
            return tuple((h.name, h.port_id) for h in found.hcas_on(fabric))
        mine = self.machine_by_port.get((fabric, found.port_id)) is found
        return (("rnic", found.port_id),) if mine else ()

    def used_of(self, unit: str, parts: bool) -> Mapping[str, object]:
        """Properties of a unit that can't change while pods hold it: name -> value. Empty: no such unit.

        Args:
            parts: whether pods have parts of it, which are counted against what it has.
        """
        found = self.units.get(unit)
        if found is None:
            return {}
        if isinstance(found, IpuMachine):
            pod = self.ipu_pods.get(found.ipu_pod)
            wired = (found.rnic_mac, found.rnic_address, found.rnic_switch, found.rnic_switch_port)
            # At another address than the pod was built with, the agent of another machine would answer.
            reached = (found.position, found.gw_mac, found.gw_address, found.agent_port)
            return {ADAPTERS: (found.ipu_pod, pod and pod.data.fabric, *wired, *reached)}
        only = next(iter(self.clouds)) if len(self.clouds) == 1 else None
        cables = [
            (h.name, h.fabric, h.guid, h.port_id, self._bond.get((h.fabric, h.port_id))) for h in found.hcas
        ]
        whole = {"role": found.role, "cloud": found.cloud or only, ADAPTERS: (found.nova_host, cables)}
        if not parts:
            return whole
        return {
            **whole,
            "accelerators": found.accelerators,
            "cores or memory": (found.cores, found.dedicated_cores, found.memory_mib),
            "NUMA nodes or sockets": (found.numa, found.sockets),
            "virtual functions": [(h.vfs, h.vf_mac, h.vf_pci, h.pci, h.numa, h.switch) for h in found.hcas],
        }

    @cached_property
    def _bond(self) -> dict[tuple[str, str], frozenset[str]]:
        """Fabric and end of a bond -> all of its ends."""
        switching = {n: s for n, f in self.fabrics.items() if (s := f.manager.switching) is not None}
        return {
            (fabric, end): frozenset(bundle.ports)
            for fabric, one in switching.items()
            for bundle in one.bundles
            for end in bundle.ports
        }

    def is_bound(self, unit: str) -> bool:
        """Whether a unit is bound to the pod that holds it: then it is no fault that others can't have it."""
        return unit in self.machine_by_name

    @cached_property
    def switch_by_name(self) -> dict[str, Switch]:
        """Name -> switch of any fabric."""
        return {s.name: s for s in self.switches}

    @property
    def managers(self) -> Collection[str]:
        """Names of the managers of accelerators outside of hosts: the IPU-PODs."""
        return self.ipu_pods.keys()

    @property
    def link_count(self) -> int:
        """Number of cables: those of the table `links`, and those described by Ethernet switches' ports."""
        switching = {n: s for n, f in self.fabrics.items() if (s := f.manager.switching) is not None}
        adapters = (h for n in self.nodes for h in n.hcas if h.fabric in switching)
        by_port = sum(1 for h in adapters if h.switch_port is not None)
        return len(self.links) + sum(len(s.links) for s in switching.values()) + by_port

    @cached_property
    def machine_by_name(self) -> dict[str, IpuMachine]:
        """Name -> IPU-Machine."""
        return {m.name: m for m in self.ipu_machines}

    @cached_property
    def port_by_id(self) -> dict[tuple[str, str], tuple[Node, Hca]]:
        """Fabric and id of a port -> its node and adapter."""
        return {(h.fabric, h.port_id): (n, h) for n in self.nodes for h in n.hcas}

    @cached_property
    def machine_by_port(self) -> dict[tuple[str, str], IpuMachine]:
        """Fabric and id of a port -> the IPU-Machine whose RNIC is cabled to it."""
        return {
            (fabric, m.port_id): m
            for m in self.ipu_machines
            if m.rnic_switch_port is not None
            and m.ipu_pod in self.ipu_pods
            and (fabric := self.ipu_pods[m.ipu_pod].data.fabric) is not None
        }

    @cached_property
    def _guids_on(self) -> dict[str, frozenset[int]]:
        found: dict[str, set[int]] = {}
        for node in self.nodes:
            for hca in node.hcas:
                found.setdefault(hca.fabric, set()).add(hca.port_guid)
        return {fabric: frozenset(guids) for fabric, guids in found.items()}

    def ports_on(self, fabric: str) -> frozenset[int]:
        """GUIDs of nodes' ports on a fabric."""
        return self._guids_on.get(fabric, frozenset())

    @cached_property
    def hca_by_port_guid(self) -> dict[int, tuple[Node, Hca]]:
        """Port GUID -> node and adapter that it belongs to."""
        return {h.port_guid: (n, h) for n in self.nodes for h in n.hcas}
