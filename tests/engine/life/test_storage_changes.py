"""Storage of a running pod: adding, removing, keeping, and what can't change."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import psycopg
import pytest

from tests.engine.house import House
from tests.engine.storagehouse import (
    OFFER,
    SHARE,
    VOLUME,
    again,
    apply,
    changed,
    order,
    plan,
    ready,
    receipt,
    site,
    storage_house,
)
from weft.engine.base.database import Database
from weft.engine.watch.retention import Retention
from weft.model.errors import ConflictError, InputError, InputErrors, RefusedError
from weft.model.pod import PodState
from weft.model.resources import Kind
from weft.model.site import RetentionPolicy
from weft.testing.cloud import Fault

MORE = {"share": "more", "size": "10GiB", "mount": "/more"}


@pytest.fixture
def house(database: Database, database_url: str) -> Generator[House]:
    house = storage_house(database, database_url)
    yield house
    house.close()


def test_storage_is_added_to_a_running_pod_and_removed(house: House) -> None:
    """Servers are unchanged; the receipt names what was kept, though it left long before."""
    pod = ready(house, SHARE)
    servers = {s.id for s in house.cloud.servers}
    more = {"share": "more", "size": "10GiB", "mount": "/more", "keep": True}
    pod = changed(house, order(SHARE, more, VOLUME))
    assert len(house.cloud.things(Kind.SHARE)) == 2 and len(house.cloud.things(Kind.VOLUME_ATTACHMENT)) == 2
    kept = house.cloud.thing("share/more").id
    pod = changed(house, order(VOLUME))
    assert pod.state is PodState.READY and {s.id for s in house.cloud.servers} == servers
    assert [t.id for t in house.cloud.things(Kind.SHARE)] == [kept]
    assert not house.cloud.things(Kind.SHARE_ACCESS)
    signed = receipt(house, pod)
    assert signed.clean
    assert [i.subject for i in signed.items if i.result == "kept"] == [f"train-more {kept}"]


def test_reordered_name_gets_a_new_share(house: House) -> None:
    """The project keeps the data under that name; both are in the receipts."""
    keep = {**SHARE, "keep": True}
    ready(house, keep, VOLUME)
    first = house.cloud.thing("share/data").id
    changed(house, order(VOLUME))
    pod = changed(house, order(keep, VOLUME))
    second = house.cloud.thing("share/data").id
    assert first != second
    signed = receipt(house, pod)
    kept = [i.subject for i in signed.items if i.result == "kept"]
    assert sorted(kept) == sorted([f"train-data {first}", f"train-data {second}"])


@pytest.mark.parametrize("entry", [SHARE, VOLUME])
@pytest.mark.parametrize("fault", [Fault.ERROR_500, Fault.LOST_ANSWER])
def test_kept_data_is_never_taken_back(house: House, entry: dict[str, Any], fault: Fault) -> None:
    """Ordered again under the same name, and the first attempt to create the new one gets no useful answer."""
    kind, other = (Kind.SHARE, VOLUME) if "share" in entry else (Kind.VOLUME, SHARE)
    ready(house, {**entry, "keep": True}, other)
    changed(house, order(other))
    kept = {t.id: t.name for t in house.cloud.things(kind)}
    house.cloud.plant(fault, kind=kind, verb="create")
    pod = changed(house, order(entry, other))
    assert {t.id: t.name for t in house.cloud.things(kind) if t.mark is None} == kept
    assert len(house.cloud.things(kind)) == 2 * len(kept)
    signed = receipt(house, pod)
    assert signed.clean and {t.id: t.name for t in house.cloud.things(kind)} == kept
    assert {i.subject for i in signed.items if i.result == "kept"} == {f"{n} {i}" for i, n in kept.items()}


def test_name_of_data_being_removed_is_refused(house: House) -> None:
    """Data that is being kept is neither deleted halfway nor taken back."""
    ready(house, {**SHARE, "keep": True}, VOLUME)
    share = house.cloud.thing("share/data")
    away = house.cloud.plant(Fault.ERROR_500, verb="delete", kind=Kind.SHARE, times=None)
    again(house, apply(house, order(VOLUME)), 4)
    for ask in (apply, plan):
        with pytest.raises(ConflictError, match="still being removed or kept"):
            ask(house, order(SHARE, VOLUME))
    away.lift()
    pod = changed(house, order(VOLUME))
    assert share.mark is None and share.gone_at is None
    pod = changed(house, order(SHARE, VOLUME))
    assert receipt(house, pod).clean and house.cloud.things(Kind.SHARE) == [share]


def test_storage_removed_by_mistake_is_restored(house: House) -> None:
    """Nothing of it was changed yet."""
    ready(house, SHARE, VOLUME)
    share = house.cloud.thing("share/data").id
    apply(house, order(VOLUME))
    changed(house, order(SHARE, VOLUME))
    assert [t.id for t in house.cloud.things(Kind.SHARE)] == [share]


def test_grown_pods_new_node_gets_rule_and_volume(house: House) -> None:
    ready(house, SHARE, VOLUME)
    pod = changed(house, order(SHARE, VOLUME, count=3))
    assert len(house.cloud.things(Kind.SHARE_ACCESS)) == 3 and len(house.cloud.things(Kind.VOLUME)) == 3
    pod = changed(house, order(SHARE, VOLUME, count=2))
    assert len(house.cloud.things(Kind.SHARE_ACCESS)) == 2 and len(house.cloud.things(Kind.VOLUME)) == 2
    assert receipt(house, pod).clean


@pytest.mark.parametrize(
    ("entries", "field", "allowed"),
    [
        ([{**SHARE, "size": "2TiB"}, VOLUME], "storage.0.size", "stays as created"),
        ([{**SHARE, "mount": "/other"}, VOLUME], "storage.0.mount", "cloud-init"),
        ([{**SHARE, "type": "fast"}, VOLUME], "storage.0.type", "stays as created"),
        ([SHARE, VOLUME, {"export": "home", "mount": "/home"}], "storage.2", "cloud-init"),
    ],
)
def test_impossible_storage_change_is_refused_as_a_whole(
    house: House, entries: list[dict[str, Any]], field: str, allowed: str
) -> None:
    pod = ready(house, SHARE, VOLUME)
    before = dict(house.cloud.calls)
    with pytest.raises(InputErrors) as caught:
        apply(house, order(*entries))
    (error,) = caught.value.errors
    assert error.field == field and allowed in str(error)
    changed = {k for k, n in house.cloud.calls.items() if n != before.get(k)}
    assert not {k for k in changed if k.split()[0] in ("create", "update", "delete")}
    assert house.store.pods.find(str(pod.id), None).generation == 1


def test_first_share_without_a_storage_port_is_refused(house: House) -> None:
    ready(house, VOLUME)
    with pytest.raises(InputErrors, match="no port on the storage network"):
        apply(house, order(VOLUME, SHARE))


def test_share_is_refused_if_one_server_has_no_storage_port(house: House) -> None:
    """It came while the order had no share; servers created with one still have their ports."""
    ready(house, SHARE, count=1)
    changed(house, order(count=2))
    with pytest.raises(InputErrors, match="no port on the storage network"):
        apply(house, order(SHARE, count=2))


@pytest.mark.parametrize(("entry", "kind"), [(SHARE, Kind.SHARE), (VOLUME, Kind.VOLUME)])
def test_failing_storage_is_reported_until_removed_from_the_order(
    house: House, entry: dict[str, Any], kind: Kind
) -> None:
    """A back end without capacity; the pod's earlier storage goes on, and no visit follows at once."""
    other = {"share": "first", "size": "1TiB", "mount": "/first"}
    pod = ready(house, other)
    house.cloud.plant(Fault.BROKEN, kind=kind, reason="no back end has room")
    apply(house, order(other, entry))
    pod = again(house, pod, 15)
    assert pod.state is PodState.DEGRADED and "no back end has room" in pod.reason
    assert pod.failures > 1
    assert changed(house, order(other)).state is PodState.READY
    assert changed(house, order(other, entry)).state is PodState.READY


def test_export_removed_from_the_site_is_reported(house: House) -> None:
    """In one sentence, also for another change; the pod serves, and can be released."""
    home = {"export": "home", "mount": "/home"}
    pod = ready(house, home)
    house.store.activate_site(site(OFFER.model_copy(update={"exports": {}})), "test")
    with pytest.raises((ConflictError, InputError), match="export"):
        apply(house, order(home, count=3))
    assert again(house, pod).state is PodState.READY
    assert receipt(house, pod).clean


def test_keep_can_be_decided_while_the_pod_runs(house: House) -> None:
    ready(house, SHARE)
    pod = changed(house, order({**SHARE, "keep": True}))
    assert [i.result for i in receipt(house, pod).items if i.plane == "share"] == ["kept"]


def test_quotas_count_when_storage_is_added(house: House) -> None:
    ready(house, SHARE)
    house.cloud.offers.quotas[("team-a", "volumes")] = 1
    with pytest.raises(RefusedError, match=r"volumes: 0 used \+ 2 requested > 1"):
        apply(house, order(SHARE, VOLUME))


def test_pruned_storage_blocks_no_change_and_no_release(house: House) -> None:
    """The tombstones of data stay for the receipt; those of what they needed go with their age."""
    pod = ready(house, {**SHARE, "keep": True}, VOLUME)
    away = house.cloud.plant(Fault.UNREACHABLE, kind=Kind.SHARE, verb="create", times=None)
    again(house, apply(house, order({**SHARE, "keep": True}, MORE)), 4)
    away.lift()
    changed(house, order())
    with psycopg.connect(house.database.url, autocommit=True) as connection:
        connection.execute("UPDATE resource SET finished_at = finished_at - interval '60 days'")
        connection.execute("UPDATE owner SET created_at = created_at - interval '60 days'")
    removed, *_ = Retention(house.database, house.keeper.site).run(RetentionPolicy(tombstones="5d"))
    assert removed["tombstones of live owners"] > 0
    assert {r.kind for r in house.store.pods.resources(pod.id) if not r.wanted} <= {Kind.SHARE, Kind.VOLUME}
    assert changed(house, order(count=3)).state is PodState.READY
    assert receipt(house, pod).clean
