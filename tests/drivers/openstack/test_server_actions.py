"""Requests to Nova about servers that boot, and for a tenant's reboot, rescue or console."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.drivers.openstack.tinycloud import PROJECT, Reply, TinyCloud, tiny_cloud
from weft.drivers.openstack import OpenStackFacts, Sessions, servers
from weft.model.errors import ConflictError, OutsideError, TemporaryError
from weft.ports.fences import unfenced
from weft.ports.servers import Action

SERVER = "ac89efa9-a34e-4260-b101-29e9e3b49c3d"
ACTION = f"POST /compute/servers/{SERVER}/action"
SINCE = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
CONSOLE = f"POST /compute/servers/{SERVER}/remote-consoles"


class Listening(TinyCloud):
    """Keeps the requests' bodies."""

    sent: list[Any] = []  # noqa: RUF012 - of the one test
    names: list[list[str]] = []  # noqa: RUF012 - of the one test
    queries: list[dict[str, list[str]]] = []  # noqa: RUF012 - of the one test

    def answer(self, method: str, path: str, query: dict[str, list[str]], seer: str, body: Any) -> Reply:
        if method == "POST" and path.startswith("/compute"):
            self.sent.append(body)
        if path == "/compute/servers" and "name" in query:
            self.names.append(query["name"])
        elif path == "/compute/servers":
            self.queries.append(query)
        return TinyCloud.answer(self, method, path, query, seer, body)


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[tuple[Listening, OpenStackFacts]]:
    with tiny_cloud(Listening) as (cloud, text):
        assert isinstance(cloud, Listening)
        cloud.sent.clear()
        cloud.queries.clear()
        cloud.names.clear()
        (tmp_path / "clouds.yaml").write_text(text)
        sessions = Sessions("weft", [tmp_path / "clouds.yaml"])
        yield cloud, OpenStackFacts(sessions)
        sessions.close()


@pytest.mark.parametrize(
    ("action", "body"),
    [
        (Action.REBOOT, {"reboot": {"type": "SOFT"}}),
        (Action.RESET, {"reboot": {"type": "HARD"}}),
        (Action.RESCUE, {"rescue": None}),
        (Action.UNRESCUE, {"unrescue": None}),
    ],
)
def test_each_action_is_sent_to_nova(
    rig: tuple[Listening, OpenStackFacts], action: Action, body: Any
) -> None:
    cloud, facts = rig
    rescue = action is Action.RESCUE
    cloud.lies = [(ACTION, Reply(200, {"adminPass": "s3cret"}) if rescue else Reply(202))]
    assert facts.act(PROJECT, SERVER, action, unfenced) == ("s3cret" if rescue else None)
    assert cloud.sent == [body]


def test_rescue_without_a_password_has_none(rig: tuple[Listening, OpenStackFacts]) -> None:
    """With `[api] enable_instance_password = false`."""
    cloud, facts = rig
    cloud.lies = [(ACTION, Reply(200, {}))]
    assert facts.act(PROJECT, SERVER, Action.RESCUE, unfenced) is None


@pytest.mark.parametrize(("serial", "kind"), [(True, "serial"), (False, "novnc")])
def test_console_is_requested_by_its_type(
    rig: tuple[Listening, OpenStackFacts], serial: bool, kind: str
) -> None:
    cloud, facts = rig
    cloud.lies = [
        (CONSOLE, Reply(200, {"remote_console": {"type": kind, "url": "wss://c.example/?token=1"}}))
    ]
    found = facts.console(PROJECT, SERVER, serial, unfenced)
    assert (found.type, found.url) == (kind, "wss://c.example/?token=1")
    assert cloud.sent[0]["remote_console"]["type"] == kind


@pytest.mark.parametrize("status", [400, 404, 409, 501])
def test_refusal_by_nova_is_a_conflict_with_its_message(
    rig: tuple[Listening, OpenStackFacts], status: int
) -> None:
    cloud, facts = rig
    said = {
        "conflictingRequest": {"code": status, "message": "Cannot 'rescue' while it is in vm_state stopped"}
    }
    cloud.lies = [(ACTION, Reply(status, said)), (CONSOLE, Reply(status, said))]
    for ask in (
        lambda: facts.act(PROJECT, SERVER, Action.RESCUE, unfenced),
        lambda: facts.console(PROJECT, SERVER, True, unfenced),
    ):
        with pytest.raises(ConflictError, match="vm_state stopped"):
            ask()


@pytest.mark.parametrize(
    "lie",
    [
        Reply(503, {}),
        Reply(200, {"remote_console": None}),
        Reply(200, {"remote_console": {"type": "serial"}}),
        Reply(200, "<html>", "text/html"),
    ],
)
def test_malformed_answer_is_reported(rig: tuple[Listening, OpenStackFacts], lie: Reply) -> None:
    cloud, facts = rig
    cloud.lies = [(CONSOLE, lie), (ACTION, Reply(503, {}))]
    with pytest.raises(OutsideError):
        facts.console(PROJECT, SERVER, True, unfenced)
    with pytest.raises(TemporaryError):
        facts.act(PROJECT, SERVER, Action.REBOOT, unfenced)


def test_booted_servers_are_read_in_one_request(rig: tuple[Listening, OpenStackFacts]) -> None:
    """Of all projects, made by weft and changed since, in any state after the build, without details."""
    cloud, facts = rig
    cloud.lies = [(NAMED, Reply(200, {"servers": [{"id": "a", "name": "x"}, {"id": "c", "name": "y"}]}))]
    assert facts.built(SINCE, list) == {"a", "c"}
    (query,) = cloud.queries
    states = query.pop("status")
    assert query == {"all_tenants": ["1"], "tags": ["weft"], "changes-since": ["2026-03-01T12:00:00+00:00"]}
    assert {"ACTIVE", "ERROR", "SHUTOFF"} <= set(states) and "BUILD" not in states


@pytest.mark.parametrize("status", [403, 503])
def test_booted_servers_are_read_with_details_where_ids_alone_are_denied(
    rig: tuple[Listening, OpenStackFacts], status: int
) -> None:
    """After that was denied, as for roles of earlier versions; not if there is no answer."""
    cloud, facts = rig
    cloud.lies = [
        (f"{NAMED}/detail", Reply(200, {"servers": [{"id": "a", "status": "ACTIVE"}]})),
        (f"{NAMED}$", Reply(status, {"forbidden": {"code": status, "message": "Policy doesn't allow it"}})),
    ]
    if status == 503:
        with pytest.raises(OutsideError):
            facts.built(SINCE, list)
        return
    before = len(cloud.asked)
    assert facts.built(SINCE, list) == facts.built(SINCE, list) == {"a"}
    asked = [line for line in cloud.asked[before:] if "/compute/servers" in line]
    assert [line.endswith("/detail") for line in asked] == [False, True, True]


NAMED = "GET /compute/servers"


def test_servers_are_searched_by_the_common_prefix_of_names(
    rig: tuple[Listening, OpenStackFacts],
) -> None:
    """Nova's filter is a regular expression, and compares host names in lower case; other rows are removed here."""
    cloud, facts = rig
    there = ["train-0", "Train-1", "train-10", "train-x"]
    cloud.lies = [(NAMED, Reply(200, {"servers": [{"id": n, "name": n} for n in there]}))]
    assert facts.servers_named(PROJECT, ["train-1", "train-0", "train-2"]) == {"train-0", "train-1"}
    assert cloud.names == [["^train-"]] and not facts.servers_named(PROJECT, [])
    cloud.lies = [(NAMED, Reply(503, {}))] * 5
    with pytest.raises(OutsideError):
        facts.servers_named(PROJECT, ["train-1"])


@pytest.mark.parametrize("lie", [Reply(503, {}), Reply(200, {}), Reply(200, {"servers": ["a"]})])
def test_malformed_listing_is_reported(rig: tuple[Listening, OpenStackFacts], lie: Reply) -> None:
    cloud, facts = rig
    cloud.lies = [(NAMED, lie)] * 5
    with pytest.raises(OutsideError):
        facts.built(SINCE, list)


IDS, DETAILS = "GET /compute/servers", "GET /compute/servers/detail"


def lists(cloud: TinyCloud) -> list[str]:
    """Listings of servers since the last call."""
    asked = [line for line in cloud.asked if line in (IDS, DETAILS)]
    cloud.asked.clear()
    return asked


def test_denied_ids_are_listed_with_details_until_roles_may_have_changed(
    rig: tuple[Listening, OpenStackFacts], monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud, facts = rig
    cloud.things["servers"] = [{"id": "s1"}]
    cloud.lies = [(IDS, Reply(403, {"forbidden": {"message": "Policy doesn't allow", "code": 403}}))]
    assert facts.built(SINCE, list) == {"s1"}
    assert lists(cloud)[-1] == DETAILS
    assert facts.built(SINCE, list) == {"s1"} and lists(cloud) == [DETAILS]
    cloud.lies = []
    later = time.monotonic() + servers.DETAILED
    monkeypatch.setattr(servers.time, "monotonic", lambda: later)
    assert facts.built(SINCE, list) == {"s1"} and lists(cloud) == [IDS]


@pytest.mark.parametrize(
    "lie",
    [
        Reply(401, {"error": {"message": "The request you have made requires authentication.", "code": 401}}),
        Reply(403, "<html>a proxy's</html>", "text/html", own=False),
    ],
)
def test_other_refusals_do_not_make_listings_detailed(
    rig: tuple[Listening, OpenStackFacts], lie: Reply
) -> None:
    """A token that is invalid for a moment, or a proxy, says nothing about weft's roles."""
    cloud, facts = rig
    cloud.things["servers"] = [{"id": "s1"}]
    cloud.lies = [(IDS, lie)]
    with pytest.raises(OutsideError):
        facts.built(SINCE, list)
    assert DETAILS not in lists(cloud)
    cloud.lies = []
    assert facts.built(SINCE, list) == {"s1"} and lists(cloud) == [IDS]
