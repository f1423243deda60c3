"""A machine through Ironic, Neutron and networking-generic-switch with weft's drivers, on the lab's switches."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import openstack
import pytest
import yaml
from openstack.connection import Connection

from tests.drivers.openstack.real_ironic import PATIENCE, RealIronic, real_ironic
from tests.e2e.people import wait_for
from tests.e2e.switchedironic import CLEANING, PROVISIONING, ironics, network_of, networks
from tests.e2e.switchedneutron import VLAN, adapter, operator_of, read_switches, switched_neutron
from weft.drivers.openstack import OpenStackDriver, Sessions
from weft.drivers.switches import EthernetFabric
from weft.model.errors import NotYetError, WeftError
from weft.model.owner import Owner
from weft.model.resources import Resource, Status
from weft.model.specs import MachineSpec, ServerSpec
from weft.ports.resources import Scope
from weftlab.lab import Lab
from weftlab.metal.config import secret_path
from weftlab.metal.machines import RESOURCE_CLASS, mac
from weftlab.switches.labsite import PHYSICAL_NETWORK

pytestmark = [
    pytest.mark.cloud,
    pytest.mark.nightly(
        reason="minutes of Ironic's cleanings; Neutron with the switches, and Ironic with the driver, run by day"
    ),
]

TENANT = VLAN + 4
CABLED = "roce02"
"""A node of the lab, to whose switch port the machine is cabled instead."""


@dataclass(slots=True)
class Watch:
    """What the switch port was in, one reading after the other, without repetitions."""

    fabric: EthernetFabric
    end: str
    seen: list[frozenset[int]] = field(default_factory=list[frozenset[int]])
    stop: threading.Event = field(default_factory=threading.Event)

    def now(self) -> frozenset[int]:
        return self.fabric.snapshot().ends[self.end].numbers & {CLEANING, PROVISIONING, TENANT}

    def run(self) -> None:
        while not self.stop.wait(0.3):
            now = self.now()
            if not self.seen or now != self.seen[-1]:
                self.seen.append(now)


@pytest.fixture
def watch(lab: Lab) -> Generator[Watch]:
    with read_switches(lab) as fabric:
        made = Watch(fabric, adapter(lab, CABLED))
        thread = threading.Thread(target=made.run)
        thread.start()
        yield made
        made.stop.set()
        thread.join()


def enrolled(ironic: RealIronic, end: str) -> None:
    """Enroll the machine with one port, cabled to this switch port; it is cleaned once."""
    name, password = secret_path(ironic.layout).read_text().split()
    bmc = {"address": ironic.layout.url("bmc"), "system_id": f"/redfish/v1/Systems/{ironic.node}"}
    bmc |= {"username": name, "password": password, "verify_ca": "false"}
    node = {"uuid": ironic.node, "name": "bm01", "driver": "lab", "resource_class": RESOURCE_CLASS}
    ironic.ask("POST", "nodes", {**node, "driver_info": {f"redfish_{k}": v for k, v in bmc.items()}})
    switch, _, port = end.partition("/")
    link = {"switch_id": "00:00:00:00:00:00", "switch_info": switch, "port_id": port}
    body = {"node_uuid": ironic.node, "address": mac(0), "physical_network": PHYSICAL_NETWORK}
    ironic.ask("POST", "ports", {**body, "local_link_connection": link, "pxe_enabled": True})
    ironic.provision("manage", "manageable")
    ironic.provision("provide", "available")


@contextmanager
def drivers(lab: Lab, neutron: str, ironic: RealIronic, folder: Path) -> Iterator[OpenStackDriver]:
    """weft's, with its own account in the lab, on these two."""
    clouds = yaml.safe_load(lab.clouds_yaml.read_text())
    places = {"network_endpoint_override": neutron, "baremetal_endpoint_override": ironic.url}
    clouds["clouds"]["weft"].update(places)
    file = folder / "clouds.yaml"
    file.write_text(yaml.safe_dump(clouds))
    sessions = Sessions("weft", [file])
    driver = OpenStackDriver("lab", sessions, machines=True)
    try:
        yield driver
    finally:
        driver.close()
        sessions.close()


def tenants_port(lab: Lab, neutron: str, undo: ExitStack) -> tuple[str, str]:
    """A project and the id of a port of it, as weft makes one for a machine."""
    known = openstack.config.OpenStackConfig(config_files=[str(lab.clouds_yaml)])
    weft = Connection(config=known.get_one("weft", network_endpoint_override=neutron))
    cloud = weft.connect_as_project("team-a")
    network = network_of(cloud, TENANT, undo)
    made: Any = cloud.network.create_port(
        network_id=network, binding_vnic_type="baremetal", mac_address=mac(0), is_port_security_enabled=False
    )
    undo.callback(_port_gone, cloud, made.id)
    return str(cloud.current_project_id), str(made.id)


def _port_gone(cloud: Connection, port: str) -> None:
    """Delete the port as weft does: Neutron lets no project delete a port that is a machine's."""
    cloud.network.update_port(port, device_owner="", device_id="")
    cloud.network.delete_port(port)


def insistent(ask: Callable[[], WeftError | None]) -> None:
    """Ask until it isn't too early any more, as the loop does."""
    end = time.monotonic() + PATIENCE
    while (error := ask()) is not None:
        assert isinstance(error, NotYetError) and time.monotonic() < end, error
        time.sleep(1)


def test_machines_switch_port_follows_its_vlans_and_ends_parked(
    lab: Lab, watch: Watch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Cleaning, provisioning, the tenant's, cleaning: never in two, in none when it is free."""
    folder = tmp_path_factory.mktemp("ironic")
    with ExitStack() as undo:
        neutron = undo.enter_context(switched_neutron(lab, tmp_path_factory.mktemp("neutron")))
        own = undo.enter_context(networks(operator_of(lab, neutron)))
        project, port = tenants_port(lab, neutron, undo)
        ironic = undo.enter_context(real_ironic(folder, ironics(lab, neutron, own)))
        enrolled(ironic, watch.end)
        driver = undo.enter_context(drivers(lab, neutron, ironic, folder))
        scope = Scope("lab-test", Owner.pod("00000000-1111-2222-3333-444444444444"), "train", project)
        machine = Resource(key="machine/bm01", name="m", where="lab", spec=MachineSpec(machine=ironic.node))
        spec = ServerSpec(
            host=ironic.node, bare_metal=True, by="ironic", flavor="m", image="tiny", ports=("port/p",)
        )
        server = Resource(key="server/bm01", name="lab-test-server", where="lab", spec=spec)
        ids = {"port/p": port}
        assert driver.create(scope, [machine], {})[machine.key].error is None
        made = driver.create(scope, [server], ids)[server.key]
        assert made.id is not None, made.error
        ids[server.key] = made.id

        def settled() -> bool:
            seen = driver.find(scope, [server], ids)[server.key]
            assert seen.status is not Status.BROKEN, seen.reason
            return seen.status is Status.SETTLED and not seen.differences

        wait_for(settled, PATIENCE)
        bound: Any = operator_of(lab, neutron).network.get_port(port)
        assert (bound.status, bound.binding_host_id, bound.mac_address) == ("ACTIVE", ironic.node, mac(0))
        assert watch.now() == {TENANT}
        insistent(lambda: driver.delete(scope, [server], ids)[server.key].error)
        wait_for(lambda: not driver.find(scope, [server], ids)[server.key].there, PATIENCE)
        ironic.await_state("available")
        insistent(lambda: driver.delete(scope, [machine], {})[machine.key].error)
        wait_for(lambda: not watch.now(), 60)
        used = [seen for seen in watch.seen if seen]
        assert used == [{CLEANING}, {PROVISIONING}, {TENANT}, {CLEANING}], watch.seen
