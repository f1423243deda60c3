"""What Nova is asked when a tenant reboots, rescues, or opens a console; and what its refusals become."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.drivers.openstack.tinycloud import PROJECT, Reply, TinyCloud, tiny_cloud
from weft.drivers.openstack import OpenStackFacts, Sessions
from weft.model.errors import ConflictError, OutsideError, TemporaryError
from weft.ports.servers import Action

SERVER = "ac89efa9-a34e-4260-b101-29e9e3b49c3d"
ACTION = f"POST /compute/servers/{SERVER}/action"
CONSOLE = f"POST /compute/servers/{SERVER}/remote-consoles"


class Listening(TinyCloud):
    """Keeps what it was sent."""

    sent: list[Any] = []  # noqa: RUF012 - of the one test

    def answer(self, method: str, path: str, query: dict[str, list[str]], seer: str, body: Any) -> Reply:
        if method == "POST" and path.startswith("/compute"):
            self.sent.append(body)
        return TinyCloud.answer(self, method, path, query, seer, body)


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[tuple[Listening, OpenStackFacts]]:
    with tiny_cloud(Listening) as (cloud, text):
        assert isinstance(cloud, Listening)
        cloud.sent.clear()
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
def test_each_action_is_novas(rig: tuple[Listening, OpenStackFacts], action: Action, body: Any) -> None:
    cloud, facts = rig
    rescue = action is Action.RESCUE
    cloud.lies = [(ACTION, Reply(200, {"adminPass": "s3cret"}) if rescue else Reply(202))]
    assert facts.act(PROJECT, SERVER, action) == ("s3cret" if rescue else None)
    assert cloud.sent == [body]


def test_a_rescue_without_a_password_has_none(rig: tuple[Listening, OpenStackFacts]) -> None:
    """`[api] enable_instance_password = false`."""
    cloud, facts = rig
    cloud.lies = [(ACTION, Reply(200, {}))]
    assert facts.act(PROJECT, SERVER, Action.RESCUE) is None


@pytest.mark.parametrize(("serial", "kind"), [(True, "serial"), (False, "novnc")])
def test_a_console_is_asked_for_by_its_kind(
    rig: tuple[Listening, OpenStackFacts], serial: bool, kind: str
) -> None:
    cloud, facts = rig
    cloud.lies = [
        (CONSOLE, Reply(200, {"remote_console": {"type": kind, "url": "wss://c.example/?token=1"}}))
    ]
    found = facts.console(PROJECT, SERVER, serial)
    assert (found.type, found.url) == (kind, "wss://c.example/?token=1")
    assert cloud.sent[0]["remote_console"]["type"] == kind


@pytest.mark.parametrize("status", [400, 404, 409, 501])
def test_what_nova_refuses_is_a_conflict_with_its_words(
    rig: tuple[Listening, OpenStackFacts], status: int
) -> None:
    cloud, facts = rig
    said = {
        "conflictingRequest": {"code": status, "message": "Cannot 'rescue' while it is in vm_state stopped"}
    }
    cloud.lies = [(ACTION, Reply(status, said)), (CONSOLE, Reply(status, said))]
    for ask in (
        lambda: facts.act(PROJECT, SERVER, Action.RESCUE),
        lambda: facts.console(PROJECT, SERVER, True),
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
def test_an_answer_that_is_none_is_told(rig: tuple[Listening, OpenStackFacts], lie: Reply) -> None:
    cloud, facts = rig
    cloud.lies = [(CONSOLE, lie), (ACTION, Reply(503, {}))]
    with pytest.raises(OutsideError):
        facts.console(PROJECT, SERVER, True)
    with pytest.raises(TemporaryError):
        facts.act(PROJECT, SERVER, Action.REBOOT)
