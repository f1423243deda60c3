"""Sites and tenants' networks in the loop: created, kept, audited and released like pods, beside pods."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import psycopg
import pytest

from tests.engine.house import QUICK, stood_still
from tests.engine.ownerhouse import OwnerHouse
from tests.engine.timehouse import HandClock, make
from weft.engine.audit.sweep import Sweeper
from weft.engine.base.database import Database
from weft.engine.hold.ownerstore import make_owner
from weft.engine.rows.ownerrecord import OwnerRecord
from weft.engine.rows.records import RowState
from weft.engine.watch.fabrickeeper import FabricKeeper
from weft.model.errors import ConflictError
from weft.model.mark import Mark
from weft.model.owner import Owner, OwnerKind
from weft.model.pod import PodState
from weft.model.ranges import Range
from weft.model.resources import Kind
from weft.testing.cloud import Fault

KINDS: tuple[OwnerKind, ...] = ("site", "network")
both = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture
def house(database: Database, database_url: str) -> Generator[OwnerHouse]:
    house = OwnerHouse(database, database_url, clock=HandClock())
    yield house
    house.close()


class DiedError(BaseException):
    """The process is gone: nothing is caught, nothing is logged."""


def die() -> None:
    raise DiedError


def change(house: OwnerHouse, owner: OwnerRecord, what: str) -> None:
    """Change an owner's row, as an operator or another worker does."""
    with psycopg.connect(house.database.url, autocommit=True) as connection:
        connection.execute(f"UPDATE owner SET {what} WHERE id = %s".encode(), [owner.id])


def run_out(house: OwnerHouse, owner: OwnerRecord, more: str = "") -> None:
    """Let the owner's hold run out, as if its holder had been stopped for longer than that."""
    change(house, owner, f"held_until = now() - interval '1 s', next_at = now(){more}")
    stood_still(house.database)


def sweep(house: OwnerHouse) -> list[str]:
    house.clock.sleep(300.0)
    keeper = house.keeper
    return Sweeper(house.store, keeper.world, keeper.site, house.time).sweep()


# -- from nothing to a receipt ----------------------------------------------------------------------------------


@both
def test_owners_are_created_kept_and_released_beside_a_pod(house: OwnerHouse, kind: OwnerKind) -> None:
    pod = house.ready()
    owner = house.served(kind)
    assert house.ports_in(house.number(kind)) == house.wired(kind)
    assert {t.mark.text() for t in house.own(owner) if t.mark} == (
        {f"weft site=lab owner=site:{owner.id} key={key}" for key in ("network", "subnet")}
        if kind == "site"
        else set()
    )
    assert house.numbers()[house.number(kind)] == owner.owner
    report = house.service.audits.run(house.operator)
    assert report.findings == () and report.checked["other owners"] == 1
    assert sweep(house) == []
    signed = house.released(owner)
    receipt = signed.receipt
    assert receipt.clean and (receipt.kind, receipt.pod, receipt.pod_id) == (kind, owner.name, str(owner.id))
    planes = {i.plane for i in receipt.items}
    assert planes >= {"p_key host", "p_key leaf", "database"} | (
        {"network", "subnet"} if kind == "site" else set()
    )
    assert not house.own(owner) and not house.ports_in(house.number(kind))
    assert house.number(kind) not in house.numbers()
    assert house.run(pod, PodState.READY).reason == ""
    assert house.service.audits.run(house.operator).findings == ()


@both
def test_pod_never_gets_a_number_that_another_owner_holds(house: OwnerHouse, kind: OwnerKind) -> None:
    """Its segment's number is held like a pod's, from before it was made until it was read back clean."""
    site = house.site
    number = house.number(kind)
    house.wants.clear()
    owner = house.served(kind)
    narrow = site.fabrics["ib0"].model_copy(
        update={"segments": Range(first=number, last=site.fabrics["ib0"].segments.last)}
    )
    house.store.activate_site(site.model_copy(update={"fabrics": {"ib0": narrow}}), "test")
    pod = house.order(make("one", 1, queue=True))
    assert pod.placed is None or pod.plan.segment != number
    assert owner.state is PodState.READY


def test_owner_names_are_unique(house: OwnerHouse) -> None:
    house.make("site")
    with (
        pytest.raises(ConflictError, match="site 'lab' already exists"),
        house.database.transaction() as tx,
    ):
        make_owner(tx, "site", "lab", "service", "lab", "operator")


# -- kept -------------------------------------------------------------------------------------------------------


@both
def test_lost_member_is_restored_and_reported(house: OwnerHouse, kind: OwnerKind) -> None:
    """Drift behind the subnet manager's back."""
    owner = house.served(kind)
    port = min(house.wired(kind))
    house.fabric.erase_key(port, 0x8000 | house.number(kind))
    found = house.service.audits.run(house.operator).findings
    assert found and {(f.owner, f.pod, f.pod_id) for f in found} == {(str(owner), None, None)}
    owner = house.visit(owner, PodState.READY)
    assert house.ports_in(house.number(kind)) == house.wired(kind)
    assert any("DEGRADED" in said for said in house.events(owner, "state"))
    assert house.service.audits.run(house.operator).findings == ()


def test_lost_resource_is_recreated(house: OwnerHouse) -> None:
    """The audit reports it; a repair doesn't end before it is there again. Others' resources aren't touched."""
    pod, owner = house.ready(), house.served("site")
    others = [(t.id, dict(t.fields)) for t in house.cloud.things() if t not in house.own(owner)]
    house.cloud.lose(house.cloud.thing("subnet"))
    found = house.service.audits.run(house.operator).findings
    assert [(f.category, f.kind, f.owner) for f in found] == [("missing", "subnet", "site lab")]
    house.visit(owner)
    assert house.see(owner.id).state is PodState.READY
    assert any("repairing weft-" in said for said in house.events(owner, "repair"))
    assert house.service.audits.run(house.operator).findings == ()
    assert others == [(t.id, dict(t.fields)) for t in house.cloud.things() if t not in house.own(owner)]
    assert house.run(pod, PodState.READY)


def test_difference_is_reverted(house: OwnerHouse) -> None:
    owner = house.served("site")
    house.cloud.thing("network").fields["port_security"] = True
    house.visit(owner, PodState.READY)
    assert house.cloud.thing("network").fields["port_security"] is False


@both
def test_unreadable_owner_is_unknown(house: OwnerHouse, kind: OwnerKind) -> None:
    """It isn't called healthy, and isn't repaired: it waits for an answer."""
    owner = house.served(kind)
    for manager in house.fabric.managers:
        manager.reachable = False
    calls = dict(house.cloud.calls)
    owner = house.visit(owner)
    assert owner.state is PodState.DEGRADED
    assert {w for w in house.cloud.calls if house.cloud.calls[w] != calls.get(w)} <= {
        "find network",
        "find subnet",
        "facts",
    }
    for manager in house.fabric.managers:
        manager.reachable = True
    assert house.visit(owner, PodState.READY).reason == ""


# -- workers that die or are late -------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["create", "find"])
def test_worker_killed_between_row_and_call_is_replaced(house: OwnerHouse, verb: str) -> None:
    """The next one finds what was made by its name, and makes nothing twice."""
    owner = house.make("site")
    house.cloud.meanwhile(verb, die)
    with pytest.raises(DiedError):
        house.worker.run_once()
    assert verb == "find" or not house.own(owner)
    run_out(house, owner)
    house.worker = house.new_worker("w2")
    house.visit(owner, PodState.READY)
    assert sorted(t.kind for t in house.own(owner)) == ["network", "subnet"]
    assert house.service.audits.run(house.operator).findings == ()


@pytest.mark.parametrize("key", ["network", "subnet"])
def test_lost_answer_creates_nothing_twice(house: OwnerHouse, key: str) -> None:
    house.cloud.plant(Fault.LOST_ANSWER, verb="create", key=key)
    owner = house.served("site")
    assert sorted(t.kind for t in house.own(owner)) == ["network", "subnet"]


@pytest.mark.parametrize("verb", ["create", "update", "delete"])
def test_late_worker_changes_nothing(house: OwnerHouse, verb: str) -> None:
    owner = house.make("site")
    if verb != "create":
        house.visit(owner, PodState.READY)
    if verb == "update":
        house.cloud.thing("network").fields["port_security"] = True
    elif verb == "delete":
        house.store.release(owner.id, "release asked")
    before = [(t.id, dict(t.fields)) for t in house.cloud.things()]
    house.cloud.meanwhile(verb, lambda: run_out(house, owner, ", token = token + 1"))
    house.visit(owner)
    assert [(t.id, dict(t.fields)) for t in house.cloud.things()] == before


def test_release_waits_for_requests_of_a_lost_worker(house: OwnerHouse) -> None:
    """Rows are gone, and the receipt waits: a request may be under way. What it created then is removed."""
    owner = house.served("site")
    house.worker = house.new_worker("w2", replace(QUICK, late=200.0))
    run_out(house, owner, ", worker = 'w1'")
    house.store.release(owner.id, "release asked")
    house.visit(owner)
    waiting = house.see(owner.id)
    assert waiting.state is PodState.RELEASING and "outcome of a request is unknown" in waiting.reason
    assert house.number("site") in house.numbers()
    mark = Mark("lab", owner.owner, "network")
    late = house.cloud.add(Kind.NETWORK, mark.name(), "service", mark, segment=house.number("site"))
    change(house, owner, "late_until = now() - interval '1 s'")
    house.visit(owner, PodState.RELEASED)
    assert late not in house.cloud.things() and house.store.records.receipt(owner.id)


def test_unproved_absence_prevents_the_receipt(house: OwnerHouse) -> None:
    """No receipt and no number before it is; an operator may end it, and the number stays until it is seen free."""
    owner = house.served("site")
    planted = house.cloud.plant(Fault.UNDELETABLE, kind=Kind.NETWORK, times=None)
    house.store.release(owner.id, "release asked")
    for _ in range(4):
        owner = house.visit(owner)
        house.clock.sleep(10.0)
    assert owner.state is PodState.RELEASING and house.store.records.receipt(owner.id) is None
    assert house.numbers()[house.number("site")] == owner.owner
    assert house.store.abandon(owner.id, "operator", "the filer is gone")
    house.visit(owner, PodState.RELEASED)
    signed = house.store.records.receipt(owner.id)
    assert signed and not signed.receipt.clean and signed.receipt.abandoned
    assert f"segment/ib0 {house.number('site')}" in signed.receipt.abandoned.kept
    assert house.number("site") in house.numbers()
    planted.lift()
    for thing in house.cloud.things():
        thing.undeletable = False
    sweep(house)
    FabricKeeper(house.database, house.keeper.world).tend()
    assert house.number("site") not in house.numbers() and not house.cloud.things()


# -- the audit and the sweep ------------------------------------------------------------------------------------


@both
def test_unknown_owners_mark_is_found(house: OwnerHouse, kind: OwnerKind) -> None:
    """And removed only when an operator says that it has no owner; what the known owner has stays."""
    owner = house.served(kind)
    before = house.own(owner)
    stranger = Owner(kind, str(uuid4()))
    mark = Mark("lab", stranger, "network")
    thing = house.cloud.add(Kind.NETWORK, mark.name(), "service", mark, segment=77)
    thing.created = house.clock.now() - timedelta(hours=1)
    findings = house.service.audits.run(house.operator, repair=True).findings
    assert [(f.category, f.owner, f.repaired) for f in findings] == [
        ("orphan", f"{kind} {stranger.id}", False)
    ]
    findings = house.service.audits.run(house.operator, repair=True, unknown_pods=[stranger.id]).findings
    assert [f.repaired for f in findings] == [True]
    assert house.own(owner) == before and house.ports_in(house.number(kind)) == house.wired(kind)
    assert house.visit(owner).state is PodState.READY


def test_mark_with_another_kind_belongs_to_no_one(house: OwnerHouse) -> None:
    """The same id as a pod's mark: the database knows no such pod."""
    owner = house.served("site")
    mark = Mark("lab", Owner.pod(owner.id), "network")
    house.cloud.add(Kind.NETWORK, mark.name(), "team-a", mark, segment=78)
    assert [f.category for f in house.service.audits.run(house.operator).findings] == ["orphan"]


@both
def test_resource_back_after_the_receipt_is_removed_and_reported(house: OwnerHouse, kind: OwnerKind) -> None:
    owner = house.served(kind)
    number = house.number(kind)
    network = house.cloud.thing("network") if kind == "site" else None
    house.released(owner)
    if network is not None:
        house.cloud.bring_back(network)
    else:
        house.fabric.write_key(min(house.wired(kind)), 0x8000 | number)
    sweep(house)
    sweep(house)
    assert not house.own(owner) and not house.ports_in(number)
    assert any("the receipt reports it gone" in said for said in house.events(owner, "alarm"))
    signed = house.store.records.receipt(owner.id)
    assert signed and signed.receipt.clean and [c.gone_at is not None for c in signed.corrections] == [True]


# -- what is wanted changes -------------------------------------------------------------------------------------


def test_owner_follows_the_site(house: OwnerHouse) -> None:
    """Another number: all is recreated, the old number comes back when it was read back, the receipt has both."""
    owner = house.served("site")
    old, site = house.number("site"), house.site
    shorter = site.fabrics["ib0"].model_copy(
        update={"segments": site.fabrics["ib0"].segments.model_copy(update={"last": old - 1})}
    )
    house.site = site.model_copy(update={"fabrics": {**site.fabrics, "ib0": shorter}})
    house.store.activate_site(house.site, "test")
    for _ in range(6):
        owner = house.visit(owner)
        assert house.numbers()[old - 1] == owner.owner, (
            "it has the new number before anything of the old one goes"
        )
    assert owner.state is PodState.READY and owner.ready_generation == owner.generation
    assert house.ports_in(old - 1) == house.wired("site") and not house.ports_in(old)
    assert [t.fields["segment"] for t in house.own(owner) if t.kind is Kind.NETWORK] == [old - 1]
    assert house.numbers() == {old - 1: owner.owner}
    assert house.service.audits.run(house.operator).findings == ()
    items = house.released(owner).receipt.items
    text = house.site.fabrics["ib0"].words.text
    assert {text(n) for n in (old, old - 1) if any(text(n) in i.subject for i in items)} == {
        text(old),
        text(old - 1),
    }


def test_new_number_held_by_a_pod_leaves_the_network_unchanged(house: OwnerHouse) -> None:
    """It is reported, the old network goes on and is repaired; when the pod is gone, it is changed."""
    pod = house.ready()
    taken, site = pod.plan.segment, house.site
    assert taken is not None
    owner, old = house.served("site"), house.number("site")
    fabric = site.fabrics["ib0"]
    only = fabric.model_copy(update={"segments": Range(first=fabric.segments.first, last=taken)})
    house.site = site.model_copy(update={"fabrics": {**site.fabrics, "ib0": only}})
    house.store.activate_site(house.site, "test")
    house.cloud.lose(house.cloud.thing("subnet"))
    for _ in range(3):
        owner = house.visit(owner)
    assert owner.state is PodState.DEGRADED and "pod train has it" in owner.reason
    assert len(house.events(owner, "alarm")) == 1
    assert house.ports_in(old) == house.wired("site") and len(house.own(owner)) == 2
    house.release(pod)
    change(house, owner, "next_at = now() + interval '1 hour'")
    house.run(pod, PodState.RELEASED)
    for _ in range(6):
        owner = house.visit(owner)
    assert owner.state is PodState.READY and house.numbers() == {taken: owner.owner}


def test_network_follows_neutron(house: OwnerHouse) -> None:
    """A port on another host: its adapters come into the segment, in place; and go with it."""
    owner = house.served("network")
    network = next(t for t in house.cloud.things(Kind.NETWORK) if t.mark is None)
    port = house.cloud.add(Kind.PORT, "second", "team-b", None, network=network.id, host="gpu14")
    house.visit(owner, PodState.READY)
    more = {h.port_guid for h in house.site.node_by_name["gpu14"].hcas_on("ib0")}
    assert house.ports_in(house.number("network")) == house.wired("network") | more
    house.cloud.lose(port)
    house.visit(house.visit(owner), PodState.READY)
    assert house.ports_in(house.number("network")) == house.wired("network")


def test_silent_neutron_changes_nothing(house: OwnerHouse) -> None:
    """Neutron doesn't answer: what was created stays, and the owner says that its state is unknown."""
    owner = house.served("network")
    planted = house.cloud.plant(Fault.ERROR_500, verb="facts", times=None)
    owner = house.visit(owner)
    assert owner.state is PodState.DEGRADED and "500" in owner.reason
    assert house.ports_in(house.number("network")) == house.wired("network")
    planted.lift()
    assert house.visit(owner, PodState.READY).generation == owner.generation


def test_owner_waits_for_a_number_that_a_pod_has(house: OwnerHouse) -> None:
    """Nothing is created with it before the pod returned it; an alarm is raised."""
    pod = house.ready()
    number = pod.plan.segment
    assert number is not None
    house.number = lambda kind: number  # type: ignore[method-assign]
    owner = house.visit(house.make("network"))
    assert "pod train has it" in owner.reason and len(house.events(owner, "alarm")) == 1
    assert house.ports_in(number).isdisjoint(house.wired("network"))
    house.release(pod)
    change(house, owner, "next_at = now() + interval '1 hour'")
    house.run(pod, PodState.RELEASED)
    house.visit(owner, PodState.READY)
    assert house.ports_in(number) == house.wired("network")


# -- rows -------------------------------------------------------------------------------------------------------


def test_unreadable_row_is_parked(house: OwnerHouse) -> None:
    """It doesn't block others, nothing of it is touched, and the audit says that it isn't checked."""
    owner, before = house.served("site"), house.cloud.things()
    with psycopg.connect(house.database.url, autocommit=True) as connection:
        connection.execute(
            "UPDATE owner SET phase = 'serving', conditions = '[{}]', next_at = now() WHERE id = %s",
            [owner.id],
        )
    assert house.worker.run_once() is False
    assert house.store.counts().parked == 1 and house.cloud.things() == before
    assert "weft can't read its row" in house.events(owner, "alarm")[0]
    assert house.ready().state is PodState.READY
    found = house.service.audits.run(house.operator).findings
    assert (str(owner.id), "unknown") in {(f.owner, f.category) for f in found}


def test_older_weft_does_not_touch_an_unknown_kind(house: OwnerHouse) -> None:
    """As where an older worker runs beside a newer one."""
    owner = house.served("site")
    before = house.cloud.things()
    house.wants.clear()
    owner = house.visit(owner)
    assert "doesn't know what is wanted" in owner.reason and house.cloud.things() == before
    assert all(r.state is RowState.SETTLED for r in house.store.pods.resources(owner.id))
