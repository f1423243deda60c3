"""What keeps a share or a volume from being deleted is named, and its project reads what to remove."""

from __future__ import annotations

import pytest

from tests.drivers.openstack.test_storage_driver import LEAVING, SHARE, VOLUME, Rig, house, rig
from tests.drivers.openstack.tinycloud import PROJECT, Reply
from weft.model.messages import for_tenant
from weft.model.resources import Resource, Status
from weft.model.uses import InUseError

__all__ = ["house", "rig"]
ONE = "5f0c4a4e-0000-4000-8000-00000000000a"


def named(rig: Rig, one: Resource) -> tuple[InUseError, str]:
    """The error of its deletion, and what its project reads of it."""
    error = rig.delete(one).error
    assert isinstance(error, InUseError)
    said = for_tenant(error.message)
    assert said is not None
    return error, said


@pytest.mark.parametrize(
    ("wanted", "owner", "word"), [(SHARE, "share_id", "share"), (VOLUME, "volume_id", "volume")]
)
def test_undeletable_snapshot_is_named(rig: Rig, wanted: Resource, owner: str, word: str) -> None:
    """Another resource is being created from it. A deletable one is removed, and the deletion is tried again."""
    rig.make(wanted)
    snapshot = {"id": ONE, owner: rig.ids[wanted.key], "name": "monday", "status": "restoring"}
    rig.cloud.things["snapshots"] = [snapshot]
    error, said = named(rig, wanted)
    assert error.alarming and [(u.kind, u.id) for u in error.uses] == [("snapshot", ONE)]
    assert f"snapshot {ONE} 'monday' uses the pod's {word}: remove it" in said
    snapshot["status"] = "available"
    error, said = named(rig, wanted)
    assert not error.alarming and not error.uses and f"removed from it: snapshot {ONE}" in str(error)
    assert rig.delete(wanted).error is None and rig.find(wanted, LEAVING).status is Status.ABSENT


def test_group_and_replicas_of_a_share_are_named(rig: Rig) -> None:
    """Neither the replica that is the share itself nor another share's replicas."""
    rig.make(SHARE)
    share, group = rig.ids[SHARE.key], ONE.replace("000a", "000b")
    rig.cloud.shares[share] |= {"has_replicas": True, "share_group_id": group}
    states = {ONE: "in_sync", "itself": "active"}
    rows = [{"id": i, "share_id": share, "replica_state": s} for i, s in states.items()]
    rig.cloud.things["share_replicas"] = [
        *rows,
        {"id": "another", "share_id": "x", "replica_state": "in_sync"},
    ]
    error, said = named(rig, SHARE)
    assert [(u.kind, u.id) for u in error.uses] == [("replica", ONE), ("share_group", group)]
    assert f"replica {ONE} uses the pod's share: remove it" in said
    assert f"share group {group} uses the pod's share: remove it" in said


def test_group_backup_and_server_of_a_volume_are_named(rig: Rig) -> None:
    """A finished backup needs no volume. A server that doesn't release it has its project's name for it."""
    rig.make(VOLUME)
    volume, group, server = rig.ids[VOLUME.key], ONE.replace("000a", "000b"), ONE.replace("000a", "000c")
    rig.cloud.attached[server] = [volume]
    rig.cloud.locked.add(server)
    rig.cloud.things["servers"] = [{"id": server, "name": "login", "tenant_id": PROJECT}]
    rig.cloud.volumes[volume] |= {
        "group_id": group,
        "attachments": [{"server_id": server}],
        "status": "in-use",
    }
    backups = [{"id": ONE, "volume_id": volume, "status": "creating"}]
    rig.cloud.things["backups"] = [*backups, {"id": "old", "volume_id": volume, "status": "available"}]
    error, said = named(rig, VOLUME)
    kinds = [(u.kind, u.id) for u in error.uses]
    assert kinds == [("attachment", server), ("backup", ONE), ("group", group)]
    assert f"attachment {server} of server 'login' uses the pod's volume: remove it" in said
    assert f"backup {ONE} uses the pod's volume: remove it" in said
    assert f"group {group} uses the pod's volume: remove it" in said


@pytest.mark.parametrize(
    ("wanted", "path"),
    [(SHARE, "GET /share/snapshots/detail"), (VOLUME, "GET /volume/backups/detail")],
    ids=["share", "volume"],
)
def test_unreadable_uses_are_unknown(rig: Rig, wanted: Resource, path: str) -> None:
    """The service's own answer is reported, and the deletion is tried again."""
    rig.make(wanted)
    service = path.split("/")[1]
    refused = Reply(409, {"conflictingRequest": {"code": 409, "message": "it is in use"}})
    rig.cloud.lies += [(rf"DELETE /{service}/{service}s/.*", refused)]
    error, _ = named(rig, wanted)
    assert "it is in use" in str(error) and not error.uses and error.alarming
    rig.cloud.lies.append((path, Reply(503)))
    error = rig.delete(wanted).error
    assert error is not None and "503" in str(error)
    if wanted is VOLUME:
        assert "it is in use" in str(error) and "what uses it is unknown" in str(error)
