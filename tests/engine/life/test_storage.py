"""Shares, volumes, exports and scratch of pods, from order to receipt; and orders that can't be served."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from tests.engine.house import House
from tests.engine.storagehouse import OFFER, SHARE, VOLUME, order, ready, receipt, site, storage_house
from weft.engine.base.database import Database
from weft.engine.rows.records import RowState
from weft.model.errors import InputError, RefusedError
from weft.model.pod import PodState
from weft.model.resources import Kind
from weft.model.site import Storage
from weft.model.specs import ServerSpec
from weft.testing.cloud import Fault


@pytest.fixture
def house(database: Database, database_url: str) -> Generator[House]:
    house = storage_house(database, database_url)
    yield house
    house.close()


def test_share_is_open_to_the_pods_ports_and_gone_before_the_receipt(house: House) -> None:
    """One rule for each port on the storage network; rules and share are proved absent, item by item."""
    pod = ready(house, SHARE)
    (share,) = house.cloud.things(Kind.SHARE)
    rules = house.cloud.things(Kind.SHARE_ACCESS)
    ports = {t.id for t in house.cloud.ports if t.fields["site_network"] == "storage"}
    assert len(ports) == 2 and {r.fields["port"] for r in rules} == ports
    assert {r.fields["share"] for r in rules} == {share.id}
    # Addresses on the storage network aren't counted as adapters'.
    shown = house.service.pods.show(house.request(), str(pod.id))
    assert [len(s.rdma_addresses) for s in shown.servers] == [2, 2]
    signed = receipt(house, pod)
    assert signed.clean
    clean = [i.plane for i in signed.items if i.result == "clean"]
    assert (clean.count("share"), clean.count("share_access")) == (1, 2)
    assert not house.cloud.things(Kind.SHARE) and not house.cloud.things(Kind.SHARE_ACCESS)


def test_shares_use_the_management_network_without_a_storage_network(house: House) -> None:
    """Then no server has a further port."""
    house.store.activate_site(site(OFFER.model_copy(update={"network": None})), "test")
    ready(house, SHARE)
    management = {house.cloud.thing(f"port/{n}/management").id for n in ("gpu01", "gpu02")}
    assert {r.fields["port"] for r in house.cloud.things(Kind.SHARE_ACCESS)} == management


def test_each_server_has_a_volume_and_the_release_deletes_them(house: House) -> None:
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


def test_servers_mount_storage_beside_the_tenants_user_data(house: House) -> None:
    """The user data has both; places of shares and volumes are filled in when the server is created."""
    own = "#cloud-config\npackages: [htop]\n"
    home = {"export": "home", "mount": "/home/all", "read_only": True}
    pod = ready(house, SHARE, VOLUME, home, access={"user_data": own})
    spec = next(r.resource.spec for r in house.store.pods.resources(pod.id) if r.key == "server/gpu02")
    assert isinstance(spec, ServerSpec) and spec.user_data is not None
    assert own in spec.user_data and "nfs 'nas1.example:/home' /home/all ro,hard" in spec.user_data
    assert "nfs '${weft:share/data}' /data rw,hard" in spec.user_data
    assert "volume '${weft:volume/work/1}' /work" in spec.user_data
    assert spec.storage == ("share/data", "volume/work/1")


def test_kept_data_stays_and_is_named_in_the_receipt(house: House) -> None:
    """With its id, its new name and the project; it bears no mark any more, and no later pod takes it."""
    pod = ready(house, {**SHARE, "keep": True}, {**VOLUME, "keep": True})
    share = house.cloud.thing("share/data")
    signed = receipt(house, pod)
    kept = {i.subject: i for i in signed.items if i.result == "kept"}
    assert signed.clean and len(kept) == 3
    assert "team-a" in kept[f"train-data {share.id}"].seen
    assert {s.split()[0] for s in kept} == {"train-data", "train-work-0", "train-work-1"}
    assert not house.cloud.things(Kind.SHARE_ACCESS) and not house.cloud.things(Kind.VOLUME_ATTACHMENT)
    assert all(t.mark is None for t in (*house.cloud.things(Kind.SHARE), *house.cloud.things(Kind.VOLUME)))
    assert not [f for f in house.service.audits.run(house.operator).findings if f.kind in ("share", "volume")]


def test_later_pod_uses_kept_data(house: House) -> None:
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


@pytest.mark.parametrize(("entry", "kind"), [(SHARE, Kind.SHARE), (VOLUME, Kind.VOLUME)])
def test_data_that_was_never_accessible_is_not_kept(house: House, entry: dict[str, Any], kind: Kind) -> None:
    """It ended in an error status and holds nothing."""
    house.cloud.plant(Fault.BROKEN, kind=kind, times=None)
    pod = house.run(house.order(order({**entry, "keep": True})), PodState.FAILED)
    assert house.cloud.things(kind)
    signed = receipt(house, pod)
    assert signed.clean and not house.cloud.things(kind)
    assert not [i for i in signed.items if i.result == "kept"]


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
def test_orders_beyond_site_or_cloud_are_refused(
    house: House, offer: Storage, entry: dict[str, Any], field: str, said: str
) -> None:
    house.store.activate_site(site(offer), "test")
    with pytest.raises(InputError) as caught:
        house.order(order(entry))
    assert caught.value.field == field and said in str(caught.value)
    assert not house.cloud.things()


def test_quotas_of_shares_and_volumes_are_checked(house: House) -> None:
    """Numbers and gigabytes, before anything is created."""
    house.cloud.offers.quotas[("team-a", "share gigabytes")] = 1000
    with pytest.raises(RefusedError, match=r"share gigabytes: 0 used \+ 1024 requested > 1000"):
        house.order(order(SHARE))
    house.cloud.offers.quotas[("team-a", "volumes")] = 1
    with pytest.raises(RefusedError, match=r"volumes: 0 used \+ 2 requested > 1"):
        house.order(order(VOLUME))
    assert not house.cloud.things()


def test_data_of_another_project_cannot_be_used(house: House) -> None:
    """Its name and id are refused as invented ones are."""
    theirs = house.cloud.add(Kind.SHARE, "secret", "team-b", gib=1, share_type=None)
    for name in (theirs.id, theirs.name):
        with pytest.raises(InputError, match="no share of that name or id"):
            house.order(order({"share": "x", "existing": name, "mount": "/x"}))


def test_volume_named_twice_is_refused(house: House) -> None:
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


def test_shares_and_volumes_are_among_the_pods_resources(house: House) -> None:
    pod = ready(house, SHARE, VOLUME)
    rows = {r.key: r for r in house.store.pods.resources(pod.id)}
    assert rows["share_access/data/gpu01"].state is RowState.SETTLED
    view = house.service.pods.show(house.request(), str(pod.id))
    assert {r.kind for r in view.resources} >= {"share", "share_access", "volume", "volume_attachment"}
