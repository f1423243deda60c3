"""The contract of storage: the fake in memory and real Manila, Cinder, Nova and Neutron pass the same tests."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pytest

from weft.model.errors import InputError
from weft.model.mark import outside_name
from weft.model.owner import Owner
from weft.model.resources import Observed, Resource, Status
from weft.model.site import Storage
from weft.model.specs import (
    NetworkSpec,
    PortSpec,
    SecurityGroupSpec,
    ServerSpec,
    ShareAccessSpec,
    ShareSpec,
    Spec,
    SubnetSpec,
    VolumeAttachmentSpec,
    VolumeSpec,
)
from weft.model.storageorder import StorageOrder
from weft.ports.cloud import CloudFacts
from weft.ports.resources import ResourceDriver, Scope
from weft.testing.cloud import FakeCloud

SITE, PATIENCE = "contract", 120.0
OFFER = Storage(shares=True, volumes=True)
PORT, SERVER = "port/gpu01/management", "server/gpu01"
SPECS: Mapping[str, tuple[Spec, tuple[str, ...]]] = {
    "network/management": (NetworkSpec(port_security=True), ()),
    "security_group": (SecurityGroupSpec(ssh_from=()), ()),
    "subnet/management": (
        SubnetSpec(network="network/management", cidr="10.78.0.0/24", gateway=False, dhcp=False),
        ("network/management",),
    ),
    PORT: (
        PortSpec(
            network="network/management",
            subnet="subnet/management",
            address="10.78.0.16",
            vnic_type="normal",
            security_groups=("security_group",),
            host="gpu01",
        ),
        ("network/management", "subnet/management", "security_group"),
    ),
    "share/data": (ShareSpec(gib=1, ports=(PORT,)), ()),
    "share/kept": (ShareSpec(gib=1, ports=(PORT,), kept_as="contract-kept"), ()),
    "volume/work/0": (VolumeSpec(gib=1), ()),
    "share_access/data/gpu01": (ShareAccessSpec(share="share/data", port=PORT), ("share/data", PORT)),
    SERVER: (ServerSpec(host="gpu01", flavor="cpu1", image="tiny", ports=(PORT,)), (PORT,)),
    "volume_attachment/work/gpu01": (
        VolumeAttachmentSpec(volume="volume/work/0", server=SERVER),
        ("volume/work/0", SERVER),
    ),
}
"""In the order in which they can be created."""


@dataclass
class Bench:
    """A cloud with a pod of a server, a share, a volume, and a share that is kept."""

    driver: ResourceDriver
    facts: CloudFacts
    scope: Scope
    pause: float
    ids: dict[str, str] = field(default_factory=dict[str, str])

    def resource(self, key: str) -> Resource:
        spec, needs = SPECS[key]
        name = outside_name(self.scope.owner.id, key)
        return Resource(key=key, name=name, where="lab", needs=needs, spec=spec)

    def find(self, key: str, leaving: bool = False) -> Observed:
        return self.driver.find(replace(self.scope, leaving=leaving), [self.resource(key)], self.ids)[key]

    def wait(self, key: str, *until: Status, leaving: bool = False) -> Observed:
        end = time.monotonic() + PATIENCE
        while (seen := self.find(key, leaving)).status not in until:
            assert time.monotonic() < end, (key, seen)
            time.sleep(self.pause)
        return seen

    def make(self, *keys: str) -> None:
        for key in keys:
            outcome = self.driver.create(self.scope, [self.resource(key)], self.ids)[key]
            assert outcome.error is None and outcome.id, outcome
            self.ids[key] = outcome.id
            assert self.wait(key, Status.SETTLED, Status.BROKEN).status is Status.SETTLED

    def drop(self, *keys: str, end: Status = Status.ABSENT) -> None:
        for key in keys:
            self.driver.delete(replace(self.scope, leaving=True), [self.resource(key)], self.ids)
            self.wait(key, end, leaving=True)

    def sweep(self) -> None:
        self.drop(*[key for key in reversed(SPECS) if key in self.ids and key != "share/kept"])


@pytest.fixture(
    params=[
        "fake",
        pytest.param(
            "real",
            marks=[
                pytest.mark.cloud,
                pytest.mark.nightly(reason="a lab of its own; the tiny services go the same ways"),
            ],
        ),
    ]
)
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    if request.param == "fake":
        cloud = FakeCloud(seed=1, name="lab")
        cloud.offers.images.add("tiny")
        cloud.offers.flavors["cpu1"] = cloud.offers.flavors["gpu1"]
        scope = Scope(SITE, Owner.pod(str(uuid.uuid4())), "train", "team-a")
        yield Bench(cloud, cloud, scope, 0.01)
        return
    from tests.e2e.people import connection
    from weft.drivers.openstack import OpenStackDriver, OpenStackFacts, Sessions

    lab = request.getfixturevalue("storage_lab")
    sessions = Sessions("weft", [lab.clouds_yaml])
    driver = OpenStackDriver("lab", sessions, storage=OFFER)
    project = str(connection(lab, "team-a").current_project_id)
    bench = Bench(
        driver, OpenStackFacts(sessions), Scope(SITE, Owner.pod(str(uuid.uuid4())), "train", project), 1.0
    )
    try:
        yield bench
    finally:
        bench.sweep()
        driver.close()
        sessions.close()


def kinds(bench: Bench) -> Sequence[str]:
    owned = (m for m in bench.driver.marked(SITE, [bench.scope.project_id]) if m.owner == bench.scope.owner)
    return sorted({str(m.kind) for m in owned if m.kind in ("share", "volume")})


def test_storage_is_created_settled_and_deleted(bench: Bench) -> None:
    """Created without differences, listed by the audit, deleted, and proved absent with what was read."""
    made = [key for key in SPECS if key != "share/kept"]
    bench.make(*made)
    assert {key: bench.find(key).differences for key in made if key.startswith(("share", "volume"))} == {
        key: () for key in made if key.startswith(("share", "volume"))
    }
    assert kinds(bench) == ["share", "volume"]
    for key in [key for key in reversed(SPECS) if key in made]:
        bench.drop(key)
        if key.startswith(("share", "volume")):
            assert bench.find(key, leaving=True).reason
    assert kinds(bench) == []


def test_create_is_idempotent(bench: Bench) -> None:
    """Also if the first one's id isn't known, since its answer was lost."""
    base = ("network/management", "security_group", "subnet/management", PORT)
    bench.make(*base, "share/data", "volume/work/0", "share_access/data/gpu01")
    for key in ("share/data", "volume/work/0", "share_access/data/gpu01"):
        first = bench.ids[key]
        without = {k: v for k, v in bench.ids.items() if k != key}
        again = bench.driver.create(bench.scope, [bench.resource(key)], without)[key]
        assert again.id == first, key


def test_kept_storage_can_be_ordered_by_id_and_name(bench: Bench) -> None:
    """It has no mark; an order finds it, and another project doesn't."""
    bench.make("network/management", "subnet/management", "security_group", PORT, "share/kept")
    bench.drop("share/kept", end=Status.KEPT)
    seen = bench.find("share/kept", leaving=True)
    assert (seen.id, seen.name) == (bench.ids["share/kept"], "contract-kept") and not seen.there
    assert kinds(bench) == []
    project = bench.scope.project_id
    for name in (seen.id, "contract-kept"):
        asked = StorageOrder.model_validate({"share": "s", "existing": name, "mount": "/s"})
        assert bench.facts.check_storage(project, [asked], OFFER)[0].existing == (seen.id,)
    asked = StorageOrder.model_validate({"share": "s", "existing": "nothing", "mount": "/s"})
    with pytest.raises(InputError, match="no share of that name or id"):
        bench.facts.check_storage(project, [asked], OFFER)
    # it is wanted again and not kept: the pod's once more, and then deleted
    assert bench.find("share/kept").there
    bench.driver.delete(bench.scope, [bench.resource("share/kept")], bench.ids)
    bench.wait("share/kept", Status.ABSENT)


def test_missing_storage_type_is_refused(bench: Bench) -> None:
    for kind in ("share", "volume"):
        asked = StorageOrder.model_validate({kind: "s", "size": "1GiB", "type": "gold", "mount": "/s"})
        with pytest.raises(InputError, match=rf"storage\.0\.type.*{kind} types"):
            bench.facts.check_storage(bench.scope.project_id, [asked], OFFER)
