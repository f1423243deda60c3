"""Machines that are cabled to the lab's own switches: a site of two, their hardware list, and what their ports are in.

Their adapters, and the ones beside them for management, are cabled to the switch ports of two nodes of the lab.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from sqlalchemy import create_engine, text

from tests.drivers.openstack.real_ironic import RealIronic
from tests.e2e.switchedironic import CLEANING, PROVISIONING
from tests.e2e.switchedneutron import SECOND_NETWORK, VLAN, read_switches, switch_mac, switching_of
from weft.drivers.switches import EthernetFabric
from weft.model.site import Accelerator, Hca, Node, Site
from weftlab import config
from weftlab.lab import Lab
from weftlab.metal.config import secret_path
from weftlab.metal.machines import FLAVOR, GPU, GPUS, RESOURCE_CLASS, flavor, mac, machine_id
from weftlab.switches.labsite import FABRIC, PHYSICAL_NETWORK

CABLED = {"bm01": "roce02", "bm02": "roce04"}
"""Machine -> node of the lab, on each leaf one, to whose switch ports it is cabled instead."""
SEGMENTS, MANAGEMENT = (VLAN + 10, VLAN + 11), (VLAN + 20, VLAN + 21)
DATABASE = "ironic_of_a_test"


@dataclass(slots=True)
class Watch:
    """What switch ports were in, one reading after the other, without repetitions.

    Attributes:
        ends: port of a machine, such as `bm01 rdma` -> switch port.
    """

    fabric: EthernetFabric
    ends: Mapping[str, str]
    seen: dict[str, list[frozenset[int]]] = field(default_factory=dict[str, list[frozenset[int]]])
    stop: threading.Event = field(default_factory=threading.Event)

    def now(self) -> dict[str, frozenset[int]]:
        ours = {CLEANING, PROVISIONING, *SEGMENTS, *MANAGEMENT}
        there = self.fabric.snapshot().ends
        return {name: there[end].numbers & ours for name, end in self.ends.items()}

    def all_of(self, end: str) -> frozenset[int]:
        """All VLANs of a switch port, not only these networks'; empty: it is parked."""
        return self.fabric.snapshot().ends[end].numbers

    def run(self) -> None:
        while not self.stop.wait(0.2):
            for name, numbers in self.now().items():
                seen = self.seen.setdefault(name, [])
                if not seen or numbers != seen[-1]:
                    seen.append(numbers)

    def used(self, name: str) -> list[frozenset[int]]:
        """The VLANs that a port was in, one after the other, without the parking between them."""
        return [numbers for numbers in self.seen[name] if numbers]


@contextmanager
def watched(lab: Lab) -> Iterator[Watch]:
    ends = {
        f"{machine} {use}": str(hca.switch_port)
        for machine, node in CABLED.items()
        for use, hca in zip(("rdma", "management"), lab.site.node_by_name[node].hcas_on(FABRIC), strict=True)
    }
    with read_switches(lab) as fabric:
        watch = Watch(fabric, ends)
        thread = threading.Thread(target=watch.run)
        thread.start()
        try:
            yield watch
        finally:
            watch.stop.set()
            thread.join()


def management_network(by: str) -> str:
    """Through Nova, Ironic would attach management's port to either adapter, if both were on one physical network."""
    return PHYSICAL_NETWORK if by == "ironic" else SECOND_NETWORK


def site_of(lab: Lab, by: str) -> Site:
    """Two machines with one adapter each on the lab's switches, whose VLANs Neutron sets. Args: by: who deploys."""
    document = lab.site.model_dump(mode="json")
    fabric, cloud = document["fabrics"][FABRIC], document["clouds"]["lab"]
    fabric["manager"]["switching"]["configured_by"] = "neutron"
    fabric |= {"segments": {"first": SEGMENTS[0], "last": SEGMENTS[1]}, "traffic": None}
    management = {"physical_network": management_network(by), "addresses": "10.96.0.0/16"}
    cloud["management"] |= {**management, "segments": {"first": MANAGEMENT[0], "last": MANAGEMENT[1]}}
    cloud |= {"machines_by": by, "flavors": {FLAVOR: flavor().model_dump(mode="json")}}
    return Site.model_validate(
        {
            # A weft with a new database, of a site that the cloud knows, would be a restored one.
            "name": f"machines-{by}-{secrets.token_hex(2)}",
            "clouds": {"lab": cloud},
            "fabrics": {FABRIC: fabric},
            "racks": document["racks"],
            "switches": [s for s in document["switches"] if s["fabric"] == FABRIC],
            "nodes": [machine_of(lab, name).model_dump(mode="json") for name in CABLED],
        }
    )


def machine_of(lab: Lab, name: str) -> Node:
    node = lab.site.node_by_name[CABLED[name]]
    adapter = node.hcas_on(FABRIC)[0]
    known = adapter.model_dump(include={"name", "fabric", "guid", "port_guid", "pci", "numa", "mac"})
    slots = (Accelerator(type=GPU, pci=f"0000:{0x10 + g:02x}:00.0", numa=g // 4) for g in range(GPUS))
    return Node(
        name=name,
        rack=node.rack,
        cloud="lab",
        machine=machine_id(name),
        hcas=(Hca(**known, switch_port=adapter.switch_port, rate_gbps=100),),
        accelerators=tuple(slots),
    )


def list_of(lab: Lab, ironic: RealIronic, watch: Watch, by: str) -> Path:
    """The hardware list: two ports each, and Ironic boots its agent over either."""
    places = {s.name: switch_mac(n) for n, s in enumerate(switching_of(lab.site).switches, 1)}

    def port(address: str, end: str, network: str = PHYSICAL_NETWORK) -> dict[str, str]:
        switch, _, name = end.partition("/")
        cable = {"switch": switch, "switch_port": name, "switch_mac": places[switch]}
        return {"mac": address, "physical_network": network, **cable}

    machines = {
        name: {
            "bmc": ironic.layout.url("bmc"),
            "system": f"/redfish/v1/Systems/{machine_id(name)}",
            "ports": [
                port(str(machine_of(lab, name).hcas[0].mac), watch.ends[f"{name} rdma"]),
                port(mac(index), watch.ends[f"{name} management"], management_network(by)),
            ],
        }
        for index, name in enumerate(CABLED)
    }
    account = {"account": secret_path(ironic.layout).name, "verify_ca": "false"}
    defaults = {"driver": "lab", "resource_class": RESOURCE_CLASS, **account}
    path = secret_path(ironic.layout).with_name("switched.yaml")
    path.write_text(yaml.safe_dump({"defaults": defaults, "inspect": False, "machines": machines}))
    return path


@contextmanager
def database_of(lab: Lab) -> Iterator[config.Sections]:
    """Ironic's, on the lab's server: on SQLite two machines' threads are in each other's way."""
    engine = create_engine(config.database_url(lab.layout, "mysql"), isolation_level="AUTOCOMMIT")
    try:
        with engine.connect() as connection:
            connection.execute(text(f"CREATE DATABASE {DATABASE} CHARACTER SET utf8"))
            try:
                yield {"database": {"connection": config.database_url(lab.layout, DATABASE)}}
            finally:
                connection.execute(text(f"DROP DATABASE {DATABASE}"))
    finally:
        engine.dispose()
