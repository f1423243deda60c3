"""Shares, access rules, volumes and attachments through the driver, with services that answer falsely and with
tenants.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tests.drivers.openstack.tinycloud import PROJECT, Reply, tiny_cloud
from tests.drivers.openstack.tinystorage import TinyStorage
from weft.drivers.openstack import OpenStackDriver, OpenStackFacts, Sessions
from weft.model.errors import InputError, PermanentError, TemporaryError, UnknownError
from weft.model.mark import outside_name
from weft.model.owner import Owner
from weft.model.resources import Resource, Status
from weft.model.site import Storage
from weft.model.specs import ShareAccessSpec, ShareSpec, Spec, VolumeAttachmentSpec, VolumeSpec
from weft.model.storageorder import StorageOrder
from weft.ports.resources import PartlyListedError, Scope

POD = "00000000-1111-2222-3333-444444444444"
SCOPE = Scope("lab", Owner.pod(POD), "train", PROJECT)
LEAVING = replace(SCOPE, leaving=True)
PORT = "port/gpu01/storage"


def resource(key: str, spec: Spec) -> Resource:
    return Resource(key=key, name=outside_name(POD, key), where="lab", spec=spec)


SHARE = resource("share/data", ShareSpec(gib=10, share_type="nas", ports=(PORT,)))
KEPT = resource("share/data", ShareSpec(gib=10, ports=(PORT,), kept_as="train-data"))
RULE = resource("share_access/data/gpu01", ShareAccessSpec(share="share/data", port=PORT))
VOLUME = resource("volume/work/0", VolumeSpec(gib=5))
ATTACHED = resource(
    "volume_attachment/work/gpu01", VolumeAttachmentSpec(volume="volume/work/0", server="server/gpu01")
)


@dataclass
class Rig:
    """A cloud with the pod's server and port; `ids` are those that weft knows."""

    cloud: TinyStorage
    driver: OpenStackDriver
    facts: OpenStackFacts
    ids: dict[str, str]

    def begin(self) -> None:
        self.cloud.reset()
        self.ids.clear()
        self.ids.update({PORT: "port-1", "server/gpu01": "srv-1"})
        self.cloud.things["ports"] = [{"id": "port-1", "fixed_ips": [{"ip_address": "10.79.0.11"}]}]
        self.cloud.attached["srv-1"] = []

    def make(self, *wanted: Resource) -> None:
        for one in wanted:
            outcome = self.driver.create(SCOPE, [one], self.ids)[one.key]
            assert outcome.error is None and outcome.id
            self.ids[one.key] = outcome.id

    def find(self, one: Resource, scope: Scope = SCOPE) -> Any:
        return self.driver.find(scope, [one], self.ids)[one.key]

    def delete(self, one: Resource, scope: Scope = LEAVING) -> Any:
        return self.driver.delete(scope, [one], self.ids)[one.key]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with tiny_cloud(TinyStorage) as (cloud, text):
        assert isinstance(cloud, TinyStorage)
        file = tmp_path_factory.mktemp("tiny") / "clouds.yaml"
        file.write_text(text)
        sessions = Sessions("weft", [file])
        driver = OpenStackDriver("lab", sessions, storage=Storage(shares=True, volumes=True))
        yield Rig(cloud, driver, OpenStackFacts(sessions), {})
        driver.close()
        sessions.close()


@pytest.fixture
def rig(house: Rig) -> Rig:
    house.begin()
    return house


def test_storage_is_created_and_deleted(rig: Rig) -> None:
    """Created without differences, deleted, and proved absent."""
    everything = (SHARE, RULE, VOLUME, ATTACHED)
    assert {rig.find(one).status for one in everything} == {Status.ABSENT}
    rig.make(*everything)
    for one in everything:
        seen = rig.find(one)
        assert (seen.status, seen.differences) == (Status.SETTLED, ()), (one.key, seen)
    (rule,) = rig.cloud.rules.values()
    assert (rule["access_to"], rule["access_level"], rule["access_type"]) == ("10.79.0.11", "rw", "ip")
    for one in reversed(everything):
        assert rig.delete(one).error is None
        assert rig.find(one, LEAVING).status is Status.ABSENT
    assert not rig.cloud.shares and not rig.cloud.rules and not rig.cloud.volumes


@pytest.mark.parametrize("one", [SHARE, RULE, VOLUME, ATTACHED], ids=lambda r: r.kind)
def test_create_is_idempotent(rig: Rig, one: Resource) -> None:
    """A creation whose answer was lost is found, also without its id."""
    rig.make(*{RULE.key: (SHARE,), ATTACHED.key: (VOLUME,)}.get(one.key, ()))
    rig.make(one)
    first = rig.ids.pop(one.key)
    assert rig.find(one).id == first
    rig.make(one)
    assert rig.ids[one.key] == first


@pytest.mark.parametrize(
    ("one", "lie"),
    [
        # the collection is empty and so is the list of types, so nothing was really listed
        (SHARE, (r"GET /share/types", Reply(200, {"share_types": []}))),
        (VOLUME, (r"GET /volume/types", Reply(200, {"volume_types": []}))),
        (SHARE, (r"GET /share/shares/detail", Reply(200, {}))),
        (SHARE, (r"GET /share/shares/detail", Reply(403, {"forbidden": {"message": "no"}}))),
        (VOLUME, (r"GET /volume/volumes/detail", Reply(200, "<html>", "text/html", own=False))),
        (RULE, (r"GET /share/share-access-rules", Reply(500, {"computeFault": {"message": "x"}}))),
        (ATTACHED, (r"GET /compute/servers/srv-1/os-volume_attachments", Reply(404, {}, own=False))),
    ],
)
def test_missing_answer_proves_nothing(rig: Rig, one: Resource, lie: tuple[str, Reply]) -> None:
    rig.make(SHARE, VOLUME)
    if one in (SHARE, VOLUME):
        del rig.ids[one.key]
        rig.cloud.shares.clear()
        rig.cloud.volumes.clear()
    rig.cloud.lies.append(lie)
    with pytest.raises((UnknownError, TemporaryError)):
        rig.find(one)


def test_attachment_of_another_server_proves_nothing(rig: Rig) -> None:
    """As from a confused cache: the volume is attached to that server."""
    rig.make(VOLUME)
    volume = rig.ids[VOLUME.key]
    other = {"volumeAttachments": [{"id": volume, "volumeId": volume, "serverId": "srv-9"}]}
    rig.cloud.lies.append((r"GET /compute/servers/srv-1/os-volume_attachments", Reply(200, other)))
    with pytest.raises(UnknownError, match="server srv-9"):
        rig.find(ATTACHED)


def test_share_omitted_by_a_listing_is_found_by_id(rig: Rig) -> None:
    rig.make(SHARE)
    rig.cloud.lies.append((r"GET /share/shares/detail", Reply(200, {"shares": []})))
    assert rig.find(SHARE).status is Status.SETTLED


def test_404_of_a_proxy_proves_nothing(rig: Rig) -> None:
    """Manila's own 404 doesn't name the share, but that of its export locations does; a proxy's doesn't."""
    rig.make(SHARE)
    nothing = Reply(404, {"itemNotFound": {"code": 404, "message": "The resource could not be found."}})
    rig.cloud.lies += [
        (r"GET /share/shares/detail", Reply(200, {"shares": []})),
        (r"GET /share/shares/share-\d+(/export_locations)?", nothing),
    ]
    with pytest.raises(UnknownError):
        rig.find(SHARE)


# -- tenants ------------------------------------------------------------------------------------------------------


def test_others_access_rules_are_detected_and_removed(rig: Rig) -> None:
    """For everyone, with a copied mark, with a hidden address; and a share that was made public."""
    rig.make(SHARE, RULE)
    share, own = rig.ids[SHARE.key], rig.cloud.rules[rig.ids[RULE.key]]
    for number, to in enumerate(("0.0.0.0/0", "192.0.2.1", "******")):
        rig.cloud.rules[f"x{number}"] = {**own, "id": f"x{number}", "access_to": to}
    rig.cloud.shares[share]["is_public"] = True
    assert {d.field for d in rig.find(SHARE).differences} == {"others", "public"}
    assert rig.driver.update(SCOPE, [SHARE], rig.ids)[SHARE.key].error is None
    assert list(rig.cloud.rules) == [own["id"]] and rig.find(SHARE).differences == ()


def test_tenants_rule_for_the_pods_address_is_replaced(rig: Rig) -> None:
    """On the pod's own share it is revoked; on a share that existed before the reason names it."""
    rig.make(SHARE)
    share = rig.ids[SHARE.key]
    theirs = {
        "id": "theirs",
        "share_id": share,
        "access_to": "10.79.0.11",
        "access_level": "ro",
        "state": "active",
    }
    rig.cloud.rules["theirs"] = dict(theirs)
    assert isinstance(rig.driver.create(SCOPE, [RULE], rig.ids)[RULE.key].error, TemporaryError)
    rig.make(RULE)
    assert rig.cloud.rules[rig.ids[RULE.key]]["access_level"] == "rw"
    rig.cloud.rules.clear()
    rig.cloud.rules["theirs"] = dict(theirs)
    existing = resource(RULE.key, ShareAccessSpec(share="", share_id=share, port=PORT))
    error = rig.driver.create(SCOPE, [existing], {PORT: "port-1"})[RULE.key].error
    assert isinstance(error, PermanentError) and "theirs" in str(error)


@pytest.mark.parametrize("shown", ["10.79.0.11/32", "******"])
def test_tenants_rule_in_another_notation_is_replaced(rig: Rig, shown: str) -> None:
    """Manila compares networks, and refuses a second rule for a network of which it shows another notation."""
    rig.make(SHARE)
    share = rig.ids[SHARE.key]
    theirs = {
        "id": "theirs",
        "share_id": share,
        "access_to": shown,
        "hidden": "10.79.0.11",
        "state": "active",
    }
    rig.cloud.rules["theirs"] = {
        **theirs,
        "access_level": "ro",
        "metadata": {"weft": SCOPE.mark(RULE.key).text()},
    }
    existing = resource(RULE.key, ShareAccessSpec(share="", share_id=share, port=PORT))
    error = rig.driver.create(SCOPE, [existing], {PORT: "port-1"})[RULE.key].error
    assert isinstance(error, PermanentError) and "theirs" in str(error)
    assert isinstance(rig.driver.create(SCOPE, [RULE], rig.ids)[RULE.key].error, TemporaryError)
    assert not rig.cloud.rules
    rig.make(RULE)


def test_rule_being_revoked_is_waited_for(rig: Rig) -> None:
    """Manila refuses another rule for its address meanwhile, but it isn't foreign any more, and the pod goes on."""
    rig.make(SHARE)
    theirs = {
        "id": "theirs",
        "share_id": rig.ids[SHARE.key],
        "access_to": "10.79.0.11/32",
        "state": "denying",
    }
    rig.cloud.rules["theirs"] = {**theirs, "access_level": "rw"}
    existing = resource(RULE.key, ShareAccessSpec(share="", share_id=rig.ids[SHARE.key], port=PORT))
    for one in (RULE, existing):
        assert isinstance(rig.driver.create(SCOPE, [one], rig.ids)[one.key].error, TemporaryError)
    assert "theirs" in rig.cloud.rules


def test_refusal_for_another_reason_stays_an_error(rig: Rig) -> None:
    rig.make(SHARE)
    refused = Reply(400, {"badRequest": {"code": 400, "message": "Invalid share access level: rw."}})
    rig.cloud.lies.append((r"POST /share/shares/share-\d+/action", refused))
    assert isinstance(rig.driver.create(SCOPE, [RULE], rig.ids)[RULE.key].error, PermanentError)


def test_locked_rules_of_others_are_removed_together(rig: Rig) -> None:
    """Not one in each visit, and even if the share can't be renamed."""
    rig.make(SHARE, RULE)
    own = rig.cloud.rules[rig.ids[RULE.key]]
    for n in range(5):
        rig.cloud.rules[f"x{n}"] = {**own, "id": f"x{n}", "access_to": f"192.0.2.{n}"}
        rig.cloud.locks[f"l{n}"] = {"id": f"l{n}", "resource_id": f"x{n}"}
    rig.cloud.shares[rig.ids[SHARE.key]]["description"] = ""
    no = Reply(409, {"conflictingRequest": {"code": 409, "message": "not now"}})
    rig.cloud.lies.append((r"PUT /share/shares/share-\d+", no))
    for _ in range(2):
        assert rig.driver.update(SCOPE, [SHARE], rig.ids)[SHARE.key].error is not None
    assert list(rig.cloud.rules) == [own["id"]] and not rig.cloud.locks


def test_rule_for_another_address_is_broken(rig: Rig) -> None:
    """Rules can't be changed, so it is deleted and created again."""
    rig.make(SHARE, RULE)
    rig.cloud.things["ports"][0]["fixed_ips"] = [{"ip_address": "10.79.0.99"}]
    seen = rig.find(RULE)
    assert seen.status is Status.BROKEN and "10.79.0.99" in seen.reason


def test_port_deleted_by_a_tenant_hides_no_storage(rig: Rig) -> None:
    """The storage is still found and deleted, since a rule is known by its id."""
    rig.make(SHARE, RULE)
    rig.cloud.things["ports"] = []
    assert rig.find(SHARE).differences == () and rig.find(RULE).status is Status.SETTLED
    assert rig.delete(RULE).error is None
    assert rig.find(RULE, LEAVING).status is Status.ABSENT


def test_rule_of_a_deleted_share_is_absent(rig: Rig) -> None:
    """Manila answers 400 for it, which is a proof only with the share's own absence."""
    rig.make(SHARE, RULE)
    rig.cloud.shares.clear()
    rig.cloud.rules.clear()
    assert rig.find(RULE).status is Status.ABSENT
    refused = Reply(400, {"badRequest": {"code": 400, "message": "no"}})
    rig.make(SHARE)
    rig.cloud.lies.append((r"GET /share/share-access-rules", refused))
    with pytest.raises(UnknownError):
        rig.find(RULE)


@pytest.mark.parametrize("one", [SHARE, RULE], ids=lambda r: r.kind)
def test_locks_are_removed_before_deletion(rig: Rig, one: Resource) -> None:
    rig.make(SHARE, RULE)
    rig.cloud.locks["l1"] = {"id": "l1", "resource_id": rig.ids[one.key]}
    first = rig.delete(one)
    assert isinstance(first.error, TemporaryError) and "lock l1" in str(first.error)
    assert rig.delete(one).error is None
    assert rig.find(one, LEAVING).status is Status.ABSENT


def test_volume_attached_elsewhere_is_detached_and_deleted(rig: Rig) -> None:
    rig.make(VOLUME)
    rig.cloud.attached["theirs"] = [rig.ids[VOLUME.key]]
    rig.cloud.volumes[rig.ids[VOLUME.key]]["attachments"] = [{"server_id": "theirs"}]
    assert "attachment to server theirs" in str(rig.delete(VOLUME).error)
    assert rig.delete(VOLUME).error is None and not rig.cloud.volumes


@pytest.mark.parametrize("how", ["reserved", "os-reserve", "attached"])
def test_volume_reserved_by_a_tenant_is_deleted(rig: Rig, how: str) -> None:
    """By an attachment in Cinder that Nova doesn't have, or by os-reserve, which leaves only a status."""
    rig.make(VOLUME)
    volume = rig.cloud.volumes[rig.ids[VOLUME.key]]
    if how == "os-reserve":
        volume["status"] = "attaching"
    else:
        mine = {"id": "a1", "status": how, "instance": "none", "volume_id": volume["id"]}
        other = {**mine, "id": "a2", "volume_id": "another"}
        rig.cloud.reserved |= {"a1": mine, "a2": other}
    if how == "attached":
        volume["attachments"] = [{"server_id": "none", "attachment_id": "a1"}]
    assert isinstance(rig.delete(VOLUME).error, TemporaryError)
    assert rig.delete(VOLUME).error is None and not rig.cloud.volumes
    assert list(rig.cloud.reserved) in ([], ["a2"])


def test_attachment_ends_with_its_server(rig: Rig) -> None:
    rig.make(VOLUME, ATTACHED)
    del rig.cloud.attached["srv-1"]
    assert rig.find(ATTACHED, LEAVING).status is Status.ABSENT


def test_volume_is_detached_from_a_locked_server(rig: Rig) -> None:
    rig.make(VOLUME, ATTACHED)
    rig.cloud.locked.add("srv-1")
    assert rig.delete(ATTACHED).error is None
    assert rig.find(ATTACHED).status is Status.ABSENT


def test_slow_detach_is_waited_for(rig: Rig) -> None:
    """Nova refuses a second request; weft doesn't report that as an error."""
    rig.make(VOLUME, ATTACHED)
    volume = rig.cloud.volumes[rig.ids[VOLUME.key]]
    rig.cloud.slow.add(volume["id"])
    for _ in range(3):
        assert rig.delete(ATTACHED, SCOPE).error is None
        assert volume["status"] == "detaching" and rig.find(ATTACHED).there
    volume["status"] = "error_detaching"
    rig.cloud.lies = [("DELETE .*/os-volume_attachments/.*", Reply(400, {"badRequest": {"message": "no"}}))]
    assert isinstance(rig.delete(ATTACHED, SCOPE).error, PermanentError), "another refusal is reported"


# -- kept ---------------------------------------------------------------------------------------------------------


def test_kept_storage_loses_its_mark_and_is_reported_kept(rig: Rig) -> None:
    rig.make(KEPT)
    share = rig.cloud.shares[rig.ids[KEPT.key]]
    assert rig.find(KEPT, LEAVING).status is Status.SETTLED, "it isn't kept before it was released"
    assert rig.delete(KEPT).error is None
    assert share["name"] == "train-data" and "kept from pod train" in share["description"]
    seen = rig.find(KEPT, LEAVING)
    assert (seen.status, seen.name, seen.there) == (Status.KEPT, "train-data", False)
    assert share["id"] in seen.reason and PROJECT in seen.reason
    assert not rig.driver.marked("lab", [])


def test_kept_share_is_restored_from_the_recycle_bin(rig: Rig) -> None:
    """It can't be renamed there, and would be deleted with it."""
    rig.make(KEPT)
    share = rig.cloud.shares[rig.ids[KEPT.key]]
    share["is_soft_deleted"] = True
    assert rig.delete(KEPT).error is None
    assert rig.find(KEPT, LEAVING).status is Status.KEPT and not share["is_soft_deleted"]


def test_mark_removed_by_a_tenant_does_not_release_storage(rig: Rig) -> None:
    """Without its mark it is a difference of a living pod, not gone."""
    rig.make(KEPT)
    rig.cloud.shares[rig.ids[KEPT.key]]["description"] = "kept from pod train"
    seen = rig.find(KEPT)
    assert seen.status is Status.SETTLED and [d.field for d in seen.differences] == ["mark"]


def test_kept_storage_that_never_worked_is_deleted(rig: Rig) -> None:
    """It is replaced in a living pod, so nothing is left behind."""
    rig.make(KEPT)
    assert rig.delete(KEPT, SCOPE).error is None and not rig.cloud.shares


def test_marked_lists_shares_and_volumes_of_each_project(rig: Rig) -> None:
    rig.make(SHARE, VOLUME)
    assert {(m.kind, m.owner) for m in rig.driver.marked("lab", [])} == {
        (SHARE.kind, SCOPE.owner),
        (VOLUME.kind, SCOPE.owner),
    }


def test_unreadable_project_hides_no_other(rig: Rig) -> None:
    """Disabled meanwhile, or without Manila in its catalog: everything else is listed."""
    rig.make(SHARE, VOLUME)
    no = Reply(403, {"forbidden": {"code": 403, "message": "no"}})
    rig.cloud.lies.append((r"GET /share/shares/detail", no))
    with pytest.raises(PartlyListedError) as caught:
        rig.driver.marked("lab", [])
    assert [m.kind for m in caught.value.found] == [VOLUME.kind]
    assert list(caught.value.unread) == [f"shares of project {PROJECT}"]


# -- orders -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"share": "s", "size": "1GiB", "type": "gold"}, "share types that the project may use: nas"),
        ({"volume": "s", "size": "1GiB", "type": "gold"}, "volume types that the project may use: nas"),
        ({"share": "s", "existing": "x"}, "no share of that name or id"),
        ({"share": "s", "existing": "twice"}, "several shares of that name or id"),
        ({"share": "s", "existing": "cifs"}, "must be NFS"),
        ({"share": "s", "existing": "ill"}, "it is error"),
        ({"share": "s", "existing": "pods"}, "one that no pod has"),
    ],
)
def test_unservable_storage_orders_are_refused(rig: Rig, entry: dict[str, Any], said: str) -> None:
    plain = {"status": "available", "share_proto": "NFS", "description": None}
    for number, (name, more) in enumerate(
        [
            ("twice", {}),
            ("twice", {}),
            ("cifs", {"share_proto": "CIFS"}),
            ("ill", {"status": "error"}),
            ("pods", {"description": SCOPE.mark("share/x").text()}),
        ]
    ):
        rig.cloud.shares[f"s{number}"] = {"id": f"s{number}", "name": name, **plain, **more}
    asked = StorageOrder.model_validate({**entry, "mount": "/x"})
    with pytest.raises(InputError, match=r"storage\.0") as caught:
        rig.facts.check_storage(PROJECT, [asked], Storage(shares=True, volumes=True))
    assert said in str(caught.value)


def test_type_with_share_servers_is_refused(rig: Rig) -> None:
    rig.cloud.types[0]["extra_specs"]["driver_handles_share_servers"] = "True"
    asked = StorageOrder.model_validate({"share": "s", "size": "1GiB", "mount": "/x"})
    with pytest.raises(InputError, match="without share servers"):
        rig.facts.check_storage(PROJECT, [asked], Storage(shares=True, share_type="nas"))


def test_existing_storage_is_listed_once_for_all_names(rig: Rig) -> None:
    made = [resource(f"volume/work/{n}", VOLUME.spec) for n in range(3)]
    rig.make(*made)
    for n, volume in enumerate(rig.cloud.volumes.values()):
        volume.update(name=f"work-{n}", description="")
    names = ("work-0", "work-1", rig.ids[made[2].key])
    asked = [
        StorageOrder(volume="a", existing=names[:2], mount="/a"),
        StorageOrder(volume="b", existing=names[2:], mount="/b"),
    ]
    before = len(rig.cloud.asked)
    found = rig.facts.check_storage(PROJECT, asked, Storage(volumes=True))
    assert [i for e in found for i in e.existing] == [rig.ids[one.key] for one in made]
    assert sum("/volumes/detail" in line for line in rig.cloud.asked[before:]) == 1
