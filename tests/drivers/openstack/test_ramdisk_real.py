"""A real Ironic's ramdisk interface: which kernel and ramdisk it fetches for a machine that boots no disk."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from tests.drivers.openstack.real_ironic import PATIENCE, RealIronic, real_ironic
from tests.drivers.openstack.tinycloud import PROJECT, Reply, TinyCloud, tiny_cloud
from weft.drivers.openstack import OpenStackDriver, Sessions
from weft.model.errors import NotYetError
from weft.model.owner import Owner
from weft.model.resources import Observed, Resource, ServerSpec, Status
from weft.ports.resources import Scope

pytestmark = pytest.mark.cloud
SCOPE = Scope("lab", Owner.pod("00000000-1111-2222-3333-444444444444"), "train", PROJECT)
OWN, KERNEL, RAMDISK, ISO, STOLEN = (f"{n}1111111-2222-3333-4444-555555555555" for n in range(5))
"""Images: the tenant's, its parts, and another tenant's, shared with weft's project."""
PARTS = (KERNEL, RAMDISK, ISO, STOLEN)
LATE = {"kernel_id": STOLEN, "ramdisk_id": STOLEN, "boot_iso_id": STOLEN}
CONFIG = {
    "DEFAULT": {
        "enabled_hardware_types": "fake-hardware",
        "enabled_deploy_interfaces": "ramdisk",
        "enabled_boot_interfaces": "pxe",
        "enabled_power_interfaces": "fake",
        "enabled_management_interfaces": "fake",
        **{
            f"enabled_{kind}_interfaces": f"no-{kind}"
            for kind in ("bios", "console", "firmware", "inspect", "raid", "rescue", "vendor")
        },
    },
    "conductor": {"automated_clean": False},
}


@dataclass(slots=True)
class Glance(TinyCloud):
    """Its images are also where Ironic looks for them.

    Attributes:
        fetched: ids of the images whose data was.
    """

    fetched: list[str] = field(default_factory=list[str])

    def answer(self, method: str, path: str, query: dict[str, list[str]], seer: str, body: Any) -> Reply:
        if path.startswith("/image/images/") and (part := path.split("/")[3]) in PARTS:
            return Reply(200, {"id": part, "name": part, "status": "active"})
        if not path.startswith("/glance"):
            return TinyCloud.answer(self, method, path, query, seer, body)
        if "images" not in path:
            links = [{"rel": "self", "href": "v2/"}]
            return Reply(300, {"versions": [{"id": "v2.9", "status": "CURRENT", "links": links}]})
        _, _, wanted = path.partition("/images/")
        image, _, data = wanted.partition("/")
        if data:
            self.fetched.append(image)
            return Reply(200, image, "application/octet-stream")
        found = [row for row in self.things["images"] if row["id"] == image]
        return Reply(200, found[0]) if found else Reply(404, {})


@dataclass(frozen=True)
class Rig:
    ironic: RealIronic
    driver: OpenStackDriver
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
        url = next(line.split()[-1] for line in text.splitlines() if "image_endpoint_override" in line)
        glance: dict[str, object] = {
            "auth_type": "none",
            "endpoint_override": url.replace("/image", "/glance"),
        }
        names = ("tftp_root", "tftp_master_path", "instance_master_path", "images_path")
        pxe: dict[str, object] = {name: folder / "pxe" / name for name in names}
        ironic = stack.enter_context(real_ironic(folder, {**CONFIG, "glance": glance, "pxe": pxe}))
        file = folder / "clouds.yaml"
        own = [line for line in text.splitlines() if "baremetal_endpoint" not in line]
        file.write_text("\n".join([*own, f"    baremetal_endpoint_override: {ironic.url}"]) + "\n")
        sessions = Sessions("weft", [file])
        driver = OpenStackDriver("lab", sessions, machines=True)
        node = {"uuid": ironic.node, "name": "bm01", "driver": "fake-hardware"}
        mark = SCOPE.mark("machine/bm01").text()
        ironic.ask("POST", "nodes", {**node, "extra": {"weft": mark}})
        ironic.ask("POST", "ports", {"node_uuid": ironic.node, "address": "02:00:00:00:b0:01"})
        ironic.ask("PUT", f"nodes/{ironic.node}/states/power", {"target": "power off"})
        ironic.provision("manage", "manageable")
        ironic.provision("provide", "available")
        spec = ServerSpec(
            host=ironic.node, bare_metal=True, by="ironic", flavor="metal8", image="tiny", ports=()
        )
        server = Resource(key="server/bm01", name="weft-00000000-server-bm01", where="lab", spec=spec)
        yield Rig(ironic, driver, cloud, server)
        driver.close()
        sessions.close()


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
    base = {"status": "active", "visibility": "public", "size": len(OWN), "disk_format": "raw"}
    image: dict[str, object] = {"id": OWN, "name": name, **base, **properties}
    others = [{"id": part, "name": part, **base} for part in PARTS]
    rig.cloud.things["images"], rig.cloud.fetched = [image, *others], []
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
