"""`weft site plan`, `apply`, `resources` and `destroy`: text, JSON and exit codes."""

from __future__ import annotations

import argparse
import json
from typing import Any

import pytest

from weft.cli import site as site_commands
from weft.cli import siteresources
from weft.model.errors import ConflictError, NotFoundError, PermanentError, TemporaryError

STEP: dict[str, Any] = {
    "action": "create",
    "key": "port/m1/bmc",
    "kind": "port",
    "name": "m1-bmc",
    "where": "lab",
    "what": "10.1.0.11",
    "id": None,
    "fields": [],
}
PLAN: dict[str, Any] = {"site": "lab", "generation": 3, "resources": 12, "steps": [STEP], "conflicts": []}
VIEW: dict[str, Any] = {
    "id": "x",
    "site": "lab",
    "generation": 3,
    "applied_at": "2026-11-21T05:00:00Z",
    "applied_by": "olga",
    "state": "WIRING",
    "reason": "",
    "since": "2026-11-21T05:00:00Z",
    "done": False,
    "needs_person": False,
    "resources": [],
    "has_receipt": False,
}


class Api:
    """An API whose work is done after some requests."""

    def __init__(self, plan: dict[str, Any] = PLAN, looks: int = 2) -> None:
        self.site = self
        self.steps, self.looks, self.asked = plan, looks, list[str]()
        self.broken = 0
        self.state = "READY"
        self.later: list[dict[str, Any]] = []
        self.view = VIEW

    def plan(self, adopt: bool) -> dict[str, Any]:
        self.asked.append(f"plan {adopt}")
        return self.steps

    def apply(self, adopt: bool) -> dict[str, Any]:
        self.asked.append(f"apply {adopt}")
        return self.steps

    def resources(self) -> dict[str, Any]:
        if self.broken:
            self.broken -= 1
            raise TemporaryError("ask", "weft's API", "connection refused")
        self.looks -= 1
        return self.view if self.looks > 0 else {**VIEW, "state": self.state, "done": self.state == "READY"}

    def events(self, after: int, wait: float = 0.0) -> list[dict[str, Any]]:
        if not self.asked:
            raise NotFoundError("nothing of site lab was ever applied")
        known = [
            {"sequence": 1, "type": "state", "message": "WIRING"},
            {"sequence": 2, "type": "step", "message": "s"},
            *(self.later if after >= 2 else ()),
        ]
        return [e for e in known if int(str(e["sequence"])) > after]

    def destroy(self) -> dict[str, Any]:
        self.asked.append("destroy")
        return VIEW


def run(api: object, *words: str) -> int:
    parser = argparse.ArgumentParser()
    site_commands.add_commands(parser.add_subparsers())
    args = parser.parse_args(["site", *words])
    args.client = api
    return args.run(args)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(siteresources, "POLL", 0.0)


def test_plan_is_printed_with_signs_and_sums(capsys: pytest.CaptureFixture[str]) -> None:
    changed = {
        **STEP,
        "action": "change",
        "fields": [{"key": "k", "field": "mtu", "was": "1500", "becomes": "9000"}],
    }
    taken = {**STEP, "action": "adopt", "id": "id-7"}
    again, gone = {**STEP, "action": "recreate"}, {**STEP, "action": "remove"}
    assert run(Api({**PLAN, "steps": [STEP, changed, taken, again, gone]}), "plan", "--adopt") == 0
    out = capsys.readouterr().out
    for said in ("+   port/m1/bmc", "mtu: 1500 → 9000", "adopts id-7", "−+  port/m1/bmc", "−   port/m1/bmc"):
        assert said in out
    assert "Would be created: 1 port." in out and "Would be removed: 1 port." in out


def test_plan_with_an_obstacle_is_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    conflict = {
        "key": "network/gw",
        "id": "n1",
        "what": "network n1 has VLAN 13: remove it",
        "adoptable": False,
    }
    assert run(Api({**PLAN, "conflicts": [conflict]}), "plan") == 1
    assert "network/gw: network n1 has VLAN 13" in capsys.readouterr().out


def test_empty_plan_says_nothing_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(Api({**PLAN, "steps": []}, looks=1), "apply", "--wait") == 0
    assert "all as described. Nothing to change." in capsys.readouterr().out
    assert run(Api({**PLAN, "steps": [], "resources": 0}), "apply", "--wait") == 0
    assert "describes no networks" in capsys.readouterr().out


def test_wait_prints_events_and_survives_a_restart(capsys: pytest.CaptureFixture[str]) -> None:
    api = Api(looks=3)
    api.broken = 1
    assert run(api, "apply", "--adopt", "--wait") == 0
    captured = capsys.readouterr()
    assert "It is carried out now." in captured.out and "Will be created: 1 port." in captured.out
    assert api.asked == ["apply True"] and captured.out.count("state: WIRING") == 1
    assert "connection refused" in captured.err and "READY" in captured.out


def test_wait_times_out_with_exit_code_1_and_says_that_it_continues(
    capsys: pytest.CaptureFixture[str],
) -> None:
    api = Api(looks=10**6)
    assert run(api, "apply", "--wait", "--timeout", "0.001") == 1
    assert "WIRING" in capsys.readouterr().err
    assert run(api, "destroy", "--wait", "--timeout", "0.001", "--json") == 1
    captured = capsys.readouterr()
    assert json.loads(captured.out)["state"] == "WIRING" and "the work continues" in captured.err


def test_wait_ends_when_a_person_must_act(capsys: pytest.CaptureFixture[str]) -> None:
    api = Api(looks=1000)
    api.view = {**VIEW, "needs_person": True, "reason": "Neutron refuses it"}
    api.later = [{"sequence": 3, "type": "error", "message": "Neutron refuses it"}]
    assert run(api, "apply", "--wait") == 1
    assert "needs attention" in (err := capsys.readouterr().err) and "Neutron refuses it" in err
    api.looks, api.later = 2, []  # a reason from before this request doesn't end the wait
    assert run(api, "apply", "--wait") == 0


def test_json_output_is_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(Api(looks=1), "apply", "--wait", "--json") == 0
    assert json.loads(capsys.readouterr().out)["done"] is True
    assert run(Api(), "apply", "--json") == 0
    assert json.loads(capsys.readouterr().out)["steps"][0]["key"] == "port/m1/bmc"
    assert run(Api({**PLAN, "steps": [], "resources": 0}), "apply", "--wait", "--json") == 0
    assert json.loads(capsys.readouterr().out)["resources"] == 0


def test_resources_command_is_exit_code_1_unless_complete(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(Api(looks=9), "resources") == 1
    assert run(Api(looks=1), "resources") == 0
    assert "generation" in capsys.readouterr().out
    assert run(Api(looks=1), "resources", "-f", "json", "-c", "generation", "-c", "resources") == 0
    assert json.loads(capsys.readouterr().out) == {"generation": VIEW["generation"], "resources": []}


def test_destroy_with_wait_ends_at_the_release(capsys: pytest.CaptureFixture[str]) -> None:
    api = Api(looks=2)
    api.state = "RELEASED"
    assert run(api, "destroy", "--wait") == 0
    assert "RELEASED" in capsys.readouterr().out


def test_errors_of_the_api_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    class Refusing(Api):
        def apply(self, adopt: bool) -> dict[str, Any]:
            raise ConflictError("1 thing in the way: …")

    with pytest.raises(ConflictError, match="in the way"):
        run(Refusing(), "apply")
    with pytest.raises(PermanentError, match="fields this client doesn't know"):
        run(Api({**PLAN, "steps": [{**STEP, "action": "explode"}]}), "plan")
