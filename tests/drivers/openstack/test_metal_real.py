"""Servers through a real Ironic without Nova: assigned, deployed, torn down; taken by another first; interrupted
anywhere.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_DNS, uuid5

import pytest

from tests.drivers.openstack.real_ironic import PATIENCE, RealIronic, in_iso, list_of, real_ironic
from tests.drivers.openstack.tinycloud import PROJECT, Reply, TinyCloud, tiny_cloud
from tests.helpers.cloudinit import read_by_cloud_init
from weft.app.enroll import Enroller, read_input
from weft.drivers.openstack import OpenStackDriver, OpenStackFacts, Sessions
from weft.drivers.openstack.enrollment import Enrollment
from weft.model.errors import ConflictError, NotYetError, TemporaryError, WeftError
from weft.model.owner import Owner
from weft.model.resources import Observed, Resource, Status
from weft.model.specs import MachineSpec, ServerSpec
from weft.ports.fences import unfenced
from weft.ports.occupants import Ended
from weft.ports.resources import Scope
from weft.ports.servers import Action

pytestmark = pytest.mark.cloud
SCOPE = Scope("lab", Owner.pod("00000000-1111-2222-3333-444444444444"), "train", PROJECT)
IMAGE = "http://127.0.0.1/image"
"""Ironic asks Glance for an id; a URL needs no request to it."""
PART = "99999999-2222-3333-4444-555555555555"
"""A kernel, or a ramdisk."""
IMAGES: dict[str, tuple[dict[str, str], str]] = {
    "whole": ({}, "whole-disk"),
    "root": ({"img_type": "partition"}, "partition"),
    "booted": ({"kernel_id": PART, "ramdisk_id": PART}, "partition"),
    "declared": ({"img_type": "whole-disk", "kernel_id": PART, "ramdisk_id": PART}, "whole-disk"),
}
"""Image -> its properties, and the kind that Ironic sees in it."""
THEIRS = "77777777-0000-4000-8000-000000000000"


@dataclass(frozen=True)
class Rig:
    ironic: RealIronic
    driver: OpenStackDriver
    facts: OpenStackFacts
    machine: Resource
    server: Resource
    cloud: TinyCloud

    def claim(self) -> None:
        outcome = self.driver.create(SCOPE, [self.machine], {})[self.machine.key]
        assert outcome.error is None, outcome.error

    def free(self) -> WeftError | None:
        return self.driver.delete(SCOPE, [self.machine], {})[self.machine.key].error

    def create(self, scope: Scope = SCOPE) -> str | WeftError:
        outcome = self.driver.create(scope, [self.server], {})[self.server.key]
        made = outcome.error or outcome.id
        assert made is not None
        return made

    def see(self, server: str | None = None) -> Observed:
        ids = {self.server.key: server} if server else {}
        return self.driver.find(SCOPE, [self.server], ids)[self.server.key]

    def delete(self, server: str | None = None) -> WeftError | None:
        ids = {self.server.key: server} if server else {}
        return self.driver.delete(SCOPE, [self.server], ids)[self.server.key].error

    def wait(self, server: str | None, *statuses: Status) -> Observed:
        end = time.monotonic() + PATIENCE
        while (seen := self.see(server)).status not in statuses or seen.differences:
            assert time.monotonic() < end, seen
            time.sleep(0.5)
        return seen

    def leave(self, server: str | None = None) -> None:
        """Delete the server and wait until the machine is free."""
        end = time.monotonic() + PATIENCE
        while self.see(server).there and (error := self.delete(server)):
            assert isinstance(error, NotYetError) and time.monotonic() < end, error
            time.sleep(0.5)
        self.wait(server, Status.ABSENT)
        self.ironic.await_state("available")
        assert self.free() is None

    @property
    def node(self) -> dict[str, Any]:
        return self.ironic.ask("GET", f"nodes/{self.ironic.node}")


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    folder = tmp_path_factory.mktemp("ironic")
    with ExitStack() as stack:
        cloud, text = stack.enter_context(tiny_cloud(WithGlance))
        url = next(line.split()[-1] for line in text.splitlines() if "image_endpoint_override" in line)
        glance: dict[str, object] = {
            "auth_type": "none",
            "endpoint_override": url.replace("/image", "/glance"),
        }
        ironic = stack.enter_context(real_ironic(folder, {"glance": glance}))
        image = {"id": IMAGE, "status": "active", "visibility": "public"}
        cloud.things["images"] = [
            {**image, "name": "tiny", "trait:CUSTOM_NVME": "required"},
            {**image, "name": "picky", "trait:CUSTOM_TPM": "required"},
            *(
                {**image, "id": str(uuid5(NAMESPACE_DNS, name)), "name": name, **properties}
                for name, (properties, _) in IMAGES.items()
            ),
        ]
        file = folder / "clouds.yaml"
        own = [line for line in text.splitlines() if "baremetal_endpoint" not in line]
        file.write_text("\n".join([*own, f"    baremetal_endpoint_override: {ironic.url}"]) + "\n")
        sessions = Sessions("weft", [file])
        given = read_input(ironic.layout.site_path, list_of(ironic, traits=["CUSTOM_NVME"]))
        (seen,) = (
            Enroller(given, Enrollment(sessions), False, False, lambda line: None).run(PATIENCE).machines
        )
        assert seen.state == "available", seen.differences
        driver = OpenStackDriver("lab", sessions, machines=True)
        facts = OpenStackFacts(sessions, machines=[ironic.node], site="lab", by_ironic=True)
        machine = Resource(
            key="machine/bm01",
            name="weft-00000000-machine-bm01",
            where="lab",
            spec=MachineSpec(machine=ironic.node),
        )
        spec = ServerSpec(
            host=ironic.node,
            bare_metal=True,
            by="ironic",
            flavor="metal8",
            image="tiny",
            user_data="#!/bin/sh",
            ports=(),
        )
        server = Resource(key="server/bm01", name="weft-00000000-server-bm01", where="lab", spec=spec)
        yield Rig(ironic, driver, facts, machine, server, cloud)
        driver.close()
        sessions.close()


def test_free_machine_becomes_a_server_and_is_free_again(rig: Rig) -> None:
    before = datetime.now(UTC)
    rig.claim()
    server = rig.create()
    assert isinstance(server, str) and server.endswith(f"@{rig.ironic.node}")
    assert rig.create() == server, "a second creation makes nothing"
    node = rig.node
    assert (node["traits"], node["instance_info"]["traits"]) == (["CUSTOM_NVME"], ["CUSTOM_NVME"])
    seen = rig.wait(server, Status.SETTLED)
    assert (seen.facts["status"], seen.facts["host"]) == ("ACTIVE", rig.ironic.node)
    assert (rig.ironic.disk / "image").read_text() == IMAGE
    drive = rig.ironic.disk / "config-drive"
    meta = json.loads(in_iso(drive, "/openstack/latest/meta_data.json"))
    assert (meta["uuid"], meta["hostname"]) == (server.partition("@")[0], rig.server.name)
    assert in_iso(drive, "/openstack/latest/user_data") == "#!/bin/sh"
    (one,) = rig.facts.on_hosts([rig.ironic.node])[rig.ironic.node].occupants
    assert (one.id, one.runs) == (server, True)
    assert server in rig.facts.built(before, lambda: [server])
    assert rig.facts.endings(PROJECT, [server])[server].how is Ended.NOT_DESTROYED
    assert isinstance(rig.free(), NotYetError), "it has its server"
    assert rig.delete(server) is None
    proof = rig.wait(server, Status.ABSENT)
    assert "with no instance; conductor ironic1 is alive" in proof.reason
    assert rig.facts.endings(PROJECT, [server])[server].how is Ended.DESTROYED
    rig.leave(server)
    assert list(rig.ironic.disk.iterdir()) == []
    assert rig.node["extra"] == {}


PORTS = {
    "port/bm01/management": ("m", "02:00:00:00:b0:01", "10.60.0.7"),
    "port/bm01/mlx5_0": ("r", "00:02:c9:50:00:01", "10.64.0.9"),
}
"""Network, MAC address and IP address of each port of the machine, by key."""
SUBNETS: dict[str, tuple[int, bool, str]] = {
    "m": (1500, True, "10.60.0.0/24"),
    "r": (2044, False, "10.64.0.0/22"),
}
IPOIB = "80:00:00:28:fe:80:00:00:00:00:00:00:00:02:c9:03:00:50:00:01"


def neutron(cloud: TinyCloud) -> dict[str, str]:
    """Create networks with and without DHCP, and the server's ports; their ids by key."""
    cloud.things["networks"] = [{"id": name, "mtu": mtu} for name, (mtu, _, _) in SUBNETS.items()]
    cloud.things["subnets"] = [
        {
            "id": name,
            "ip_version": 4,
            "enable_dhcp": dhcp,
            "cidr": cidr,
            "gateway_ip": None,
            "host_routes": [],
            "dns_nameservers": [],
        }
        for name, (_, dhcp, cidr) in SUBNETS.items()
    ]
    cloud.things["ports"] = [
        {
            "id": str(uuid5(NAMESPACE_DNS, key)),
            "network_id": network,
            "mac_address": mac,
            "fixed_ips": [{"subnet_id": network, "ip_address": address}],
        }
        for key, (network, mac, address) in PORTS.items()
    ]
    return {key: str(uuid5(NAMESPACE_DNS, key)) for key in PORTS}


def test_cloud_init_reads_the_addresses_from_ironics_config_drive(rig: Rig, tmp_path: Path) -> None:
    ids = neutron(rig.cloud)
    spec = rig.server.spec.model_copy(update={"ports": tuple(PORTS)})
    rig.claim()
    one = rig.server.model_copy(update={"spec": spec})
    made = rig.driver.create(SCOPE, [one], ids)[rig.server.key]
    assert made.id is not None, made.error
    rig.ironic.await_state("active")
    text = in_iso(rig.ironic.disk / "config-drive", "/openstack/latest/network_data.json")
    read = read_by_cloud_init(json.loads(text), {"eno1": "02:00:00:00:b0:01", "ib0": IPOIB}, tmp_path)
    assert "DHCP=ipv4" in read.files["eno1"]
    assert (read.interfaces["ib0"]["type"], read.interfaces["ib0"]["mtu"]) == ("infiniband", 2044)
    assert "Address=10.64.0.9/22" in read.files["ib0"] and "DHCP=no" in read.files["ib0"]
    rig.leave(made.id)


def test_image_with_a_trait_that_the_machine_lacks_is_not_deployed(rig: Rig) -> None:
    """Ironic compares them too: the machine is assigned and stays undeployed."""
    rig.claim()
    spec = rig.server.spec.model_copy(update={"image": "picky"})
    picky = rig.server.model_copy(update={"spec": spec})
    error = rig.driver.create(SCOPE, [picky], {})[picky.key].error
    assert isinstance(error, TemporaryError) and error.alarming and "CUSTOM_TPM" in str(error)
    given = rig.see()
    assert [d.field for d in given.differences] == ["deployed"] and rig.node["provision_state"] == "available"
    rig.leave(given.id)


@pytest.mark.parametrize(
    "name",
    [
        "whole",
        "root",
        *(
            pytest.param(
                name, marks=pytest.mark.nightly(reason="a deployment of 20 s each; by day on the fake")
            )
            for name in ("booted", "declared")
        ),
    ],
)
def test_partition_image_has_a_root_size_and_whole_disk_none(rig: Rig, name: str) -> None:
    """Ironic asks Glance for the image's kind, and refuses to deploy a partition without a size."""
    rig.claim()
    spec = rig.server.spec.model_copy(update={"image": name})
    server = rig.driver.create(SCOPE, [rig.server.model_copy(update={"spec": spec})], {})[rig.server.key]
    assert server.error is None
    seen = rig.wait(server.id, Status.SETTLED, Status.BROKEN)
    info, size = rig.node["instance_info"], int(rig.node["properties"]["local_gb"])
    rig.leave(server.id)
    assert (seen.status, info.get("image_type")) == (Status.SETTLED, IMAGES[name][1]), seen.reason
    assert info.get("root_gb") == (size - 1 if info["image_type"] == "partition" else None)


def test_quicker_competitor_gets_the_machine(rig: Rig) -> None:
    """Another's request is made right before weft's change: the real Ironic's 409 refuses weft's."""
    rig.claim()
    asked = 0

    def another() -> None:
        nonlocal asked
        asked += 1
        if asked == 2:  # the first is at the start of the attempt
            change = {"op": "add", "path": "/instance_uuid", "value": THEIRS}
            rig.ironic.ask("PATCH", f"nodes/{rig.ironic.node}", [change])

    error = rig.create(replace(SCOPE, fence=another))
    assert isinstance(error, TemporaryError) and THEIRS in str(error) and asked == 2
    assert (rig.node["instance_uuid"], rig.node["instance_info"]) == (THEIRS, {})
    assert rig.see().status is Status.ABSENT
    (one,) = rig.facts.on_hosts([rig.ironic.node])[rig.ironic.node].occupants
    assert one.id == f"{THEIRS}@{rig.ironic.node}"
    rig.ironic.ask("PATCH", f"nodes/{rig.ironic.node}", [{"op": "remove", "path": "/instance_uuid"}])
    assert rig.free() is None


@dataclass(slots=True)
class WithGlance(TinyCloud):
    """A cloud in whose images Ironic looks for its own."""

    def answer(self, method: str, path: str, query: dict[str, list[str]], seer: str, body: Any) -> Reply:
        if path == f"/image/images/{PART}":
            return Reply(200, {"id": PART, "name": "part", "status": "active"})
        if not path.startswith("/glance"):
            return TinyCloud.answer(self, method, path, query, seer, body)
        if "images" not in path:
            links = [{"rel": "self", "href": "v2/"}]
            return Reply(300, {"versions": [{"id": "v2.9", "status": "CURRENT", "links": links}]})
        found = [row for row in self.things["images"] if row["id"] == path.split("/")[-1]]
        return Reply(200, found[0]) if found else Reply(404, {})


class DiedError(TemporaryError):
    """A worker ended between two requests."""


def dies_at(number: int) -> Callable[[], None]:
    asked = 0

    def fence() -> None:
        nonlocal asked
        asked += 1
        if asked == number:
            raise DiedError("go on", "weft", "its worker died")

    return fence


def test_interruption_between_any_two_changes_can_be_completed_or_removed(rig: Rig) -> None:
    rig.claim()
    assert isinstance(rig.create(replace(SCOPE, fence=dies_at(2))), DiedError)
    assert rig.see().status is Status.ABSENT and rig.node["instance_uuid"] is None
    assert isinstance(rig.create(replace(SCOPE, fence=dies_at(3))), DiedError)
    given = rig.see()
    assert given.id is not None and [d.field for d in given.differences] == ["deployed"]
    assert rig.delete(given.id) is None, "removed again without a deployment"
    assert rig.see(given.id).status is Status.ABSENT and rig.node["instance_info"] == {}
    assert isinstance(rig.create(replace(SCOPE, fence=dies_at(3))), DiedError)
    again = rig.see().id
    assert again is not None and again != given.id
    outcome = rig.driver.update(SCOPE, [rig.server], {rig.server.key: again})[rig.server.key]
    assert outcome.error is None
    assert rig.wait(again, Status.SETTLED).id == again
    rig.leave(again)


@pytest.mark.nightly(reason="20 s of processor; by day on the fake, and standalone by the other driver")
def test_tenants_server_actions_work(rig: Rig) -> None:
    rig.claim()
    server = rig.create()
    assert isinstance(server, str)
    rig.wait(server, Status.SETTLED)
    for action in (Action.RESET, Action.REBOOT):
        rig.facts.act(PROJECT, server, action, unfenced)
        end = time.monotonic() + PATIENCE
        while rig.node["reservation"] or rig.node["target_power_state"]:
            assert time.monotonic() < end
            time.sleep(0.5)
        assert rig.wait(server, Status.SETTLED).facts["status"] == "ACTIVE"
    password = rig.facts.act(PROJECT, server, Action.RESCUE, unfenced)
    assert password
    rig.ironic.await_state("rescue")
    assert (rig.see(server).status, rig.see(server).reason) == (Status.PENDING, "rescue")
    assert rig.facts.on_hosts([rig.ironic.node])[rig.ironic.node].busy == "Ironic has it in state rescue"
    assert rig.facts.act(PROJECT, server, Action.UNRESCUE, unfenced) is None
    rig.wait(server, Status.SETTLED)
    with pytest.raises(ConflictError, match="console"):
        rig.facts.console(PROJECT, server, serial=True, fence=unfenced)
    rig.leave(server)
