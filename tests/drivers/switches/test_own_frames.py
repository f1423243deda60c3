"""VLANs of the site's own networks with real frames: weft's driver, each vendor's interface, Open vSwitch.

Two networks: BMCs and gateways on hosts 1, 2 and 5 of two leaves, and storage on 6, with 3 as a host of the cloud's
own that carries its tag. Host 7 is on a port that weft doesn't know; 4 and 8 are for pods.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from tests.drivers.switches.rigs import ALONE_AT_NIGHT, CONFIRM, RealSwitches, Recorded, scope, vlan
from weft.drivers.switches import EthernetFabric, open_fabric
from weft.drivers.switches.ovs import Ovs
from weft.model.errors import PermanentError, UnknownError
from weft.model.fabric import Membership
from weft.model.fabrictypes import FabricKind, Mode
from weft.model.owner import Owner
from weft.model.resources import Outcome, Resource, Status
from weft.model.specs import SegmentSpec
from weft.ports.resources import Scope
from weftlab.site import FABRIC
from weftlab.switches.front import Front
from weftlab.switches.hosts import frame

pytestmark = pytest.mark.fabric

BMCS, STORAGE, POD = 13, 12, 0x101
SITE = Scope("lab", Owner("site", "00000009-0000-4000-8000-000000000009"), "lab", "")
INSIDE = {("host1", "host2"), ("host1", "host5"), ("host5", "host2")}
OWN = ("host1", "host2", "host5", "host6", "host3")


@dataclass
class OwnRig:
    """A rig with some hosts as the site's own hardware."""

    rig: RealSwitches
    fabric: EthernetFabric

    def segment(self, key: str, number: int, access: Sequence[str], trunks: Sequence[str] = ()) -> Resource:
        members = [Membership(port=self.rig.port(h), mode=Mode.ACCESS) for h in access]
        members += [Membership(port=self.rig.port(h), mode=Mode.TRUNK) for h in trunks]
        ordered = tuple(sorted(members, key=lambda m: m.port))
        spec = SegmentSpec(number=number, fabric_type=FabricKind.ETHERNET, members=ordered, shared=True)
        return Resource(key=f"segment/{key}", name=key, where=FABRIC, owner="site", spec=spec)

    @property
    def both(self) -> list[Resource]:
        gateways = self.segment("gateways", BMCS, ["host1", "host2", "host5"])
        return [gateways, self.segment("storage", STORAGE, ["host6"], ["host3"])]

    @property
    def driver(self) -> Recorded:
        return Recorded(self.fabric, self.rig.records)

    def made(self, ids: dict[str, str] | None = None) -> dict[str, str]:
        """Create both networks; their ids by key."""
        outcomes = self.driver.create(SITE, self.both, ids or {})
        assert all(o.error is None for o in outcomes.values()), outcomes
        return {key: str(o.id) for key, o in outcomes.items()}

    def states(self, ids: dict[str, str]) -> set[Status]:
        found = self.fabric.find(SITE, self.both, ids)
        return {o.status for o in found.values()}

    def heard(self, sender: str, mark: bytes, by: Sequence[str] = (), tag: int | None = None) -> set[str]:
        """The hosts that hear a broadcast of this host."""
        listeners = [f"host{n}" for n in range(1, 9) if f"host{n}" != sender]
        frames = [frame(self.rig.hosts.by_name[sender].mac, mark=mark, tags=() if tag is None else (tag,))]
        return self.rig.hosts.heard(sender, listeners, frames, mark, by=by)

    @contextmanager
    def silent(self, port: str) -> Generator[None]:
        """Let the port's switch answer nothing in this context."""
        switch = port.partition("/")[0]
        front, session = self.rig.fronts.by_name.get(switch), self.fabric.session(switch)
        if front is not None:
            front.faults.down = True
            yield
            front.faults.down = False
            return
        assert isinstance(session, Ovs)  # all bridges are in one database, so only weft's access to it is cut
        session.point_at("unix:/nowhere/db.sock")
        yield
        session.point_at(self.rig.fronts.urls[switch])

    def fronts(self) -> list[Front]:
        return list(self.rig.fronts.by_name.values())


def opened(rig: RealSwitches) -> EthernetFabric:
    nodes = tuple(n for n in rig.site.nodes if n.name not in (*OWN, "host7"))
    return open_fabric(rig.site.model_copy(update={"nodes": nodes}), FABRIC, rig.records, CONFIRM)


@pytest.fixture(params=ALONE_AT_NIGHT)
def own(request: pytest.FixtureRequest, switch_rigs: Callable[[str], RealSwitches]) -> Generator[OwnRig]:
    """Ports keep their names although their hosts aren't nodes any more."""
    rig = switch_rigs(request.param)
    fabric = opened(rig)
    yield OwnRig(rig, fabric)
    fabric.close()


def test_network_connects_only_its_hardware(own: OwnRig) -> None:
    """Two networks in one change of each switch, next to a pod; after their end no port reaches another, except the
    pod's.
    """
    ids = own.made()
    pod = vlan(POD, [own.rig.port("host4"), own.rig.port("host8")])
    assert own.driver.create(scope(1), [pod], {})["partition"].error is None
    assert own.states(ids) == {Status.SETTLED}
    own.rig.hosts.await_reach(INSIDE | {("host4", "host8")}, seconds=40)
    assert own.heard("host1", b"bmc", by=["host2", "host5"]) == {"host2", "host5"}
    assert own.heard("host6", b"filer", by=["host3"]) == {"host3"}
    assert own.heard("host3", b"cloud", by=["host6"], tag=STORAGE) == {"host6"}
    assert own.heard("host3", b"forged", tag=BMCS) == set()
    assert own.heard("host1", b"double", tag=STORAGE) == set()
    assert own.heard("host4", b"pod", by=["host8"]) == {"host8"}
    seen = own.fabric.snapshot()
    for one in own.both:
        assert isinstance(one.spec, SegmentSpec)
        check = own.fabric.check(one.spec, seen)
        assert check.problems == () and check.notes == ()
    outcomes = own.driver.delete(SITE, own.both, ids)
    assert all(o.error is None for o in outcomes.values()), outcomes
    seen = own.fabric.snapshot()
    for one in own.both:
        assert isinstance(one.spec, SegmentSpec)
        clean = own.fabric.clean(one.spec, seen)
        assert {i.result for i in clean.items} == {"clean"}, clean
        assert {i.subject for i in clean.items if i.plane == "switch port"} == one.spec.ports
    assert not any(o.there for o in own.fabric.find(SITE, own.both, ids).values())
    assert own.heard("host1", b"after") == set() and own.heard("host3", b"after2", tag=STORAGE) == set()
    own.rig.hosts.await_reach({("host4", "host8")})


def test_drift_is_detected_and_repaired(own: OwnRig) -> None:
    """External changes: a port in another VLAN, and one in none."""
    ids = own.made()
    own.rig.add(own.rig.port("host1"), 77)
    own.rig.remove(own.rig.port("host5"), BMCS)
    found = own.fabric.find(SITE, own.both, ids)
    fields = {d.field for d in found["segment/gateways"].differences}
    assert fields == {f"port {own.rig.port('host1')}", f"port {own.rig.port('host5')}"}
    assert found["segment/storage"].status is Status.SETTLED
    assert all(o.error is None for o in own.driver.update(SITE, own.both, ids).values())
    assert own.states(ids) == {Status.SETTLED}
    assert own.heard("host1", b"again", by=["host2", "host5"]) == {"host2", "host5"}


def test_foreign_port_is_left_alone_and_keeps_the_vlan(own: OwnRig) -> None:
    ids = own.made()
    theirs = own.rig.port("host7")
    own.rig.add(theirs, BMCS)
    assert own.states(ids) == {Status.SETTLED}
    gateways = own.both[0].spec
    assert isinstance(gateways, SegmentSpec)
    assert [n.id for n in own.fabric.check(gateways, own.fabric.snapshot()).notes] == [theirs]
    refused = own.fabric.delete(SITE, own.both[:1], ids)["segment/gateways"].error
    assert isinstance(refused, PermanentError) and theirs in refused.answer
    assert "host7" in own.heard("host5", b"still", by=["host7"])
    own.rig.remove(theirs, BMCS)
    assert own.driver.delete(SITE, own.both[:1], ids)["segment/gateways"].error is None
    assert not own.fabric.find(SITE, own.both[:1], ids)["segment/gateways"].there


def test_existing_vlan_blocks_or_is_adopted(own: OwnRig) -> None:
    """A port with another VLAN blocks; a VLAN under another name, if the switch stores names, is adopted."""
    own.rig.define(BMCS)
    named = {name for s in own.fabric.configured().read.values() if (name := s.get(BMCS))}
    port = own.rig.port("host5")
    own.rig.add(port, 20)
    said = own.fabric.alike(own.both, {})["segment/gateways"]
    assert {e.name for e in said} == {f"port {port}", *(["VLAN 13"] if named else [])}
    error = own.driver.create(SITE, own.both[:1], {})["segment/gateways"].error
    assert isinstance(error, PermanentError)
    assert own.heard("host1", b"nothing") == set()
    own.rig.remove(port, 20)
    adopted = {"segment/gateways": str(BMCS)}
    assert own.driver.create(SITE, own.both[:1], adopted)["segment/gateways"].error is None
    assert own.fabric.find(SITE, own.both[:1], adopted)["segment/gateways"].status is Status.SETTLED


def test_refused_network_does_not_block_others(own: OwnRig) -> None:
    own.rig.add(own.rig.port("host5"), 20)
    outcomes = own.driver.create(SITE, own.both, {})
    assert outcomes["segment/gateways"].error is not None
    assert outcomes["segment/storage"] == Outcome(str(STORAGE))


def unknown(outcomes: Mapping[str, Outcome]) -> bool:
    """Whether the outcome of each is unknown."""
    return {type(o.error) for o in outcomes.values()} == {UnknownError}


def test_silent_switch_is_unknown_and_never_clean(own: OwnRig) -> None:
    ids = own.made()
    port = own.rig.port("host5")
    gateways = own.both[0].spec
    assert isinstance(gateways, SegmentSpec)
    with own.silent(port):
        found = own.fabric.find(SITE, own.both, ids)
        assert {(o.status, type(o.unread)) for o in found.values()} == {(Status.PENDING, UnknownError)}
        items = own.fabric.clean(gateways, own.fabric.snapshot()).items
        assert {i.result for i in items if i.subject == port} == {"unknown"}
        assert unknown(own.fabric.delete(SITE, own.both[:1], ids))


def test_creation_and_deletion_are_saved(own: OwnRig) -> None:
    """They persist after switches were switched off and on."""
    ids = own.made()
    for front in own.fronts():
        front.restart()
    assert own.states(ids) == {Status.SETTLED}
    assert all(o.error is None for o in own.driver.delete(SITE, own.both, ids).values())
    for front in own.fronts():
        front.restart()
    assert not any(o.there for o in own.fabric.find(SITE, own.both, ids).values())


def test_another_process_continues_after_a_kill(own: OwnRig) -> None:
    """One leaf has the VLAN and the other doesn't; the next worker makes the rest."""
    with own.silent(own.rig.port("host5")):
        assert unknown(own.fabric.create(SITE, own.both, {}))
    other = opened(own.rig)
    try:
        ids = {key: str(o.id) for key, o in other.create(SITE, own.both, {}).items()}
        assert {o.status for o in other.find(SITE, own.both, ids).values()} == {Status.SETTLED}
    finally:
        other.close()


def test_pods_port_and_missing_port_are_refused(own: OwnRig) -> None:
    pods = own.segment("gateways", BMCS, ["host4"])
    error = own.fabric.create(SITE, [pods], {})["segment/gateways"].error
    assert isinstance(error, PermanentError) and "whose pods have it" in error.answer
    leaf = own.rig.port("host1").partition("/")[0]
    members = (Membership(port=f"{leaf}/Ethernet999", mode=Mode.ACCESS),)
    assert isinstance(pods.spec, SegmentSpec)
    lost = pods.model_copy(update={"spec": pods.spec.model_copy(update={"members": members})})
    error = own.fabric.create(SITE, [lost], {})["segment/gateways"].error
    assert isinstance(error, PermanentError) and "no port Ethernet999" in error.answer
