"""A pod of machines from enrolment to receipt where Neutron sets the switches, on the lab's own switches.

A second weft, with a site of two machines: their adapters, and the ones beside them for management, are cabled to the
switch ports of two nodes of the lab. A real Ironic deploys and cleans them over these adapters, and Neutron with
networking-generic-switch and weft's drivers puts each port into a VLAN whenever Ironic asks.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
import pytest
import yaml
from sqlalchemy import create_engine, text

from tests.drivers.openstack.real_ironic import RealIronic, real_ironic
from tests.e2e.people import Answer, Person, wait_for
from tests.e2e.switchedironic import CLEANING, PROVISIONING, ironics, networks
from tests.e2e.switchedneutron import (
    VLAN,
    operator_of,
    read_switches,
    switch_mac,
    switched_neutron,
    switching_of,
)
from weft.drivers.switches import EthernetFabric
from weft.model.site import Accelerator, Hca, Node, Site
from weftlab import config
from weftlab.lab import Lab
from weftlab.metal.config import secret_path
from weftlab.metal.machines import FLAVOR, GPU, GPUS, RESOURCE_CLASS, flavor, mac, machine_id
from weftlab.site import write_site
from weftlab.switches.labsite import FABRIC, PHYSICAL_NETWORK

pytestmark = [
    pytest.mark.cloud,
    pytest.mark.nightly(
        reason="minutes of Ironic's deployments; Neutron with the switches runs by day, and pods by fakes"
    ),
]

CABLED = {"bm01": "roce02", "bm02": "roce04"}
"""Machine -> node of the lab, on each leaf one, to whose switch ports it is cabled instead."""
SEGMENTS, MANAGEMENT = (VLAN + 10, VLAN + 11), (VLAN + 20, VLAN + 21)
POD = f"""\
name: metal
nodes: {{kind: bare_metal, count: 2, flavor: {FLAVOR}, image: tiny}}
"""
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

    def run(self) -> None:
        while not self.stop.wait(0.2):
            for name, numbers in self.now().items():
                seen = self.seen.setdefault(name, [])
                if not seen or numbers != seen[-1]:
                    seen.append(numbers)

    def used(self, name: str) -> list[frozenset[int]]:
        """Without the parking in between."""
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


def site_of(lab: Lab) -> Site:
    """Two machines with one adapter each on the lab's switches, whose VLANs Neutron sets."""
    document = lab.site.model_dump(mode="json")
    fabric, cloud = document["fabrics"][FABRIC], document["clouds"]["lab"]
    fabric["manager"]["switching"]["configured_by"] = "neutron"
    fabric |= {"segments": {"first": SEGMENTS[0], "last": SEGMENTS[1]}, "traffic": None}
    management = {"physical_network": PHYSICAL_NETWORK, "addresses": "10.96.0.0/16"}
    cloud["management"] |= {**management, "segments": {"first": MANAGEMENT[0], "last": MANAGEMENT[1]}}
    cloud |= {"machines_by": "ironic", "flavors": {FLAVOR: flavor().model_dump(mode="json")}}
    return Site.model_validate(
        {
            "name": "machines",
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


def list_of(lab: Lab, ironic: RealIronic, watch: Watch) -> Path:
    """The hardware list: two ports each, and Ironic boots its agent over either."""
    places = {s.name: switch_mac(n) for n, s in enumerate(switching_of(lab.site).switches, 1)}

    def port(address: str, end: str) -> dict[str, str]:
        switch, _, name = end.partition("/")
        cable = {"switch": switch, "switch_port": name, "switch_mac": places[switch]}
        return {"mac": address, "physical_network": PHYSICAL_NETWORK, **cable}

    machines = {
        name: {
            "bmc": ironic.layout.url("bmc"),
            "system": f"/redfish/v1/Systems/{machine_id(name)}",
            "ports": [
                port(str(machine_of(lab, name).hcas[0].mac), watch.ends[f"{name} rdma"]),
                port(mac(index), watch.ends[f"{name} management"]),
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


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """People of the lab, who speak to the second weft and find its services."""

    lab: Lab
    folder: Path
    clouds: Path
    url: str

    def weft(self, cloud: str, *words: str, timeout: float = 600.0) -> Answer:
        own = {"WEFT_ENDPOINT": self.url, "OS_CLIENT_CONFIG_FILE": str(self.clouds)}
        return Person(self.lab, cloud, self.folder).weft(*words, timeout=timeout, **own)

    def release_all(self) -> None:
        for pod in self.weft("operator", "pod", "list", "--all-projects", "--json").json:
            if pod["state"] != "RELEASED":
                self.weft("operator", "pod", "release", pod["id"], "--wait")


def clouds_of(lab: Lab, neutron: str, ironic: RealIronic, folder: Path) -> Path:
    """Everybody's, with these two instead of the lab's own."""
    places = {"network_endpoint_override": neutron, "baremetal_endpoint_override": ironic.url}
    known = yaml.safe_load(lab.clouds_yaml.read_text())["clouds"]
    file = folder / "clouds.yaml"
    file.write_text(yaml.safe_dump({"clouds": {name: one | places for name, one in known.items()}}))
    return file


@contextmanager
def second_weft(lab: Lab, site: Path, clouds: Path) -> Generator[Elsewhere]:
    """It serves. Whatever pods are left in the end are released."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    # Not in pytest's folder: the embedded PostgreSQL runs as a user of its own.
    with TemporaryDirectory(prefix="weft-second-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        argv = [sys.executable, "-m", "weft.cli.main", "serve", "--listen", f"127.0.0.1:{port}"]
        argv += ["--state", str(folder / "state"), "--cloud-profile", "weft", "--site", str(site)]
        known = {k: v for k, v in os.environ.items() if not k.startswith("OS_")}
        own = {**known, "OS_CLIENT_CONFIG_FILE": str(clouds), "XDG_RUNTIME_DIR": name}
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(argv, env=own, stdout=log, stderr=log, cwd=folder)
        people = Elsewhere(lab, site.parent, clouds, url)
        try:
            wait_for(lambda: process.poll() is not None or _is_ready(url), 180)
            assert process.poll() is None, (folder / "log").read_text()[-3000:]
            try:
                yield people
            finally:
                people.release_all()
            assert "Traceback" not in (folder / "log").read_text()
        finally:
            process.terminate()
            process.wait(60)


def _is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz", timeout=5).status_code == 200
    except httpx.HTTPError:
        return False


@pytest.fixture
def folder() -> Iterator[Path]:
    with TemporaryDirectory(prefix="weft-switched-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def made(folder: Path, name: str) -> Path:
    path = folder / name
    path.mkdir()
    return path


def test_a_pods_switch_ports_go_through_ironics_vlans_and_its_own_from_order_to_receipt(
    lab: Lab, folder: Path
) -> None:
    """Cleaning, provisioning, the pod's, cleaning: each port in none but one, and in none when its machine is free."""
    with ExitStack() as undo:
        watch = undo.enter_context(watched(lab))
        neutron = undo.enter_context(switched_neutron(lab, made(folder, "neutron")))
        own = undo.enter_context(networks(operator_of(lab, neutron)))
        sections = ironics(lab, neutron, own) | undo.enter_context(database_of(lab))
        ironic = undo.enter_context(real_ironic(made(folder, "ironic"), sections, count=len(CABLED)))
        site = write_site(site_of(lab), made(folder, "site"))
        people = undo.enter_context(second_weft(lab, site, clouds_of(lab, neutron, ironic, folder)))

        def typed(cloud: str, *words: str) -> Answer:
            answer = people.weft(cloud, *words)
            assert answer.code == 0, answer.out + answer.err
            return answer

        hardware = str(list_of(lab, ironic, watch))
        typed("enroller", "site", "enroll", str(site), hardware)
        (people.folder / "metal.yaml").write_text(POD)
        typed("team-a", "pod", "create", "-f", "metal.yaml", "--wait")
        number = int(typed("team-a", "pod", "show", "metal", "--json").json["segment"])
        now = watch.now()
        assert {now[f"{name} rdma"] for name in CABLED} == {frozenset({number})}
        [management] = {now[f"{name} management"] for name in CABLED}
        assert number in SEGMENTS and management <= {*MANAGEMENT} and len(management) == 1
        typed("operator", "audit")

        typed("team-a", "pod", "release", "metal", "--wait")
        (people.folder / "receipt.json").write_text(typed("team-a", "pod", "receipt", "metal", "--json").out)
        typed("team-a", "receipt", "verify", "receipt.json")
        assert_clean_receipt(json.loads((people.folder / "receipt.json").read_text())["receipt"])
        typed("operator", "audit")
        wait_for(lambda: not any(watch.now().values()), 60)
        for name in CABLED:
            turns = [{CLEANING}, {PROVISIONING}, {number}, {CLEANING}]
            assert watch.used(f"{name} rdma") == turns, watch.seen
            assert watch.used(f"{name} management") == [*turns[:2], management, turns[3]], watch.seen


def assert_clean_receipt(receipt: Mapping[str, object]) -> None:
    """Each machine with the record of its cleaning, each switch port read without the VLAN."""
    items = receipt["items"]
    assert isinstance(items, list)
    assert receipt["clean"], items
    machines = [i["seen"] for i in items if i["plane"] == "machine"]
    assert len(machines) == len(CABLED) and all("disks erased" in seen for seen in machines), items
    assert sum(i["plane"] == "switch port" for i in items) == len(CABLED), items
