"""Tenants, lost answers and errors against pods' storage: nothing is wrongly proved gone, replaced or left open."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from tests.engine.house import House, impatient
from tests.engine.storagehouse import (
    SHARE,
    VOLUME,
    again,
    apply,
    changed,
    order,
    ready,
    receipt,
    storage_house,
)
from weft.engine.audit.sweep import Sweeper
from weft.engine.base.database import Database
from weft.engine.rows.records import PodRecord
from weft.model.errors import UnknownError
from weft.model.owner import Owner
from weft.model.pod import PodState
from weft.model.resources import Kind
from weft.ports.resources import PartlyListedError
from weft.testing.cloud import Fault


@pytest.fixture
def house(database: Database, database_url: str) -> Generator[House]:
    house = storage_house(database, database_url)
    yield house
    house.close()


def test_share_opened_by_a_tenant_is_found_and_closed(house: House) -> None:
    """Access for all is a difference, and is removed."""
    pod = ready(house, SHARE)
    share = house.cloud.thing("share/data")
    share.fields["others"] = ("0.0.0.0/0",)
    assert "0.0.0.0/0" in house.service.audits.run(house.operator).model_dump_json()
    pod = again(house, pod)
    assert share.fields["others"] == () and pod.state is PodState.READY


def test_share_deleted_by_a_tenant_is_reported_not_recreated(house: House) -> None:
    """An empty one in its place would hide the loss; the release is clean all the same."""
    pod = ready(house, SHARE)
    house.cloud.lose(house.cloud.thing("share/data"))
    pod = again(house, pod)
    assert pod.state is PodState.DEGRADED and "share" in pod.reason
    assert not house.cloud.things(Kind.SHARE)
    assert receipt(house, pod).clean


def test_volume_deleted_by_a_tenant_is_reported_and_a_detached_one_attached(house: House) -> None:
    """What was detached is attached again; what was deleted is reported."""
    pod = ready(house, VOLUME)
    house.cloud.lose(house.cloud.thing("volume_attachment/work/gpu01"))
    pod = again(house, pod)
    assert pod.state is PodState.READY and len(house.cloud.things(Kind.VOLUME_ATTACHMENT)) == 2
    house.cloud.lose(house.cloud.thing("volume_attachment/work/gpu01"))
    house.cloud.lose(house.cloud.thing("volume/work/0"))
    assert again(house, pod).state is PodState.DEGRADED
    assert receipt(house, pod).clean


def test_release_does_not_wait_for_detached_volumes(house: House) -> None:
    """A locked or paused server, or a guest that ignores the unplug, keeps its volume; never its node."""
    pod = ready(house, VOLUME)
    house.cloud.plant(Fault.UNDELETABLE, kind=Kind.VOLUME_ATTACHMENT, times=None)
    asked = house.cloud.calls["delete server"]
    signed = receipt(house, pod)
    assert signed.clean and house.cloud.calls["delete server"] > asked
    assert not house.cloud.things(Kind.VOLUME) and not house.cloud.servers


def test_node_leaves_although_its_volume_cannot_be_detached(house: House) -> None:
    ready(house, VOLUME)
    house.cloud.plant(Fault.UNDELETABLE, kind=Kind.VOLUME_ATTACHMENT, times=None)
    changed(house, order(VOLUME, count=1))
    assert len(house.cloud.servers) == len(house.cloud.things(Kind.VOLUME_ATTACHMENT)) == 1


def test_unproved_revocation_prevents_the_receipt(house: House) -> None:
    """Manila accepts the revocation without doing it: no receipt until it is seen."""
    pod = ready(house, SHARE)
    stuck = house.cloud.plant(Fault.UNDELETABLE, kind=Kind.SHARE_ACCESS, times=None)
    house.release(pod)
    pod = again(house, pod, 5)
    assert pod.state is PodState.RELEASING and house.store.records.receipt(pod.id) is None
    stuck.lift()
    for rule in house.cloud.things(Kind.SHARE_ACCESS):
        rule.undeletable = False
    house.run(pod, PodState.RELEASED)


def test_unreadable_share_proves_nothing(house: House) -> None:
    """Unknown is not clean."""
    pod = ready(house, {**SHARE, "keep": True})
    house.release(pod)
    away = house.cloud.plant(Fault.UNREACHABLE, verb="find", kind=Kind.SHARE, times=None)
    assert again(house, pod, 5).state is PodState.RELEASING
    away.lift()
    pod = house.run(pod, PodState.RELEASED)
    signed = house.store.records.receipt(pod.id)
    assert signed is not None and [i.plane for i in signed.receipt.items if i.result == "kept"] == ["share"]


def _abandoned(house: House, pod: PodRecord) -> None:
    """Release the pod, which can't finish, and abandon that as an operator."""
    house.worker = house.new_worker("w2", impatient(900.0))
    house.release(pod)
    assert again(house, pod).state is PodState.RELEASING
    house.service.pods.abandon(house.operator, str(pod.id), "its project is silent")
    assert again(house, pod).state is PodState.RELEASED


@pytest.mark.parametrize(("entry", "kind"), [(SHARE, Kind.SHARE), (VOLUME, Kind.VOLUME)])
def test_undeletable_data_holds_no_numbers(house: House, entry: dict[str, Any], kind: Kind) -> None:
    """A replica or a backup keeps it forever: an operator abandons the release, and its P_Key and VLAN are the next
    pod's; the sweep deletes the data once possible, and nothing of the next pod's."""
    pod = ready(house, entry)
    house.cloud.plant(Fault.UNDELETABLE, kind=kind, times=None)
    _abandoned(house, pod)
    signed = house.store.records.receipt(pod.id)
    assert signed is not None and signed.receipt.abandoned is not None and not signed.receipt.clean
    assert signed.receipt.abandoned.kept == () and signed.receipt.quarantined == ()
    assert {i.plane for i in signed.receipt.items if i.result == "not clean"} == {str(kind), "database"}
    after = house.run(house.order(order(name="next")), PodState.READY)
    assert (after.plan.segment, after.plan.vlan) == (pod.plan.segment, pod.plan.vlan)
    for fault in house.cloud.faults:
        fault.lift()
    for thing in house.cloud.things():
        thing.undeletable = False
    Sweeper(house.store, house.keeper.world, house.keeper.site, house.time).sweep()
    assert not house.cloud.things(kind)
    assert again(house, after).state is PodState.READY


def test_remaining_rule_keeps_the_numbers(house: House) -> None:
    """The next holder of the addresses could read the data."""
    pod = ready(house, SHARE)
    house.cloud.plant(Fault.UNDELETABLE, kind=Kind.SHARE_ACCESS, times=None)
    _abandoned(house, pod)
    signed = house.store.records.receipt(pod.id)
    assert signed is not None and signed.receipt.abandoned is not None
    assert f"vlan/lab {pod.plan.vlan}" in signed.receipt.abandoned.kept


def test_kept_data_deleted_meanwhile_is_not_named(house: House) -> None:
    pod = ready(house, {**SHARE, "keep": True})
    house.cloud.lose(house.cloud.thing("share/data"))
    signed = receipt(house, pod)
    assert signed.clean and not [i for i in signed.items if i.result == "kept"]


def test_share_without_its_mark_is_known_by_its_id(house: House) -> None:
    """Removing the mark from a share that isn't kept doesn't save it from the release."""
    pod = ready(house, SHARE)
    house.cloud.thing("share/data").mark = None
    signed = receipt(house, pod)
    assert signed.clean and not house.cloud.things(Kind.SHARE)


def test_lost_answer_creates_no_second_share(house: House) -> None:
    house.cloud.plant(Fault.LOST_ANSWER, kind=Kind.SHARE)
    house.cloud.plant(Fault.LOST_ANSWER, kind=Kind.VOLUME)
    house.cloud.plant(Fault.LOST_ANSWER, kind=Kind.SHARE_ACCESS)
    house.cloud.plant(Fault.LOST_ANSWER, kind=Kind.VOLUME_ATTACHMENT)
    pod = ready(house, SHARE, VOLUME)
    counted = [len(house.cloud.things(k)) for k in (Kind.SHARE, Kind.SHARE_ACCESS, Kind.VOLUME)]
    assert counted == [1, 2, 2]
    assert receipt(house, pod).clean


SICK = "share is in status shrinking_possible_data_loss_error"


@pytest.mark.parametrize("change", ["keep", "grow", "repair"])
@pytest.mark.parametrize(("entry", "key"), [(SHARE, "share/data"), (VOLUME, "volume/work/0")])
def test_data_in_an_error_status_is_never_replaced(
    house: House, entry: dict[str, Any], key: str, change: str
) -> None:
    """Neither by a change of its own row nor by an operator's repair: it may be whole."""
    pod = ready(house, entry)
    thing = house.cloud.thing(key)
    before = {t.id for t in house.cloud.things(thing.kind)}
    thing.broken = SICK
    assert again(house, pod).state is PodState.DEGRADED
    if change == "repair":
        house.store.request_repair(pod.id)
    else:
        apply(house, order({**entry, "keep": True}) if change == "keep" else order(entry, count=3))
    pod = again(house, pod, 15)
    assert pod.state is PodState.DEGRADED and SICK in pod.reason
    assert before <= {t.id for t in house.cloud.things(thing.kind)} and not thing.gone_at
    assert not house.store.pods.under_repair()
    if change == "keep":
        signed = receipt(house, pod)
        assert f"{thing.name} {thing.id}" in {i.subject for i in signed.items if i.result == "kept"}
    else:
        thing.broken = ""
        assert changed(house, order(entry, count=3 if change == "grow" else 2)).state is PodState.READY


@pytest.mark.parametrize("change", ["keep", "grow", "repair"])
@pytest.mark.parametrize(("entry", "key"), [(SHARE, "share/data"), (VOLUME, "volume/work/0")])
def test_change_does_not_recreate_deleted_data(
    house: House, entry: dict[str, Any], key: str, change: str
) -> None:
    """It is recreated only if it is removed from the order and ordered again."""
    pod = ready(house, entry)
    thing = house.cloud.thing(key)
    for other in house.cloud.things():
        if thing.id in other.fields.values():
            house.cloud.lose(other)
    house.cloud.lose(thing)
    assert again(house, pod).state is PodState.DEGRADED
    if change == "repair":
        house.store.request_repair(pod.id)
    else:
        apply(house, order({**entry, "keep": True}) if change == "keep" else order(entry, count=3))
    pod = again(house, pod, 15)
    assert pod.state is PodState.DEGRADED and key not in {t.mark.key for t in house.cloud.things() if t.mark}
    assert not house.store.pods.under_repair()
    count = 3 if change == "grow" else 2
    changed(house, order(count=count))
    pod = changed(house, order(entry, count=count))
    assert house.cloud.thing(key).id != thing.id
    assert receipt(house, pod).clean


def test_audit_reports_what_it_could_not_list(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """An orphan is found although another project can't be read."""
    pod = ready(house, SHARE)
    rest = house.cloud.marked("lab", ())
    why = UnknownError("list shares", "Manila", "HTTP 403")
    lost = replace(rest[0], id="lost", owner=Owner.pod(str(uuid4())))

    def marked(site: str, projects: object) -> None:
        raise PartlyListedError("cloud lab", [*rest, lost], {"shares of project x": why})

    monkeypatch.setattr(house.cloud, "marked", marked)
    found = {(f.category, f.subject) for f in house.service.audits.run(house.operator).findings}
    assert ("unknown", "shares of project x") in found, (pod.state, found)
    assert [s for f, s in found if f == "orphan" and "lost" in s]
