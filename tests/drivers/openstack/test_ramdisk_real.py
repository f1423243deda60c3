"""A real Ironic's ramdisk interface: which kernel and ramdisk it fetches for a machine that boots without a disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.drivers.openstack.fakehardware import hardware
from tests.drivers.openstack.imagedironic import Imaged, imaged_ironic
from tests.drivers.openstack.tinycloud import PROJECT, Reply
from weft.model.resources import Status
from weft.ports.occupants import OnHost, SeenMachine

pytestmark = pytest.mark.cloud
OWN, KERNEL, RAMDISK, ISO, STOLEN, SETTLED = (f"{n}1111111-2222-3333-4444-555555555555" for n in range(6))
"""Images: the tenant's, its parts, another tenant's, shared with weft's project, and weft's."""
PARTS = (KERNEL, RAMDISK, ISO, STOLEN)
LATE = {"kernel_id": STOLEN, "ramdisk_id": STOLEN, "boot_iso_id": STOLEN}
CONFIG = {**hardware("ramdisk", "pxe"), "conductor": {"automated_clean": False}}
SERVER, TENANT = "ac89efa9-a34e-4260-b101-29e9e3b49c3d", "ffffffffffffffffffffffffffffffff"


@dataclass(frozen=True)
class Rig(Imaged):
    @property
    def info(self) -> dict[str, Any]:
        return self.node["instance_info"]

    def asked_by_nova(self, image: str, target: str, meanwhile: Callable[[], None]) -> None:
        """Have the machine deployed or rebuilt as Nova's driver does (`nova.virt.ironic.driver`).

        Args:
            image: id of the image.
            target: provision state.
            meanwhile: called between its two requests.
        """
        info = {"image_source": image, "project_id": TENANT}
        changes = [{"op": "add", "path": f"/instance_info/{k}", "value": v} for k, v in info.items()]
        changes += [{"op": "add", "path": "/instance_uuid", "value": SERVER}] if target == "active" else []
        self.ironic.ask("PATCH", f"nodes/{self.ironic.node}", changes)
        meanwhile()
        self.ironic.provision(target, "active")

    def on_machine(self) -> OnHost:
        """What weft finds on the machine, with a server of Nova's."""
        row = {"id": "hyper-1", "hypervisor_hostname": self.ironic.node, "hypervisor_type": "ironic"}
        row |= {"state": "up", "service": {"host": "metal1"}, "servers": [{"uuid": SERVER, "name": "one"}]}
        allocations = "GET /placement/resource_providers/hyper-1/allocations"
        self.cloud.lies = [
            ("GET /compute/os-hypervisors/detail", Reply(200, {"hypervisors": [row]})),
            ("GET /compute/os-hypervisors/hyper-1", Reply(200, {"hypervisor": row})),
            (allocations, Reply(200, {"allocations": {SERVER: {}}})),
        ]
        return self.facts.on_hosts([self.ironic.node])[self.ironic.node]


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with imaged_ironic(tmp_path_factory.mktemp("ironic"), CONFIG, port=True) as made:
        yield Rig(made.ironic, made.driver, made.facts, made.cloud)


def with_images(rig: Rig, name: str, **more: str) -> dict[str, object]:
    """Set the tenant's image, which this returns, with further properties, and all others."""
    rig.forget_images(*PARTS)
    return rig.cloud.image(OWN, name, **more)


@pytest.mark.parametrize(
    ("name", "properties", "booted"),
    [
        ("parts", {"kernel_id": KERNEL, "ramdisk_id": RAMDISK}, {"kernel": KERNEL, "ramdisk": RAMDISK}),
        ("iso", {"boot_iso_id": ISO}, {"boot_iso": ISO}),
    ],
)
def test_machine_boots_the_checked_image_despite_later_changes(
    rig: Rig, name: str, properties: dict[str, str], booted: dict[str, str]
) -> None:
    image = with_images(rig, name, **properties)
    server = rig.create(name, image, **LATE)
    seen = rig.until(server, Status.SETTLED, Status.BROKEN)
    info = rig.info
    rig.leave(server)
    assert set(rig.cloud.fetched) == set(booted.values()), seen.reason
    assert (seen.status, seen.facts["image"]) == (Status.SETTLED, OWN), seen.reason
    assert {k: info[k] for k in ("image_source", "kernel", "ramdisk", "boot_iso") if k in info} == booted


@pytest.mark.nightly(reason="a deployment; by day on the fake")
def test_image_changed_under_nova_is_detected_by_weft(
    rig: Rig,
) -> None:
    """Nova's driver gives Ironic only an image's id; Ironic reads the rest when it deploys, and again later."""
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
    assert rig.on_machine().busy == said, "after its tenant had it rebuilt"
    rig.ironic.provision("deleted", "available")
