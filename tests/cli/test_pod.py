"""`weft pod` with a real server."""

from __future__ import annotations

import argparse
import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest
from psycopg.types.json import Jsonb

from tests.helpers.desk import Desk
from tests.helpers.waiting import wait_for
from weft.cli.common import Json, client_of
from weft.cli.follow import READY, PlainProgress, WaitResult, follow
from weft.model.errors import UnknownError
from weft.model.messages import outside
from weft.model.resources import Kind
from weft.model.views import MOST_EVENTS
from weft.testing.cloud import Fault


def test_pod_goes_from_order_to_receipt(desk: Desk) -> None:
    """With plan, create --wait, list, show, events, release --wait, receipt and verify."""
    file = desk.pod_file()
    plan = desk.weft("pod", "plan", "-f", file)
    assert (plan.code, "0x101" in plan.out, "gpu01" in plan.out) == (0, True, True)
    with desk.house.working():
        _from_order_to_receipt(desk, file)


def _from_order_to_receipt(desk: Desk, file: str) -> None:
    made = desk.weft("pod", "create", "-f", file, "--wait")
    assert made.code == 0
    assert "WIRING" in made.out
    assert "READY" in made.out
    assert desk.weft("pod", "list", "-f", "value").out.split()[1:3] == ["train", "READY"]
    address = desk.weft("pod", "show", "train", "--json").json["servers"][0]["management_address"]
    assert address in desk.weft("pod", "show", "train").out
    assert "BOOTING" in desk.weft("pod", "events", "train").out
    gone = desk.weft("pod", "release", "train", "--wait")
    assert (gone.code, "RELEASED" in gone.out, "PENDING" in gone.out) == (0, True, False)
    assert "0x101" in desk.weft("pod", "receipt", "train").out
    signed = desk.weft("pod", "receipt", "train", "-f", "json", "-c", "clean", "-c", "items").json
    assert signed["clean"] is True and {"host", "server"} <= {i["plane"] for i in signed["items"]}
    Path("receipt.json").write_text(desk.weft("pod", "receipt", "train", "--json").out)
    Path("weft.pub").write_text(desk.weft("receipt", "key").out)
    assert desk.weft("receipt", "verify", "receipt.json", "--key", "weft.pub", cloud=None).code == 0


def test_every_json_output_parses(desk: Desk) -> None:
    """With --json, stdout has JSON only, also with --wait and for errors."""
    file = desk.pod_file()
    assert desk.weft("pod", "plan", "-f", file, "--json").json["order"]["name"] == "train"
    with desk.house.working():
        made = desk.weft("pod", "create", "-f", file, "--wait", "--json")
    assert (made.json["state"], "WIRING" in made.err) == ("READY", True)
    assert [p["name"] for p in desk.weft("pod", "list", "--json").json] == ["train"]
    assert desk.weft("pod", "show", "train", "--json").json["name"] == "train"
    events = desk.weft("pod", "events", "train", "--json").json
    assert events[0]["type"] == "state"
    assert desk.weft("pod", "events", "train", "--newest", "2", "--json").json == events[-2:]
    assert desk.weft("pod", "release", "train", "--json").json["name"] == "train"
    conflict = desk.weft("pod", "receipt", "train", "--json")
    assert (conflict.code, conflict.json["status"]) == (2, 409)
    with desk.house.working():
        lines = desk.weft("pod", "events", "train", "--follow", "--json").out.splitlines()
    assert json.loads(lines[-1])["message"].startswith("RELEASED")


def test_without_wait_the_order_is_only_sent(desk: Desk) -> None:
    """The answer says what was ordered and how to follow it."""
    made = desk.weft("pod", "create", "-f", desk.pod_file())
    assert (made.code, "PLACED" in made.out, "--follow" in made.out) == (0, True, True)
    assert "is being released" in desk.weft("pod", "release", "train").out


def test_failed_pod_gives_exit_code_1_and_its_reason(desk: Desk) -> None:
    """With create --wait."""
    desk.house.break_servers()
    with desk.house.working():
        made = desk.weft("pod", "create", "-f", desk.pod_file(), "--wait")
    assert made.code == 1
    assert "FAILED" in made.err
    assert "No valid host was found" in made.err and "cn-17" not in made.err


def test_wait_ends_at_its_time_limit(desk: Desk) -> None:
    """Exit code 1; the pod is kept."""
    made = desk.weft("pod", "create", "-f", desk.pod_file(), "--wait", "--timeout", "0.2")
    assert (made.code, "the pod continues" in made.err) == (1, True)
    assert desk.weft("pod", "show", "train").code == 0


def test_release_by_another_user_ends_the_wait(desk: Desk) -> None:
    """The pod can't become READY any more: exit code 1."""
    pod = _stuck_pod(desk)
    desk.house.cloud.plant(Fault.STUCK, kind=Kind.SERVER, times=None)
    desk.house.cloud.plant(Fault.UNDELETABLE, kind=Kind.PORT, times=None)
    with desk.house.working():
        end = _follow(desk, pod, [], lambda: desk.weft("pod", "release", "train"))
    assert end.pod["state"] == "RELEASING" and end.missed


def _stuck_pod(desk: Desk) -> Json:
    """Orders a pod; its servers don't boot even if a worker runs."""
    return desk.weft("pod", "create", "-f", desk.pod_file(), "--json").json


def _follow(desk: Desk, pod: Json, lines: list[str], meanwhile: Callable[[], object]) -> WaitResult:
    """Waits for READY in this thread while `meanwhile` runs in another."""
    client = client_of(argparse.Namespace(os_cloud="a-member"))

    def act() -> None:
        time.sleep(0.2)
        meanwhile()

    other = threading.Thread(target=act)
    other.start()
    try:
        return follow(client, pod, READY, 0, 60, PlainProgress(lines.append))
    finally:
        other.join()


def test_refused_order_is_explained(desk: Desk) -> None:
    """Exit code 1, with quotas, filters and what would fit."""
    desk.house.cloud.offers.quotas["id-of-team-a", "cores"] = 8
    refused = desk.weft("pod", "create", "-f", desk.pod_file())
    assert refused.code == 1 and "cores" in refused.err
    desk.house.fill(but=1)
    refused = desk.weft("pod", "create", "-f", desk.pod_file())
    assert refused.code == 1
    for words in ("2 nodes are requested", "busy", "  nodes.count: 1 instead of 2\n"):
        assert words in refused.err
    as_json = desk.weft("pod", "plan", "-f", desk.pod_file(), "--json")
    change = {"field": "nodes.count", "was": 2, "becomes": 1}
    offer = {"kind": "fields", "changes": [change], "message": "nodes.count: 1 instead of 2"}
    assert offer in as_json.json["explanation"]["would_fit"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("name: train\nnodes:\n  count: 0\n  flavor: f\n  image: i\n", ("pod.yaml:3", "nodes.count")),
        ("name: train\ncolour: red\n", ("pod.yaml:2", "colour")),
        ("name: [\n", ("pod.yaml",)),
        ("", ("pod.yaml",)),
    ],
)
def test_invalid_pod_file_is_reported_with_its_line(desk: Desk, text: str, says: tuple[str, ...]) -> None:
    """Exit code 2, before any request."""
    Path("pod.yaml").write_text(text)
    bad = desk.weft("pod", "create", "-f", "pod.yaml", cloud=None)
    assert bad.code == 2
    for words in says:
        assert words in bad.err


def test_pod_file_may_come_from_stdin(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `-f -`."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(Path(desk.pod_file()).read_bytes())))
    assert desk.weft("pod", "plan", "-f", "-").code == 0


def test_pod_is_refused_to_another_project_and_to_a_reader(desk: Desk) -> None:
    """Another project: not found; a reader may not order (exit code 2 each); an operator sees it."""
    desk.weft("pod", "create", "-f", desk.pod_file())
    assert desk.weft("pod", "show", "train", cloud="b-member").code == 2
    assert "train" not in desk.weft("pod", "list", cloud="b-member").out
    refused = desk.weft("pod", "create", "-f", desk.pod_file("more"), cloud="a-reader")
    assert (refused.code, "may not do pods:create" in refused.err) == (2, True)
    assert "id-of-team-a" in desk.weft("pod", "list", "--all-projects", cloud="operator").out


@pytest.mark.parametrize("words", [(), ("--timeout", "0"), ("--timeout", "x"), ("--timeout", "nan")])
def test_bad_arguments_are_exit_code_2(desk: Desk, words: tuple[str, ...]) -> None:
    """Reported by argparse."""
    assert desk.weft("pod", "create", *words, cloud=None).code == 2


def test_offline_and_site_require_each_other(desk: Desk) -> None:
    """Either option alone is an error."""
    assert desk.weft("pod", "plan", "-f", desk.pod_file(), "--offline", cloud=None).code == 2
    assert desk.weft("pod", "plan", "-f", desk.pod_file(), "--site", "s.yaml", cloud=None).code == 2


def _away(desk: Desk, pod: UUID, asked: int) -> None:
    """Makes Keystone fail in the middle of a wait, `asked` requests after its start, until requests have failed."""
    identity = desk.keystone.identity
    failed = identity.failed
    wait_for(
        lambda: identity.requests >= asked + 3
    )  # the requests for events, for the pod, and for the next events
    identity.error = UnknownError("check a token", outside.service("identity"), "no answer", delay=0.05)
    desk.house.store.pods.note_event(pod, "step", "something", None)
    wait_for(lambda: identity.failed >= failed + 6)  # each request asks up to twice
    identity.error = None


def test_create_with_wait_survives_a_temporary_error(desk: Desk) -> None:
    """The error is printed once."""
    pod, asked = _stuck_pod(desk), desk.keystone.identity.requests
    lines: list[str] = []

    def meanwhile() -> None:
        _away(desk, UUID(pod["id"]), asked)
        desk.house.finish("train")

    assert _follow(desk, pod, lines, meanwhile).pod["state"] == "READY"
    assert len([line for line in lines if "Keystone" in line]) == 1


def test_following_events_survives_an_api_outage(desk: Desk) -> None:
    """It is printed once, and the events continue to the last one."""
    desk.house.break_servers()
    pod, asked = UUID(_stuck_pod(desk)["id"]), desk.keystone.identity.requests

    def act() -> None:
        _away(desk, pod, asked)
        desk.house.finish("train")

    other = threading.Thread(target=act)
    other.start()
    followed = desk.weft("pod", "events", "train", "--follow", cloud="operator")
    other.join()
    assert (followed.code, "something" in followed.out) == (0, True)
    assert "FAILED" in followed.out.splitlines()[-1]
    assert len(followed.err.splitlines()) == 1 and "Keystone" in followed.err


def test_every_event_of_a_pod_with_many_is_shown(desk: Desk) -> None:
    """More than one answer has; `release --wait` begins after the last of them."""
    pod = UUID(_stuck_pod(desk)["id"])
    row: Json = {
        "owner_id": pod,
        "at": desk.house.clock.now(),
        "type": "step",
        "message": Jsonb("old"),
        "key": None,
    }
    with desk.house.database.transaction() as tx:
        tx.many("insert_event", [row] * (MOST_EVENTS + 10))
    shown = desk.weft("pod", "events", "train", "--json", cloud="operator").json
    assert sum(event["message"] == "old" for event in shown) == MOST_EVENTS + 10
    with desk.house.working():
        released = desk.weft("pod", "release", "train", "--wait", cloud="operator")
    assert (released.code, "old" in released.out) == (0, False)


def test_ctrl_c_while_waiting_says_that_the_pod_continues(desk: Desk) -> None:
    """A real process and a real SIGINT: exit code 130 and one sentence, no traceback."""
    # A background job of a shell ignores SIGINT, and so do its children; a terminal's processes don't.
    words = [
        *("env", "--default-signal=INT", sys.executable, "-m", "weft.cli.main", "--os-cloud", "a-member"),
        *("pod", "create", "-f", desk.pod_file(), "--wait"),
    ]
    process = subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    assert "PENDING" in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "continues" in err
    assert "Traceback" not in err


def test_list_reads_all_pages(desk: Desk) -> None:
    """`--limit` bounds the list, `--marker` says where it begins."""
    for name in ("a", "b", "c"):
        assert desk.weft("pod", "create", "-f", desk.pod_file(name)).code == 0
    assert [p["name"] for p in desk.weft("pod", "list", "--json").json] == ["a", "b", "c"]
    first = desk.weft("pod", "list", "--json", "--limit", "2").json
    assert [p["name"] for p in first] == ["a", "b"]
    rest = desk.weft("pod", "list", "--json", "--marker", f"b:{first[1]['id']}").json
    assert [p["name"] for p in rest] == ["c"]
    assert [p["name"] for p in desk.weft("pod", "list", "--json", "--name", "b").json] == ["b"]
    assert desk.weft("pod", "list", "--json", "--state", "released").json == []
    assert desk.weft("pod", "list", "--limit", "0").code == 2
    client = client_of(argparse.Namespace(os_cloud="a-member"))
    for page in (1, 2, 3, 4):
        assert [p["name"] for p in client.pods.list(page=page)] == ["a", "b", "c"]
        assert [p["name"] for p in client.pods.list(page=page, limit=2)] == ["a", "b"]


def test_wait_command_waits_for_a_pod(desk: Desk) -> None:
    """`weft pod wait` ends with 0 in that state, and with 1 and the reason if it can't be reached or the time
    is up."""
    _stuck_pod(desk)
    late = desk.weft("pod", "wait", "train", "--timeout", "0.2")
    assert (late.code, "pod train is PLACED" in late.err) == (1, True)
    with desk.house.working():
        assert desk.weft("pod", "wait", "train").out == "pod train is READY\n"
        desk.weft("pod", "release", "train")
        gone = desk.weft("pod", "wait", "train", "--until", "released", "--json")
        assert (gone.code, gone.json["state"]) == (0, "RELEASED")
    never = desk.weft("pod", "wait", "train")
    assert (never.code, "pod train is RELEASED" in never.err) == (1, True)


def test_unknown_state_is_reported(desk: Desk) -> None:
    """One sentence with all states."""
    _stuck_pod(desk)
    wrong = desk.weft("pod", "wait", "train", "--until", "REDY")
    assert (wrong.code, "states of a pod" in wrong.err, "Traceback" in wrong.err) == (2, True, False)


def test_wait_command_survives_a_temporary_error(desk: Desk) -> None:
    """The pod becomes READY after the API was unreachable for a moment."""
    _stuck_pod(desk)
    identity = desk.keystone.identity
    identity.error = UnknownError("check a token", outside.service("identity"), "no answer", delay=0.05)
    asked = identity.requests

    def act() -> None:
        wait_for(lambda: identity.requests >= asked + 3)
        identity.error = None
        desk.house.finish("train")

    other = threading.Thread(target=act)
    other.start()
    waited = desk.weft("pod", "wait", "train")
    other.join()
    assert (waited.code, waited.out) == (0, "pod train is READY\n")
