"""Servers that Nova deleted while it scheduled them: the record looks as if a host had built them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.drivers.openstack.tinycloud import PROJECT, Reply, TinyCloud, tiny_cloud
from weft.drivers.openstack import Sessions
from weft.drivers.openstack.occupants import OpenStackOccupants
from weft.ports.occupants import Ended, Ending

SERVER = "5f0c4a4e-0000-4000-8000-000000000002"
BUILD = "_do_build_and_run_instance"
ROW: dict[str, Any] = {
    "id": SERVER,
    "name": "weft-0b5412dc-server-gpu01",
    "tenant_id": PROJECT,
    "status": "BUILD",
    "OS-EXT-SRV-ATTR:host": None,
    "OS-EXT-STS:vm_state": "building",
    "OS-EXT-STS:task_state": None,
    "OS-SRV-USG:launched_at": None,
}
"""A server as Nova 34 shows it if it was deleted before its host claimed it."""


class Rig:
    """A cloud that deleted a server."""

    def __init__(self, cloud: TinyCloud, sessions: Sessions) -> None:
        self.cloud, self.facts = cloud, OpenStackOccupants(sessions)
        cloud.reset()
        cloud.things["hypervisors"] = [
            {"id": f"id-{h}", "hypervisor_type": "QEMU", "service": {"host": h}, "state": "up"}
            for h in ("a", "b")
        ]
        cloud.deleted = [dict(ROW)]

    def ending(self, whole: bool = False) -> Ending:
        return self.facts.endings(
            PROJECT, [SERVER], {SERVER: "5c435abb-55d9-5c17-8131-5edcbcd52777"} if whole else None
        )[SERVER]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[TinyCloud, Sessions]]:
    with tiny_cloud() as (cloud, text):
        file = tmp_path_factory.mktemp("tiny") / "clouds.yaml"
        file.write_text(text)
        sessions = Sessions("weft", [file])
        yield cloud, sessions
        sessions.close()


@pytest.fixture
def rig(made: tuple[TinyCloud, Sessions]) -> Rig:
    return Rig(*made)


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("task", [None, "scheduling"])
@pytest.mark.parametrize(
    "events",
    [((BUILD, "a", "Success"),), ((BUILD, "a", ""),), ((BUILD, "a", "Success"), (BUILD, "b", ""))],
)
def test_server_deleted_while_it_was_scheduled_never_ran(
    rig: Rig, events: tuple[tuple[str, str, str], ...], task: str | None, whole: bool
) -> None:
    """Also between two hosts, of which the first cleaned up what it couldn't build. On machines too."""
    rig.cloud.act(SERVER, "create", *events)
    rig.cloud.act(SERVER, "lock")
    rig.cloud.deleted[0]["OS-EXT-STS:task_state"] = task
    found = rig.ending(whole)
    assert found.how is Ended.NEVER_RAN and "no host had it, by its row" in found.text


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("OS-EXT-SRV-ATTR:host", "a"),
        ("OS-SRV-USG:launched_at", "2026-11-23T01:00:00.000000"),
        ("OS-EXT-STS:vm_state", "error"),
        ("OS-EXT-STS:task_state", "spawning"),
    ],
    ids=["a host", "a start", "a failed build", "a build that fails"],
)
def test_server_on_a_host_at_deletion_may_still_run(rig: Rig, column: str, value: str) -> None:
    """Its row got a host between two of Nova's readings, or it was started; or its build couldn't be undone."""
    rig.cloud.act(SERVER, "create", (BUILD, "a", "Success"))
    rig.cloud.deleted[0][column] = value
    assert rig.ending().how is Ended.NOT_DESTROYED


@pytest.mark.parametrize(
    "actions",
    [
        [("create", ((BUILD, "a", "Success"),)), ("delete", ())],
        [("create", ((BUILD, "a", "Success"),)), ("evacuate", (("rebuild_instance", "b", "Success"),))],
        [("create", ((BUILD, "a", "Error"),))],
        [("create", ((BUILD, "a", "Success"),)), ("reboot", (("reboot_instance", "a", "Success"),))],
        [("create", ((BUILD, "a", "Success"),)), ("shelve", ())],
    ],
    ids=["deleted with its host", "evacuated", "failed over cleaning up", "booted", "shelved"],
)
def test_row_does_not_outweigh_a_record_with_more_than_a_build(rig: Rig, actions: list[Any]) -> None:
    """The row has only the last host."""
    for action, events in actions:
        rig.cloud.act(SERVER, action, *events)
    assert rig.ending().how in (Ended.NOT_DESTROYED, Ended.LEFT_BEHIND)


def _policy(rig: Rig) -> None:
    rig.cloud.filters_all = False
    rig.cloud.things["servers"] = [{"id": "another", "tenant_id": PROJECT}]


def _archived(rig: Rig) -> None:
    rig.cloud.deleted = []


def _there(rig: Rig) -> None:
    rig.cloud.things["servers"] = [dict(ROW)]


def _anothers(rig: Rig) -> None:
    rig.cloud.deleted[0]["tenant_id"] = "other"


def _no_host_shown(rig: Rig) -> None:
    del rig.cloud.deleted[0]["OS-EXT-SRV-ATTR:host"]


def _refused(rig: Rig) -> None:
    rig.cloud.lies = [("GET /compute/servers/detail", Reply(403, {"forbidden": {"code": 403}}))]


def _not_nova(rig: Rig) -> None:
    rig.cloud.lies = [(f"GET /compute/servers/{SERVER}", Reply(404, "gone", own=False))]


@pytest.mark.parametrize(
    "trouble", [_policy, _archived, _there, _anothers, _no_host_shown, _refused, _not_nova]
)
def test_hidden_row_proves_nothing(rig: Rig, trouble: Any) -> None:
    """The ending says what couldn't be read, for operators."""
    rig.cloud.act(SERVER, "create", (BUILD, "a", "Success"))
    trouble(rig)
    found = rig.ending()
    assert found.how is Ended.NOT_DESTROYED and "whether a host had it by then isn't known" in found.text
    assert ("allow_all_filters" in found.text) == (trouble is _policy)
