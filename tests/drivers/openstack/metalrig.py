"""A fake Ironic API with one machine, for servers that weft deploys without Nova."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.drivers.openstack.tinycloud import PROJECT, tiny_cloud
from tests.drivers.openstack.tinyironic import NODE, TinyIronic
from weft.drivers.openstack import OpenStackDriver, OpenStackFacts, Sessions
from weft.drivers.openstack.lookups import Lookups
from weft.model.errors import WeftError
from weft.model.owner import Owner
from weft.model.resources import Observed, Outcome, Resource
from weft.model.specs import MachineSpec, ServerSpec
from weft.ports.resources import Scope

SCOPE = Scope("lab", Owner.pod("00000000-1111-2222-3333-444444444444"), "train", PROJECT)
MACHINE = Resource(
    key="machine/bm01", name="weft-00000000-machine-bm01", where="lab", spec=MachineSpec(machine=NODE)
)
SERVER = Resource(
    key="server/bm01",
    name="weft-00000000-server-bm01",
    where="lab",
    spec=ServerSpec(
        host=NODE,
        bare_metal=True,
        by="ironic",
        flavor="metal8",
        image="tiny",
        key_pair="key_pair",
        user_data="#!/bin/sh",
        ports=("port/bm01/management", "port/bm01/mlx5_0"),
    ),
)
IDS = {"port/bm01/management": "port-1", "port/bm01/mlx5_0": "port-2", "key_pair": "weft-key"}
AT = f"/baremetal/v1/nodes/{NODE}"
STEPS = {
    "the machine given": f"PATCH {AT}",
    "the first port": f"POST {AT}/vifs",
    "the deployment": f"PUT {AT}/states/provision",
}


@dataclass(frozen=True)
class Rig:
    ironic: TinyIronic
    driver: OpenStackDriver
    facts: OpenStackFacts
    sessions: Sessions

    @property
    def node(self) -> dict[str, Any]:
        return self.ironic.nodes[NODE]

    def claim(self, scope: Scope = SCOPE) -> None:
        outcome = self.driver.create(scope, [MACHINE], {})[MACHINE.key]
        assert outcome.error is None, outcome.error

    def create(self, scope: Scope = SCOPE) -> Outcome:
        return self.driver.create(scope, [SERVER], IDS)[SERVER.key]

    def see(self, server: str | None = None, scope: Scope = SCOPE) -> Observed:
        ids = {**IDS, SERVER.key: server} if server else IDS
        return self.driver.find(scope, [SERVER], ids)[SERVER.key]

    def update(self, server: str) -> WeftError | None:
        return self.driver.update(SCOPE, [SERVER], {**IDS, SERVER.key: server})[SERVER.key].error

    def delete(self, server: str | None = None, scope: Scope = SCOPE) -> WeftError | None:
        ids = {**IDS, SERVER.key: server} if server else IDS
        return self.driver.delete(scope, [SERVER], ids)[SERVER.key].error

    def free(self) -> WeftError | None:
        return self.driver.delete(SCOPE, [MACHINE], {})[MACHINE.key].error

    def running(self) -> str:
        self.claim()
        made = self.create()
        assert made.id is not None, made.error
        self.ironic.deployed(NODE)
        return made.id

    def forget_images(self) -> None:
        self.driver._lookups = Lookups()  # pyright: ignore[reportPrivateUsage] - they are remembered for a minute

    def changes(self) -> list[str]:
        return [line for line in self.ironic.asked if not line.startswith("GET") and "baremetal" in line]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with tiny_cloud(TinyIronic) as (cloud, text):
        assert isinstance(cloud, TinyIronic)
        file = tmp_path_factory.mktemp("tiny") / "clouds.yaml"
        file.write_text(text)
        sessions = Sessions("weft", [file])
        driver = OpenStackDriver("lab", sessions, machines=True)
        facts = OpenStackFacts(sessions, machines=[NODE], site="lab", by_ironic=True)
        yield Rig(cloud, driver, facts, sessions)
        driver.close()
        sessions.close()


@pytest.fixture
def rig(house: Rig) -> Rig:
    ironic = house.ironic
    ironic.reset()
    house.forget_images()
    ironic.things["images"] = [{"id": "image-1", "name": "tiny", "status": "active"}]
    ironic.things["keypairs"] = [{"id": "weft-key", "public_key": "ssh-ed25519 AAAA weft"}]
    macs = {"port-1": "02:00:00:00:b0:01", "port-2": "00:02:c9:50:00:01"}
    ironic.things["ports"] = [
        {
            "id": i,
            "name": i,
            "mac_address": m,
            "network_id": f"net-{i}",
            "fixed_ips": [{"subnet_id": f"sub-{i}", "ip_address": "10.1.0.5"}],
        }
        for i, m in macs.items()
    ]
    ironic.things["networks"] = [{"id": f"net-{i}", "name": i, "mtu": 1500} for i in macs]
    ironic.things["subnets"] = [
        {
            "id": f"sub-{i}",
            "name": i,
            "ip_version": 4,
            "cidr": "10.1.0.0/24",
            "enable_dhcp": i == "port-1",
            "gateway_ip": None,
            "host_routes": [],
            "dns_nameservers": [],
        }
        for i in macs
    ]
    ironic.ports = [{"uuid": f"nic-{i}", "node_uuid": NODE, "address": m} for i, m in macs.items()]
    return house


VM_HOST = {
    "id": "hv-1",
    "hypervisor_hostname": "gpu01",
    "state": "up",
    "service": {"host": "gpu01"},
    "cpu_info": {"arch": "x86_64"},
    "servers": [{"uuid": "vm-1", "name": "train-1"}],
}


def new_facts(rig: Rig, *machines: str) -> OpenStackFacts:
    """The facts of a process that has listed nothing yet; the cloud has a host of virtual machines."""
    rig.ironic.things["hypervisors"] = [VM_HOST]
    rig.ironic.things["flavors"] = [{"id": "gpu", "name": "gpu", "extra_specs": {}}]
    return OpenStackFacts(rig.sessions, machines=machines, site="lab", by_ironic=True)
