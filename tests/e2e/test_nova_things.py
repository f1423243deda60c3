"""Flavors, host aggregates and images of a site in a real Nova and a real Glance, through weft's driver: made, adopted,
changed, given back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from tests.e2e.people import connection
from weft.drivers.openstack import OpenStackDriver, Sessions
from weft.drivers.openstack.existing import OpenStackExisting
from weft.model.errors import PermanentError, TemporaryError
from weft.model.owner import Owner
from weft.model.resources import Observed, Outcome, Resource, Status
from weft.model.specs import AggregateSpec, FlavorSpec, ImagePropertiesSpec, Spec
from weft.ports.resources import Scope
from weftlab.lab import Lab

pytestmark = [pytest.mark.cloud, pytest.mark.landing]

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


def aggregate(*hosts: str, flavors: tuple[str, ...] = ("gpu1", "gpu8")) -> Resource:
    return thing(
        "aggregate/lab/h100x8", "lab-h100x8", AggregateSpec(flavors=flavors, hosts=tuple(sorted(hosts)))
    )


@dataclass
class Rig:
    """weft's driver and an administrator, on a real Nova and Glance. Args: admin: makes what others make, and sees
    everything as it is."""

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

    def aggregates(self) -> dict[str, tuple[dict[str, str], list[str]]]:
        """Name -> metadata and hosts."""
        found = self.admin.compute.get("/os-aggregates").json()["aggregates"]
        return {a["name"]: (a["metadata"], sorted(a["hosts"])) for a in found}

    def hosts(self) -> list[str]:
        services = self.admin.compute.get("/os-services?binary=nova-compute").json()["services"]
        return sorted(s["host"] for s in services)

    def act(self, number: int, **action: object) -> None:
        answer = self.admin.compute.post(f"/os-aggregates/{number}/action", json=action)
        assert answer.status_code == 200, answer.text


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
    for row in admin.compute.get("/os-aggregates").json()["aggregates"]:
        for host in row["hosts"]:
            made.act(row["id"], remove_host={"host": host})
        admin.compute.delete(f"/os-aggregates/{row['id']}")
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


def test_flavor_is_created_updated_and_deleted(rig: Rig) -> None:
    """Keys of others stay; a key that the site doesn't have any more goes; twice changes nothing."""
    assert not rig.find(flavor(NUMA)).there
    rig.done("create", flavor(NUMA))
    seen = rig.find(flavor(NUMA))
    assert (seen.status, seen.differences) == (Status.SETTLED, ())
    assert NUMA.items() <= rig.specs().items()
    there = next(f for f in rig.admin.compute.flavors() if f.name == "numa4")
    assert (there.vcpus, there.ram, there.disk) == (4, 4096, 1)
    rig.admin.compute.create_flavor_extra_specs(there, {"theirs": "1", "hw:numa_nodes": "8"})
    differences = rig.find(flavor(NUMA)).differences
    assert [(d.field, d.observed, d.wanted) for d in differences] == [
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


def test_existing_flavor_is_adopted_and_restored(rig: Rig) -> None:
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


def test_image_properties_are_set_and_restored(rig: Rig) -> None:
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


def test_missing_or_foreign_image_is_reported(rig: Rig) -> None:
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


def test_aggregate_is_created_updated_and_deleted(rig: Rig) -> None:
    """A host that Nova doesn't know is waited for; hosts of others stay, and the aggregate with them."""
    first, second, *_ = rig.hosts()
    wanted = aggregate(first)
    assert not rig.find(wanted).there
    rig.done("create", wanted)
    metadata, hosts = rig.aggregates()["lab-h100x8"]
    assert hosts == [first] and metadata["instance_type"] == "gpu1,gpu8"
    assert rig.fields(wanted) == set() and rig.find(wanted).status is Status.SETTLED
    more = aggregate(first, "no-such-host", flavors=("gpu8",))
    error = rig.driver.update(SITE, [more], rig.ids)[more.key].error
    assert isinstance(error, TemporaryError) and "doesn't know a compute host of that name yet" in str(error)
    assert rig.aggregates()["lab-h100x8"][0]["instance_type"] == "gpu8"
    rig.done("update", wanted)
    number = int(rig.ids[wanted.key].partition(":")[0])
    rig.act(number, add_host={"host": second})
    assert rig.fields(wanted) == set() and rig.find(wanted).facts["others_hosts"] == [second]
    rig.done("delete", wanted, LEAVING)
    assert rig.aggregates() == {"lab-h100x8": ({}, [second])}
    assert rig.find(wanted, LEAVING).status is Status.KEPT
    rig.act(number, remove_host={"host": second})
    assert rig.admin.compute.delete(f"/os-aggregates/{number}").status_code == 200
    rig.ids.clear()
    rig.done("create", wanted)
    rig.done("delete", wanted, LEAVING)
    assert rig.aggregates() == {} and rig.find(wanted, LEAVING).status is Status.ABSENT


def test_existing_aggregate_is_adopted_and_restored(rig: Rig) -> None:
    first, second, *_ = rig.hosts()
    body = {"aggregate": {"name": "weft-pods", "availability_zone": "pods"}}
    number = rig.admin.compute.post("/os-aggregates", json=body).json()["aggregate"]["id"]
    rig.act(number, add_host={"host": first})
    rig.act(number, set_metadata={"metadata": {"instance_type": "gpu8", "theirs": "1"}})
    before, wanted = rig.aggregates(), aggregate(first, second)
    [found] = rig.existing.alike([wanted], {})[wanted.key]
    assert (found.own, found.same, found.mark) == (True, True, None)
    rig.ids[wanted.key] = found.id
    assert rig.fields(wanted) == {"mark", "flavors", "hosts"}
    rig.done("update", wanted)
    assert rig.fields(wanted) == set() and rig.aggregates()["weft-pods"][1] == sorted([first, second])
    rig.done("delete", wanted, LEAVING)
    assert rig.aggregates() == before and rig.find(wanted, LEAVING).status is Status.KEPT
