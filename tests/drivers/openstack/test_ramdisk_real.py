"""A real Ironic's ramdisk interface: which kernel and ramdisk it fetches for a machine that boots no disk."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tests.drivers.openstack.fakehardware import clouds_file, enrolled, hardware
from tests.drivers.openstack.real_ironic import PATIENCE, RealIronic, real_ironic
from tests.drivers.openstack.tinycloud import PROJECT, Reply, tiny_cloud
from tests.drivers.openstack.tinyglance import Glance, in_ironic
from weft.drivers.openstack import OpenStackDriver, OpenStackFacts, Sessions
from weft.model.errors import NotYetError
from weft.model.owner import Owner
from weft.model.resources import Observed, Resource, Status
from weft.model.specs import ServerSpec
from weft.ports.occupants import OnHost, SeenMachine
from weft.ports.resources import Scope

pytestmark = pytest.mark.cloud
SCOPE = Scope("lab", Owner.pod("00000000-1111-2222-3333-444444444444"), "train", PROJECT)
OWN, KERNEL, RAMDISK, ISO, STOLEN, SETTLED = (f"{n}1111111-2222-3333-4444-555555555555" for n in range(6))
"""Images: the tenant's, its parts, another tenant's, shared with weft's project, and weft's."""
PARTS = (KERNEL, RAMDISK, ISO, STOLEN)
LATE = {"kernel_id": STOLEN, "ramdisk_id": STOLEN, "boot_iso_id": STOLEN}
CONFIG = {**hardware("ramdisk", "pxe"), "conductor": {"automated_clean": False}}
SERVER, TENANT = "ac89efa9-a34e-4260-b101-29e9e3b49c3d", "ffffffffffffffffffffffffffffffff"


@dataclass(frozen=True)
class Rig:
    ironic: RealIronic
    driver: OpenStackDriver
    facts: OpenStackFacts
    cloud: Glance
    server: Resource

    @property
    def info(self) -> dict[str, Any]:
        return self.ironic.ask("GET", f"nodes/{self.ironic.node}")["instance_info"]

    def see(self, server: str) -> Observed:
        return self.driver.find(SCOPE, [self.server], {self.server.key: server})[self.server.key]

    def until(self, server: str, *statuses: Status) -> Observed:
        end = time.monotonic() + PATIENCE
        while (seen := self.see(server)).status not in statuses:
            assert time.monotonic() < end, seen
            time.sleep(0.3)
        return seen

    def asked_by_nova(self, image: str, target: str, meanwhile: Callable[[], None]) -> None:
        """As Nova's driver has a machine deployed, or rebuilt (`nova.virt.ironic.driver`), and no more of it.

        Args:
            meanwhile: between its two requests.
        """
        info = {"image_source": image, "project_id": TENANT}
        changes = [{"op": "add", "path": f"/instance_info/{k}", "value": v} for k, v in info.items()]
        changes += [{"op": "add", "path": "/instance_uuid", "value": SERVER}] if target == "active" else []
        self.ironic.ask("PATCH", f"nodes/{self.ironic.node}", changes)
        meanwhile()
        self.ironic.provision(target, "active")

    def on_machine(self) -> OnHost:
        """What weft sees there, with a server of Nova's."""
        row = {"id": "hyper-1", "hypervisor_hostname": self.ironic.node, "hypervisor_type": "ironic"}
        row |= {"state": "up", "service": {"host": "metal1"}, "servers": [{"uuid": SERVER, "name": "one"}]}
        allocations = "GET /placement/resource_providers/hyper-1/allocations"
        self.cloud.lies = [
            ("GET /compute/os-hypervisors/detail", Reply(200, {"hypervisors": [row]})),
            ("GET /compute/os-hypervisors/hyper-1", Reply(200, {"hypervisor": row})),
            (allocations, Reply(200, {"allocations": {SERVER: {}}})),
        ]
        return self.facts.on_hosts([self.ironic.node])[self.ironic.node]

    def leave(self, server: str) -> None:
        error = self.driver.delete(SCOPE, [self.server], {self.server.key: server})[self.server.key].error
        assert error is None or isinstance(error, NotYetError), error
        self.until(server, Status.ABSENT)
        self.ironic.await_state("available")


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    folder = tmp_path_factory.mktemp("ironic")
    with ExitStack() as stack:
        cloud, text = stack.enter_context(tiny_cloud(Glance))
        assert isinstance(cloud, Glance)
        ironic = stack.enter_context(real_ironic(folder, {**CONFIG, **in_ironic(text, folder)}))
        sessions = Sessions("weft", [clouds_file(folder, text, ironic)])
        driver = OpenStackDriver("lab", sessions, machines=True)
        enrolled(ironic, extra={"weft": SCOPE.mark("machine/bm01").text()})
        ironic.ask("POST", "ports", {"node_uuid": ironic.node, "address": "02:00:00:00:b0:01"})
        ironic.provision("provide", "available")
        spec = ServerSpec(
            host=ironic.node, bare_metal=True, by="ironic", flavor="metal8", image="tiny", ports=()
        )
        server = Resource(key="server/bm01", name="weft-00000000-server-bm01", where="lab", spec=spec)
        yield Rig(ironic, driver, OpenStackFacts(sessions, machines=[ironic.node]), cloud, server)
        driver.close()
        sessions.close()


def with_images(rig: Rig, name: str, **more: str) -> dict[str, object]:
    """The tenant's, which this gives, with further properties, and all others."""
    rig.cloud.things["images"], rig.cloud.fetched = [], []
    for part in PARTS:
        rig.cloud.image(part, part)
    return rig.cloud.image(OWN, name, **more)


@pytest.mark.parametrize(
    ("name", "properties", "booted"),
    [
        ("parts", {"kernel_id": KERNEL, "ramdisk_id": RAMDISK}, {"kernel": KERNEL, "ramdisk": RAMDISK}),
        ("iso", {"boot_iso_id": ISO}, {"boot_iso": ISO}),
    ],
)
def test_a_machine_boots_what_weft_has_checked_and_not_what_its_tenant_has_put_there_since(
    rig: Rig, name: str, properties: dict[str, str], booted: dict[str, str]
) -> None:
    image = with_images(rig, name, **properties)
    asked = 0

    def tenant() -> None:
        nonlocal asked
        asked += 1
        if asked == 3:  # the machine is the server's, and not yet deployed
            image.update(LATE)

    spec = rig.server.spec.model_copy(update={"image": name})
    one = rig.server.model_copy(update={"spec": spec})
    made = rig.driver.create(replace(SCOPE, fence=tenant), [one], {})[one.key]
    assert made.id is not None and LATE.items() <= image.items(), made.error
    seen = rig.until(made.id, Status.SETTLED, Status.BROKEN)
    info = rig.info
    rig.leave(made.id)
    assert set(rig.cloud.fetched) == set(booted.values()), seen.reason
    assert (seen.status, seen.facts["image"]) == (Status.SETTLED, OWN), seen.reason
    assert {k: info[k] for k in ("image_source", "kernel", "ramdisk", "boot_iso") if k in info} == booted


def test_what_nova_has_deployed_boots_what_its_tenant_put_there_meanwhile_and_weft_sees_which_image_it_is(
    rig: Rig,
) -> None:
    """Nova's driver gives Ironic an image's id alone: Ironic reads the rest when it deploys, and once more later."""
    image = with_images(
        rig, "late", owner=TENANT, visibility="community", kernel_id=KERNEL, ramdisk_id=RAMDISK
    )
    rig.asked_by_nova(OWN, "active", lambda: image.update(LATE))
    assert set(rig.cloud.fetched) == {STOLEN}
    said = f"Ironic deployed image {OWN} with ramdisk, by properties that its tenant may change"
    assert rig.on_machine().busy == said
    assert rig.facts.changed_machines()[rig.ironic.node] == SeenMachine(state="active")
    parts = {"kernel_id": KERNEL, "ramdisk_id": RAMDISK}
    rig.cloud.image(SETTLED, "settled", owner=PROJECT, **parts)
    rig.asked_by_nova(SETTLED, "rebuild", lambda: None)
    assert (rig.info["kernel"], rig.info["ramdisk"]) == (KERNEL, RAMDISK)
    assert rig.on_machine().busy == ""
    rig.asked_by_nova(OWN, "rebuild", lambda: None)
    assert rig.on_machine().busy == said, "its tenant has it rebuilt"
    rig.ironic.provision("deleted", "available")
