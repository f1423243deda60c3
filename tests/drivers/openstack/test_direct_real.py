"""Images that a real Ironic has its agent write to a disk, whole disks and partitions, are those that weft checked."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.drivers.openstack.agentstand import Agent, Stand, agent_stand
from tests.drivers.openstack.diskwriter import MIB, Partition, partitions, read, table, write_image
from tests.drivers.openstack.fakehardware import MANUAL, hardware
from tests.drivers.openstack.imagedironic import NAME, Imaged, imaged_ironic
from tests.drivers.openstack.real_ironic import PATIENCE, in_iso
from tests.drivers.openstack.tinycloud import PROJECT
from weft.model.resources import Status
from weft.ports.fences import unfenced
from weft.ports.servers import Action

pytestmark = pytest.mark.cloud
PART, STOLEN, WHOLE, PARTED, RESCUED = (f"{n}1111111-2222-3333-4444-555555555555" for n in range(5))
"""Images: a kernel and ramdisk, another tenant's, shared with weft's project, and one for each test."""
LATE = {"kernel_id": STOLEN, "ramdisk_id": STOLEN}
WRITE = {"step": "write_image", "priority": 0, "interface": "deploy", "reboot_requested": False}
CONFIG = {
    **hardware("direct", "pxe", MANUAL, management="noop", rescue="agent"),
    "agent": {"require_tls": False, "manage_agent_boot": False},
    "conductor": {"automated_clean": False},
    "service_catalog": {"auth_type": "none", "endpoint_override": "http://127.0.0.1"},
}
SYSTEM = b"this is what its tenant wants there. " * 1000
DISK_MIB, LOCAL_GB = 4 * 1024, 3
FIRST = Partition(MIB, 2 * MIB)
ROOT = Partition(MIB, (LOCAL_GB - 1) * 1024 * MIB)


@contextmanager
def web_server(folder: Path) -> Iterator[str]:
    """A web server from which agents get images."""
    folder.mkdir(parents=True, exist_ok=True)
    handler = partial(SimpleHTTPRequestHandler, directory=str(folder))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@dataclass(frozen=True)
class Rig(Imaged):
    stand: Stand
    disk: Path

    def heartbeats(self, agent: Agent, over: Callable[[], bool]) -> None:
        """Send heartbeats until this happened."""
        end = time.monotonic() + PATIENCE
        while not over():
            assert time.monotonic() < end, self.node
            agent.heartbeat()
            time.sleep(0.2)

    def is_in(self, *states: str) -> bool:
        node = self.node
        return node["provision_state"] in states and not node["reservation"]

    def written(self) -> dict[str, Any]:
        """Boot the agent, which writes what Ironic names; the image's information."""
        state = self.ironic.await_state("wait call-back", "deploy failed")
        assert state["provision_state"] == "wait call-back", state["last_error"]
        agent = self.stand.boot(WRITE)
        self.heartbeats(agent, lambda: agent.runs == "write_image" and self.is_in("wait call-back"))
        info = agent.commands[-1]["command_params"]["step"]["args"]["image_info"]
        write_image(self.disk, info)
        agent.partitions = {"root uuid": "12345678-01"} if info.get("image_type") == "partition" else {}
        agent.finish()
        self.heartbeats(agent, lambda: self.is_in("active", "deploy failed"))
        return info

    def drive(self, path: str) -> Any:
        """A file in the config drive on the disk."""
        iso = self.disk.with_name("drive.iso")
        iso.write_bytes(read(self.disk, partitions(self.disk)[-1]))
        return json.loads(in_iso(iso, path))


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    folder = tmp_path_factory.mktemp("ironic")
    with ExitStack() as stack:
        served = folder / "served"
        deploy: dict[str, object] = {
            "http_root": served,
            "http_url": stack.enter_context(web_server(served)),
        }
        made = stack.enter_context(
            imaged_ironic(
                folder,
                {**CONFIG, "deploy": deploy},
                by_ironic=True,
                driver=MANUAL,
                properties={"local_gb": LOCAL_GB, "capabilities": "boot_mode:bios"},
                driver_info={"deploy_forces_oob_reboot": True},
            )
        )
        stand = stack.enter_context(agent_stand(made.ironic.url, made.ironic.node))
        yield Rig(made.ironic, made.driver, made.facts, made.cloud, stand, folder / "disk")


@pytest.fixture
def rig(house: Rig) -> Rig:
    """With an empty disk."""
    house.forget_images(PART, STOLEN)
    house.disk.unlink(missing_ok=True)
    with house.disk.open("wb") as file:
        file.truncate(DISK_MIB * MIB)
    return house


def deployed(rig: Rig, name: str, image: dict[str, object], **late: str) -> tuple[str, dict[str, Any]]:
    """The server, and what the agent was given; `late`: as for `Imaged.create`."""
    server = rig.create(name, image, **late)
    written = rig.written()
    seen = rig.see(server)
    assert (seen.status, seen.facts["image"]) == (Status.SETTLED, image["id"]), seen.reason
    return server, written


def whole_disk() -> bytes:
    """An image of a whole disk with one partition."""
    return table(FIRST) + bytes(FIRST.start - 512) + SYSTEM + bytes(FIRST.size - len(SYSTEM))


def test_whole_disk_image_cannot_be_turned_into_a_partition_meanwhile(rig: Rig) -> None:
    image = rig.cloud.image(WHOLE, "whole", whole_disk())
    server, written = deployed(rig, "whole", image, img_type="partition", **LATE)
    assert "root_mb" not in written and set(rig.cloud.fetched) == {WHOLE}
    first, drive = partitions(rig.disk)
    assert first == FIRST and read(rig.disk, first, len(SYSTEM)) == SYSTEM
    assert drive.start > first.start + first.size
    assert rig.drive("/openstack/latest/meta_data.json")["name"] == NAME
    rig.leave(server)


def test_partition_image_cannot_be_turned_into_a_whole_disk_meanwhile(rig: Rig) -> None:
    """Nor does Ironic read another tenant's kernel."""
    image = rig.cloud.image(PARTED, "part", SYSTEM, img_type="partition", kernel_id=PART, ramdisk_id=PART)
    server, written = deployed(rig, "part", image, img_type="whole-disk", **LATE)
    assert (written["image_type"], written["kernel"], written["ramdisk"]) == ("partition", PART, PART)
    assert set(rig.cloud.fetched) == {PARTED}
    root, _ = partitions(rig.disk)
    assert root == ROOT and read(rig.disk, root, len(SYSTEM)) == SYSTEM
    assert rig.drive("/openstack/latest/meta_data.json")["name"] == NAME
    rig.leave(server)


@pytest.mark.nightly(reason="a deployment; by day on the fake")
def test_tenant_rescues_its_machine_with_the_password_shown_once(rig: Rig) -> None:
    """Ironic's agent gets only its hash, and Ironic keeps nothing of it."""
    server, _ = deployed(rig, "rescued", rig.cloud.image(RESCUED, "rescued", whole_disk()))
    password = rig.facts.act(PROJECT, server, Action.RESCUE, unfenced)
    assert password
    rig.ironic.await_state("rescue wait")
    assert rig.see(server).status is Status.PENDING
    agent = rig.stand.boot()
    rig.heartbeats(agent, lambda: rig.is_in("rescue", "rescue failed"))
    given = next(c for c in agent.commands if c["command_name"] == "finalize_rescue")["command_params"]
    _, method, salt, _ = given["rescue_password"].split("$")
    command = ["openssl", "passwd", f"-{method}", "-salt", salt, "-stdin"]
    hashed = subprocess.run(
        command, input=password, capture_output=True, text=True, check=True
    ).stdout.strip()
    assert given == {"rescue_password": hashed, "hashed": True}
    assert not [name for name in rig.node["instance_info"] if "rescue" in name]
    assert rig.see(server).reason == "rescue" and rig.facts.changed_machines()[rig.ironic.node].use
    assert rig.facts.act(PROJECT, server, Action.UNRESCUE, unfenced) is None
    rig.ironic.await_state("active")
    assert rig.see(server).status is Status.SETTLED
    rig.leave(server)
