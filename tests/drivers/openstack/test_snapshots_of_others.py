"""A refused deletion removes the snapshots of what is deleted, and no others."""

from __future__ import annotations

import pytest

from tests.drivers.openstack.test_storage_driver import SHARE, VOLUME, Rig, house, rig
from tests.drivers.openstack.tinycloud import Reply
from weft.model.resources import Resource

__all__ = ["house", "rig"]


@pytest.mark.parametrize(
    ("wanted", "service", "listed", "owner"),
    [(SHARE, "share", "snapshots/detail", "share_id"), (VOLUME, "volume", "snapshots", "volume_id")],
)
def test_only_a_volumes_own_snapshots_are_deleted(
    rig: Rig, wanted: Resource, service: str, listed: str, owner: str
) -> None:
    """Even if the filter is ignored: by an older service, a proxy, or Cinder's `resource_query_filters`."""
    rig.make(wanted)
    other = {"id": "snap-of-another", owner: "someone-elses", "name": "monday"}
    refused = Reply(409, {"conflictingRequest": {"code": 409, "message": "it has snapshots"}})
    rig.cloud.lies = [
        (f"GET /{service}/{listed}", Reply(200, {"snapshots": [other]})),
        (f"DELETE /{service}/snapshots/.*", Reply(202)),
        (f"DELETE /{service}/{service}s/.*", refused),
    ]
    rig.delete(wanted)
    assert any(line.startswith(f"GET /{service}/snapshots") for line in rig.cloud.asked)
    assert [line for line in rig.cloud.asked if line.startswith(f"DELETE /{service}/snapshots")] == []
