"""Shares, volumes, exports and scratch of pods, from the order to the receipt, and what tenants do to them."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from tests.engine.house import House, impatient, small_site
from weft.engine.database import Database
from weft.engine.records import PodRecord, RowState
from weft.engine.sweep import Sweeper, SweepSettings
from weft.generate.receipts import verify
from weft.model.errors import ConflictError, InputError, InputErrors, RefusedError, UnknownError
from weft.model.order import Order
from weft.model.owner import Owner
from weft.model.pod import PodState
from weft.model.receipt import Receipt
from weft.model.resources import Kind
from weft.model.site import NfsExport, Site, Storage
from weft.model.specs import ServerSpec
from weft.ports.resources import PartlyListedError
from weft.testing.cloud import Fault

OFFER = Storage(
    network="storage", shares=True, volumes=True, exports={"home": NfsExport(location="nas1.example:/home")}
)
SHARE = {"share": "data", "size": "1TiB", "mount": "/data"}
VOLUME = {"volume": "work", "size": "100GiB", "mount": "/work"}


def site(offer: Storage = OFFER) -> Site:
    small = small_site()
    return small.model_copy(
        update={"clouds": {"lab": small.clouds["lab"].model_copy(update={"storage": offer})}}
    )


def order(*entries: dict[str, Any], count: int = 2, **fields: Any) -> Order:
    nodes = {"count": count, "flavor": "gpu8", "image": "tiny"}
    return Order.model_validate({"name": "train", "nodes": nodes, "storage": entries, **fields})


@pytest.fixture
def house(database: Database, database_url: str) -> Generator[House]:
    house = House(database, database_url)
    house.store.activate_site(site(), "test")
    yield house
    house.close()


def ready(house: House, *entries: dict[str, Any], **fields: Any) -> PodRecord:
    return house.run(house.order(order(*entries, **fields)), PodState.READY)


def receipt(house: House, pod: PodRecord) -> Receipt:
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    signed = house.store.receipt(pod.id)
    assert signed is not None and verify(signed.model_dump(mode="json"), signed.public_key).valid
    return signed.receipt


def apply(house: House, wanted: Order) -> PodRecord:
    view = house.service.apply_pod(house.request(), wanted.name, wanted).pod
    return house.store.find_pod(view.id, None)


def changed(house: House, wanted: Order) -> PodRecord:
    """Applied, and everything of it made true."""
    pod = apply(house, wanted)
    for _ in range(40):
        pod = again(house, pod, 1)
        if pod.changed_at is None:
            break
    assert (pod.state, pod.changed_at) == (PodState.READY, None), pod.reason
    return pod


def again(house: House, pod: PodRecord, visits: int = 3) -> PodRecord:
    for _ in range(visits):
        house.store.wake(pod.id)
        house.worker.run_once()
    return house.store.find_pod(str(pod.id), None)


def test_a_share_is_open_to_the_pods_ports_and_gone_before_the_receipt(house: House) -> None:
    """One rule for each port on the storage network; rules and share are proved absent, item by item."""
    pod = ready(house, SHARE)
    (share,) = house.cloud.things(Kind.SHARE)
    rules = house.cloud.things(Kind.SHARE_ACCESS)
    ports = {t.id for t in house.cloud.ports if t.fields["site_network"] == "storage"}
    assert len(ports) == 2 and {r.fields["port"] for r in rules} == ports
    assert {r.fields["share"] for r in rules} == {share.id}
    # An address on the storage network is none of an adapter.
    shown = house.service.show_pod(house.request(), str(pod.id))
    assert [len(s.rdma_addresses) for s in shown.servers] == [2, 2]
    signed = receipt(house, pod)
    assert signed.clean
    told = [i.plane for i in signed.items if i.result == "clean"]
    assert (told.count("share"), told.count("share_access")) == (1, 2)
    assert not house.cloud.things(Kind.SHARE) and not house.cloud.things(Kind.SHARE_ACCESS)


def test_without_a_storage_network_shares_are_mounted_from_the_management_network(house: House) -> None:
    """Then no server has a further port."""
    house.store.activate_site(site(OFFER.model_copy(update={"network": None})), "test")
    ready(house, SHARE)
    management = {house.cloud.thing(f"port/{n}/management").id for n in ("gpu01", "gpu02")}
    assert {r.fields["port"] for r in house.cloud.things(Kind.SHARE_ACCESS)} == management


def test_each_server_has_a_volume_and_the_release_takes_them(house: House) -> None:
    """Attached to the server of its number; detached, seen detached and deleted."""
    pod = ready(house, VOLUME)
    attached = {(a.fields["volume"], a.fields["server"]) for a in house.cloud.things(Kind.VOLUME_ATTACHMENT)}
    wanted = {
        (house.cloud.thing(f"volume/work/{n}").id, house.cloud.thing(f"server/{node}").id)
        for n, node in enumerate(("gpu01", "gpu02"))
    }
    assert attached == wanted
    signed = receipt(house, pod)
    assert signed.clean and not house.cloud.things(Kind.VOLUME)
    planes = [i.plane for i in signed.items]
    assert (planes.count("volume"), planes.count("volume_attachment")) == (2, 2)


def test_servers_mount_what_was_ordered_beside_the_tenants_user_data(house: House) -> None:
    """The user data has both; places of shares and volumes are filled in when the server is created."""
    own = "#cloud-config\npackages: [htop]\n"
    home = {"export": "home", "mount": "/home/all", "read_only": True}
    pod = ready(house, SHARE, VOLUME, home, access={"user_data": own})
    spec = next(r.resource.spec for r in house.store.resources(pod.id) if r.key == "server/gpu02")
    assert isinstance(spec, ServerSpec) and spec.user_data is not None
    assert own in spec.user_data and "nfs 'nas1.example:/home' /home/all ro,hard" in spec.user_data
    assert "nfs '${weft:share/data}' /data rw,hard" in spec.user_data
    assert "volume '${weft:volume/work/1}' /work" in spec.user_data
    assert spec.storage == ("share/data", "volume/work/1")


def test_kept_data_stays_and_is_named_in_the_receipt(house: House) -> None:
    """With its id, its new name and the project; it bears no mark any more, and nobody takes it later."""
    pod = ready(house, {**SHARE, "keep": True}, {**VOLUME, "keep": True})
    share = house.cloud.thing("share/data")
    signed = receipt(house, pod)
    kept = {i.subject: i for i in signed.items if i.result == "kept"}
    assert signed.clean and len(kept) == 3
    assert "team-a" in kept[f"train-data {share.id}"].seen
    assert {s.split()[0] for s in kept} == {"train-data", "train-work-0", "train-work-1"}
    assert not house.cloud.things(Kind.SHARE_ACCESS) and not house.cloud.things(Kind.VOLUME_ATTACHMENT)
    assert all(t.mark is None for t in (*house.cloud.things(Kind.SHARE), *house.cloud.things(Kind.VOLUME)))
    assert not [f for f in house.service.audit(house.operator).findings if f.kind in ("share", "volume")]


def test_a_later_pod_uses_what_was_kept(house: House) -> None:
    """By id or name: it gets rules and attachments, never the mark, and leaves the data where it was."""
    receipt(house, ready(house, {**SHARE, "keep": True}, {**VOLUME, "keep": True}))
    share, volumes = house.cloud.things(Kind.SHARE), house.cloud.things(Kind.VOLUME)
    existing = [volumes[1].id, volumes[0].name]
    pod = ready(
        house,
        {"share": "old", "existing": "train-data", "mount": "/data"},
        {"volume": "old", "existing": existing, "mount": "/work"},
    )
    assert pod.order.storage[0].existing == (share[0].id,)
    assert pod.order.storage[1].existing == (volumes[1].id, volumes[0].id)
    assert {a.fields["share_id"] for a in house.cloud.things(Kind.SHARE_ACCESS)} == {share[0].id}
    assert len(house.cloud.things(Kind.VOLUME_ATTACHMENT)) == 2
    signed = receipt(house, pod)
    assert signed.clean and house.cloud.things(Kind.SHARE) == share
    assert house.cloud.things(Kind.VOLUME) == volumes and not house.cloud.things(Kind.SHARE_ACCESS)


def test_a_tenant_that_opens_the_share_is_found_and_it_is_closed(house: House) -> None:
    """Access for everybody is a difference, and is taken away."""
    pod = ready(house, SHARE)
    share = house.cloud.thing("share/data")
    share.fields["others"] = ("0.0.0.0/0",)
    assert "0.0.0.0/0" in house.service.audit(house.operator).model_dump_json()
    pod = again(house, pod)
    assert share.fields["others"] == () and pod.state is PodState.READY


def test_a_share_that_a_tenant_deleted_is_told_and_not_made_again(house: House) -> None:
    """An empty one in its place would hide the loss; the release is clean all the same."""
    pod = ready(house, SHARE)
    house.cloud.lose(house.cloud.thing("share/data"))
    pod = again(house, pod)
    assert pod.state is PodState.DEGRADED and "share" in pod.reason
    assert not house.cloud.things(Kind.SHARE)
    assert receipt(house, pod).clean


def test_a_volume_that_a_tenant_deleted_or_detached(house: House) -> None:
    """What was detached is attached again; what was deleted is told."""
    pod = ready(house, VOLUME)
    house.cloud.lose(house.cloud.thing("volume_attachment/work/gpu01"))
    pod = again(house, pod)
    assert pod.state is PodState.READY and len(house.cloud.things(Kind.VOLUME_ATTACHMENT)) == 2
    house.cloud.lose(house.cloud.thing("volume_attachment/work/gpu01"))
    house.cloud.lose(house.cloud.thing("volume/work/0"))
    assert again(house, pod).state is PodState.DEGRADED
    assert receipt(house, pod).clean


def test_a_release_does_not_wait_until_its_volumes_are_detached(house: House) -> None:
    """A locked or paused server, or a guest that ignores the unplug, keeps its volume; never its node."""
    pod = ready(house, VOLUME)
    house.cloud.plant(Fault.UNDELETABLE, kind=Kind.VOLUME_ATTACHMENT, times=None)
    asked = house.cloud.calls["delete server"]
    signed = receipt(house, pod)
    assert signed.clean and house.cloud.calls["delete server"] > asked
    assert not house.cloud.things(Kind.VOLUME) and not house.cloud.servers


def test_a_node_leaves_though_its_volume_can_not_be_detached(house: House) -> None:
    ready(house, VOLUME)
    house.cloud.plant(Fault.UNDELETABLE, kind=Kind.VOLUME_ATTACHMENT, times=None)
    changed(house, order(VOLUME, count=1))
    assert len(house.cloud.servers) == len(house.cloud.things(Kind.VOLUME_ATTACHMENT)) == 1


def test_a_rule_that_is_not_seen_revoked_keeps_the_receipt_back(house: House) -> None:
    """Manila says that it revokes, and doesn't: no receipt until it is seen."""
    pod = ready(house, SHARE)
    stuck = house.cloud.plant(Fault.UNDELETABLE, kind=Kind.SHARE_ACCESS, times=None)
    house.release(pod)
    pod = again(house, pod, 5)
    assert pod.state is PodState.RELEASING and house.store.receipt(pod.id) is None
    stuck.lift()
    for rule in house.cloud.things(Kind.SHARE_ACCESS):
        rule.undeletable = False
    house.run(pod, PodState.RELEASED)


def test_a_share_that_cannot_be_read_is_no_proof(house: House) -> None:
    """Unknown is not clean."""
    pod = ready(house, {**SHARE, "keep": True})
    house.release(pod)
    away = house.cloud.plant(Fault.UNREACHABLE, verb="find", kind=Kind.SHARE, times=None)
    assert again(house, pod, 5).state is PodState.RELEASING
    away.lift()
    pod = house.run(pod, PodState.RELEASED)
    signed = house.store.receipt(pod.id)
    assert signed is not None and [i.plane for i in signed.receipt.items if i.result == "kept"] == ["share"]


def _abandoned(house: House, pod: PodRecord) -> None:
    """A release that doesn't end, ended by an operator."""
    house.worker = house.new_worker("w2", impatient(900.0))
    house.release(pod)
    assert again(house, pod).state is PodState.RELEASING
    house.service.abandon_pod(house.operator, str(pod.id), "its project is silent")
    assert again(house, pod).state is PodState.RELEASED


@pytest.mark.parametrize(("entry", "kind"), [(SHARE, Kind.SHARE), (VOLUME, Kind.VOLUME)])
def test_data_that_a_tenant_keeps_from_being_deleted_holds_no_numbers(
    house: House, entry: dict[str, Any], kind: Kind
) -> None:
    """A replica or a backup keeps it for ever: an operator ends the release, and its P_Key and VLAN are the next pod's;
    the sweep takes the data away once that can be done, and nothing of the next pod's.
    """
    pod = ready(house, entry)
    house.cloud.plant(Fault.UNDELETABLE, kind=kind, times=None)
    _abandoned(house, pod)
    signed = house.store.receipt(pod.id)
    assert signed is not None and signed.receipt.abandoned is not None and not signed.receipt.clean
    assert signed.receipt.abandoned.kept == () and signed.receipt.quarantined == ()
    assert {i.plane for i in signed.receipt.items if i.result == "not clean"} == {str(kind), "database"}
    after = house.run(house.order(order(name="next")), PodState.READY)
    assert (after.plan.segment, after.plan.vlan) == (pod.plan.segment, pod.plan.vlan)
    for fault in house.cloud.faults:
        fault.lift()
    for thing in house.cloud.things():
        thing.undeletable = False
    Sweeper(house.store, house.keeper.world, house.keeper.site, house.time, SweepSettings(pause=0.01)).sweep()
    assert not house.cloud.things(kind)
    assert again(house, after).state is PodState.READY


def test_a_rule_that_is_left_keeps_the_numbers(house: House) -> None:
    """Whoever got the addresses next could read the data."""
    pod = ready(house, SHARE)
    house.cloud.plant(Fault.UNDELETABLE, kind=Kind.SHARE_ACCESS, times=None)
    _abandoned(house, pod)
    signed = house.store.receipt(pod.id)
    assert signed is not None and signed.receipt.abandoned is not None
    assert f"vlan/lab {pod.plan.vlan}" in signed.receipt.abandoned.kept


def test_kept_data_that_a_tenant_deleted_meanwhile_is_not_named(house: House) -> None:
    pod = ready(house, {**SHARE, "keep": True})
    house.cloud.lose(house.cloud.thing("share/data"))
    signed = receipt(house, pod)
    assert signed.clean and not [i for i in signed.items if i.result == "kept"]


def test_a_share_without_its_mark_is_the_pods_by_its_id(house: House) -> None:
    """A tenant that takes the mark off a share that isn't kept doesn't save it from the release."""
    pod = ready(house, SHARE)
    house.cloud.thing("share/data").mark = None
    signed = receipt(house, pod)
    assert signed.clean and not house.cloud.things(Kind.SHARE)


def test_a_lost_answer_makes_no_second_share(house: House) -> None:
    house.cloud.plant(Fault.LOST_ANSWER, kind=Kind.SHARE)
    house.cloud.plant(Fault.LOST_ANSWER, kind=Kind.VOLUME)
    house.cloud.plant(Fault.LOST_ANSWER, kind=Kind.SHARE_ACCESS)
    house.cloud.plant(Fault.LOST_ANSWER, kind=Kind.VOLUME_ATTACHMENT)
    pod = ready(house, SHARE, VOLUME)
    counted = [len(house.cloud.things(k)) for k in (Kind.SHARE, Kind.SHARE_ACCESS, Kind.VOLUME)]
    assert counted == [1, 2, 2]
    assert receipt(house, pod).clean


# -- changes ------------------------------------------------------------------------------------------------------


def test_storage_is_added_to_a_running_pod_and_taken_away(house: House) -> None:
    """Servers go on as they are; what was kept is in the receipt though it left long before."""
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


def test_a_name_that_is_ordered_again_gets_a_new_share(house: House) -> None:
    """What was kept under that name is the project's now; both are in the receipts."""
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
def test_what_was_kept_is_never_taken_back(house: House, entry: dict[str, Any], fault: Fault) -> None:
    """Ordered again under the same name, and the first attempt to make the new one gets no answer of use."""
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


def test_a_name_whose_data_is_on_its_way_out_is_refused(house: House) -> None:
    """What is being kept is neither deleted in its middle nor taken back."""
    ready(house, {**SHARE, "keep": True}, VOLUME)
    share = house.cloud.thing("share/data")
    away = house.cloud.plant(Fault.ERROR_500, verb="delete", kind=Kind.SHARE, times=None)
    again(house, apply(house, order(VOLUME)), 4)
    with pytest.raises(ConflictError, match="still being removed or kept"):
        apply(house, order(SHARE, VOLUME))
    away.lift()
    pod = changed(house, order(VOLUME))
    assert share.mark is None and share.gone_at is None
    pod = changed(house, order(SHARE, VOLUME))
    assert receipt(house, pod).clean and house.cloud.things(Kind.SHARE) == [share]


def test_what_was_taken_from_the_order_by_mistake_is_taken_back(house: House) -> None:
    """Nothing of it was touched yet."""
    ready(house, SHARE, VOLUME)
    share = house.cloud.thing("share/data").id
    apply(house, order(VOLUME))
    changed(house, order(SHARE, VOLUME))
    assert [t.id for t in house.cloud.things(Kind.SHARE)] == [share]


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
    assert not house.store.under_repair()
    if change == "keep":
        signed = receipt(house, pod)
        assert f"{thing.name} {thing.id}" in {i.subject for i in signed.items if i.result == "kept"}
    else:
        thing.broken = ""
        assert changed(house, order(entry, count=3 if change == "grow" else 2)).state is PodState.READY


@pytest.mark.parametrize("change", ["keep", "grow", "repair"])
@pytest.mark.parametrize(("entry", "key"), [(SHARE, "share/data"), (VOLUME, "volume/work/0")])
def test_deleted_data_is_not_made_again_by_a_change(
    house: House, entry: dict[str, Any], key: str, change: str
) -> None:
    """Until it is taken from the order; ordered again, there is a new one."""
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
    assert not house.store.under_repair()
    count = 3 if change == "grow" else 2
    changed(house, order(count=count))
    pod = changed(house, order(entry, count=count))
    assert house.cloud.thing(key).id != thing.id
    assert receipt(house, pod).clean


@pytest.mark.parametrize(("entry", "kind"), [(SHARE, Kind.SHARE), (VOLUME, Kind.VOLUME)])
def test_what_nobody_was_let_in_to_is_not_kept(house: House, entry: dict[str, Any], kind: Kind) -> None:
    """It came out in an error status and holds nothing."""
    house.cloud.plant(Fault.BROKEN, kind=kind, times=None)
    pod = house.run(house.order(order({**entry, "keep": True})), PodState.FAILED)
    assert house.cloud.things(kind)
    signed = receipt(house, pod)
    assert signed.clean and not house.cloud.things(kind)
    assert not [i for i in signed.items if i.result == "kept"]


def test_a_grown_pods_new_node_gets_rule_and_volume(house: House) -> None:
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
def test_what_can_not_change_is_said_before_anything_is_touched(
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
    assert house.store.find_pod(str(pod.id), None).generation == 1


def test_a_first_share_of_a_pod_without_a_storage_port_is_refused(house: House) -> None:
    ready(house, VOLUME)
    with pytest.raises(InputErrors, match="no port on the storage network"):
        apply(house, order(VOLUME, SHARE))


def test_an_export_that_the_site_no_longer_has(house: House) -> None:
    """One sentence, for a change of something else too; the pod serves, and is released."""
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


# -- refusals -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("offer", "entry", "field", "said"),
    [
        (Storage(), SHARE, "storage.0.share", "no shares (Manila)"),
        (Storage(), VOLUME, "storage.0.volume", "no volumes (Cinder)"),
        (OFFER, {**SHARE, "type": "gold"}, "storage.0.type", "default, fast"),
        (OFFER, {**VOLUME, "type": "gold"}, "storage.0.type", "default, fast"),
        (OFFER, {"export": "nowhere", "mount": "/x"}, "storage.0.export", "exports of cloud lab: home"),
        (OFFER, {"scratch": "nvme", "mount": "/scratch"}, "storage.0.scratch", "no local NVMe drives"),
        (
            OFFER,
            {"share": "x", "existing": "none", "mount": "/x"},
            "storage.0.existing",
            "no share of that name",
        ),
        (
            OFFER,
            {"volume": "x", "existing": ["a"], "mount": "/x"},
            "storage.0.existing",
            "at least 2 volumes",
        ),
    ],
)
def test_orders_that_the_site_or_the_cloud_can_not_serve(
    house: House, offer: Storage, entry: dict[str, Any], field: str, said: str
) -> None:
    house.store.activate_site(site(offer), "test")
    with pytest.raises(InputError) as caught:
        house.order(order(entry))
    assert caught.value.field == field and said in str(caught.value)
    assert not house.cloud.things()


def test_quotas_of_shares_and_volumes(house: House) -> None:
    """Numbers and gigabytes, before anything is created."""
    house.cloud.offers.quotas[("team-a", "share gigabytes")] = 1000
    with pytest.raises(RefusedError, match=r"share gigabytes: 0 used \+ 1024 requested > 1000"):
        house.order(order(SHARE))
    house.cloud.offers.quotas[("team-a", "volumes")] = 1
    with pytest.raises(RefusedError, match=r"volumes: 0 used \+ 2 requested > 1"):
        house.order(order(VOLUME))
    assert not house.cloud.things()


def test_quotas_count_when_storage_is_added(house: House) -> None:
    ready(house, SHARE)
    house.cloud.offers.quotas[("team-a", "volumes")] = 1
    with pytest.raises(RefusedError, match=r"volumes: 0 used \+ 2 requested > 1"):
        apply(house, order(SHARE, VOLUME))


def test_nothing_of_another_project_is_used(house: House) -> None:
    """Its name and id are as unknown as any other."""
    theirs = house.cloud.add(Kind.SHARE, "secret", "team-b", gib=1, share_type=None)
    for name in (theirs.id, theirs.name):
        with pytest.raises(InputError, match="no share of that name or id"):
            house.order(order({"share": "x", "existing": name, "mount": "/x"}))


def test_a_volume_that_is_meant_twice_is_refused(house: House) -> None:
    """By its name and its id, in one entry or two: two servers, or two mounts, would have one file system."""
    receipt(house, ready(house, {**VOLUME, "keep": True}, {**SHARE, "keep": True}))
    first, second = house.cloud.things(Kind.VOLUME)
    one = {"volume": "one", "existing": [first.name, second.id], "mount": "/one"}
    twice = {"volume": "one", "existing": [first.name, first.id], "mount": "/one"}
    other = {"volume": "two", "existing": [second.name, first.name], "mount": "/two"}
    share = {"share": "a", "existing": "train-data", "mount": "/a"}
    again_ = {"share": "b", "existing": house.cloud.things(Kind.SHARE)[0].id, "mount": "/b"}
    for entries, number in (([twice], 0), ([one, other], 1), ([share, again_], 1)):
        with pytest.raises(InputError, match="named twice") as caught:
            house.order(order(*entries))
        assert caught.value.field == f"storage.{number}.existing"
    ready(house, one, share)


def test_an_audit_tells_what_it_could_not_list_and_the_rest(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An orphan is found beside a project that can't be read."""
    pod = ready(house, SHARE)
    rest = house.cloud.marked("lab", ())
    why = UnknownError("list shares", "Manila", "HTTP 403")
    lost = replace(rest[0], id="lost", owner=Owner.pod(str(uuid4())))

    def marked(site: str, projects: object) -> None:
        raise PartlyListedError("cloud lab", [*rest, lost], {"shares of project x": why})

    monkeypatch.setattr(house.cloud, "marked", marked)
    found = {(f.category, f.subject) for f in house.service.audit(house.operator).findings}
    assert ("unknown", "shares of project x") in found, (pod.state, found)
    assert [s for f, s in found if f == "orphan" and "lost" in s]


def test_rows_say_what_they_are(house: House) -> None:
    pod = ready(house, SHARE, VOLUME)
    rows = {r.key: r for r in house.store.resources(pod.id)}
    assert rows["share_access/data/gpu01"].state is RowState.SETTLED
    view = house.service.show_pod(house.request(), str(pod.id))
    assert {r.kind for r in view.resources} >= {"share", "share_access", "volume", "volume_attachment"}
