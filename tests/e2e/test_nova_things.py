"""Flavors and images of a site in a real Nova and a real Glance, through weft's driver: made, adopted, changed, given
back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from tests.e2e.people import connection
from weft.drivers.openstack import OpenStackDriver, Sessions
from weft.drivers.openstack.existing import OpenStackExisting
from weft.model.errors import PermanentError
from weft.model.owner import Owner
from weft.model.resources import Observed, Outcome, Resource, Status
from weft.model.specs import FlavorSpec, ImagePropertiesSpec, Spec
from weft.ports.resources import Scope
from weftlab.lab import Lab

pytestmark = pytest.mark.cloud

SITE = Scope("lab", Owner("site", "00000009-0000-4000-8000-00000000000a"), "lab", "")
LEAVING = replace(SITE, leaving=True)
NUMA = {"hw:numa_nodes": "2", "hw:mem_page_size": "large", "pci_passthrough:alias": "h100:1"}


def thing(key: str, name: str, spec: Spec) -> Resource:
    return Resource(key=key, name=name, where="lab", owner="site", spec=spec)


def flavor(specs: dict[str, str], former: Sequence[str] = (), vcpus: int = 4) -> Resource:
    spec = FlavorSpec(vcpus=vcpus, ram=4096, disk=1, extra_specs=specs, former=tuple(former))
    return thing("flavor/lab/numa4", "numa4", spec)


def image(properties: dict[str, str], former: Sequence[str] = ()) -> Resource:
    spec = ImagePropertiesSpec(properties=properties, former=tuple(former))
    return thing("image_properties/lab/gpu-image", "gpu-image", spec)


@dataclass
class Rig:
    """Args: admin: what others do; it sees everything as it is."""

    driver: OpenStackDriver
    existing: OpenStackExisting
    admin: Any
    project: str
    ids: dict[str, str] = field(default_factory=dict[str, str])

    def find(self, one: Resource, scope: Scope = SITE) -> Observed:
        return self.driver.find(scope, [one], self.ids)[one.key]

    def done(self, verb: str, one: Resource, scope: Scope = SITE) -> Outcome:
        outcome = getattr(self.driver, verb)(scope, [one], self.ids)[one.key]
        assert outcome.error is None, outcome.error
        if outcome.id and verb != "delete":
            self.ids[one.key] = outcome.id
        return outcome

    def fields(self, one: Resource) -> set[str]:
        return {d.field for d in self.find(one).differences}

    def specs(self) -> dict[str, str]:
        found = next(f for f in self.admin.compute.flavors(get_extra_specs=True) if f.name == "numa4")
        return dict(found.extra_specs)

    def properties(self) -> dict[str, str]:
        found = self.admin.image.get(f"/images/{self.uploaded}").json()
        return {k: v for k, v in found.items() if k.startswith(("hw_", "trait:", "weft", "os_type"))}

    uploaded: str = ""


@pytest.fixture
def rig(lab: Lab) -> Iterator[Rig]:
    sessions, admin = Sessions("weft", [lab.clouds_yaml]), connection(lab, "operator")
    driver = OpenStackDriver("lab", sessions)
    made = Rig(driver, OpenStackExisting(sessions), admin, sessions.own().network.signed_in_project())
    yield made
    driver.close()
    sessions.close()
    for one in list(admin.compute.flavors()):
        if one.name == "numa4":
            admin.compute.delete_flavor(one)
    for one in list(admin.image.images(name="gpu-image")):
        admin.image.delete_image(one)


def uploaded(rig: Rig, owner: str, **properties: str) -> None:
    """An image of a project's, public, by an administrator."""
    found = rig.admin.image.create_image(
        name="gpu-image",
        data=b"no disk",
        disk_format="raw",
        container_format="bare",
        visibility="public",
        owner=owner,
        allow_duplicates=True,
        **properties,
    )
    rig.uploaded = found.id


def test_a_flavor_is_made_changed_and_deleted(rig: Rig) -> None:
    """Keys of others stay; a key that the site doesn't have any more goes; twice changes nothing."""
    assert not rig.find(flavor(NUMA)).there
    rig.done("create", flavor(NUMA))
    seen = rig.find(flavor(NUMA))
    assert (seen.status, seen.differences) == (Status.SETTLED, ())
    assert NUMA.items() <= rig.specs().items()
    there = next(f for f in rig.admin.compute.flavors() if f.name == "numa4")
    assert (there.vcpus, there.ram, there.disk) == (4, 4096, 1)
    rig.admin.compute.create_flavor_extra_specs(there, {"theirs": "1", "hw:numa_nodes": "8"})
    told = rig.find(flavor(NUMA)).differences
    assert [(d.field, d.observed, d.wanted) for d in told] == [
        ("extra_specs", "hw:numa_nodes=8", "hw:numa_nodes=2")
    ]
    less = {k: v for k, v in NUMA.items() if k != "hw:mem_page_size"}
    rig.done("update", flavor(less, ["hw:mem_page_size"]))
    assert rig.fields(flavor(less, ["hw:mem_page_size"])) == set()
    now = rig.specs()
    assert now["theirs"] == "1" and "hw:mem_page_size" not in now and now["hw:numa_nodes"] == "2"
    assert rig.fields(flavor(less, vcpus=8)) == {"vcpus"}
    rig.done("delete", flavor(less), LEAVING)
    gone = rig.find(flavor(less), LEAVING)
    assert gone.status is Status.ABSENT and "404 by its id" in gone.reason
    assert not [f for f in rig.admin.compute.flavors() if f.name == "numa4"]


def test_a_flavor_that_is_there_is_adopted_and_given_back(rig: Rig) -> None:
    """With the values that it had, and what others have added meanwhile."""
    there = rig.admin.compute.create_flavor(name="numa4", vcpus=4, ram=4096, disk=1)
    rig.admin.compute.create_flavor_extra_specs(there, {"hw:numa_nodes": "1", "theirs": "1"})
    [found] = rig.existing.alike([flavor(NUMA)], {})["flavor/lab/numa4"]
    assert (found.id, found.own, found.same, found.mark) == (there.id, True, True, None)
    rig.ids["flavor/lab/numa4"] = there.id
    assert rig.fields(flavor(NUMA)) == {"mark", "extra_specs"}
    rig.done("update", flavor(NUMA))
    assert rig.fields(flavor(NUMA)) == set() and NUMA.items() <= rig.specs().items()
    rig.done("delete", flavor(NUMA), LEAVING)
    assert rig.find(flavor(NUMA), LEAVING).status is Status.KEPT
    assert rig.specs() == {"hw:numa_nodes": "1", "theirs": "1"}
    assert next(f for f in rig.admin.compute.flavors() if f.name == "numa4").description is None


def test_properties_of_an_image_are_set_and_given_back(rig: Rig) -> None:
    """A copy of it, such as a server's snapshot, is nothing of weft's."""
    uploaded(rig, rig.project, hw_numa_nodes="1", os_type="linux")
    wanted = {"hw_numa_nodes": "2", "trait:HW_NUMA_ROOT": "required"}
    assert rig.existing.alike([image(wanted)], {}) == {}
    assert not rig.find(image(wanted)).there
    rig.done("create", image(wanted))
    assert rig.fields(image(wanted)) == set() and wanted.items() <= rig.properties().items()
    copied = {k: v for k, v in rig.properties().items() if k.startswith("weft")}
    first = rig.uploaded
    uploaded(rig, rig.project, **copied)
    rig.admin.image.delete_image(rig.uploaded)
    rig.uploaded = first
    less = {"trait:HW_NUMA_ROOT": "required"}
    assert rig.fields(image(less, ["hw_numa_nodes"])) == {"properties"}
    rig.done("update", image(less, ["hw_numa_nodes"]))
    assert rig.properties()["hw_numa_nodes"] == "1", "as it was before weft"
    rig.done("update", image(wanted))
    rig.done("delete", image(wanted), LEAVING)
    assert rig.find(image(wanted), LEAVING).status is Status.KEPT
    assert rig.properties() == {"hw_numa_nodes": "1", "os_type": "linux"}


def test_an_image_that_is_nobodys_or_anothers_is_in_the_way(rig: Rig) -> None:
    wanted = image({"hw_numa_nodes": "2"})
    [found] = rig.existing.alike([wanted], {})[wanted.key]
    assert "no active images of that name" in found.like and not found.same
    error = rig.driver.create(SITE, [wanted], {})[wanted.key].error
    assert isinstance(error, PermanentError) and "gpu-image" in str(error)
    other = rig.admin.identity.find_project("team-a", ignore_missing=False).id
    uploaded(rig, other)
    [found] = rig.existing.alike([wanted], {})[wanted.key]
    assert f"is of project {other}" in found.like
    assert rig.driver.create(SITE, [wanted], {})[wanted.key].error is not None
    assert rig.properties() == {}
