"""The acceptance run's table: what counts as passed, differences from the committed one, and the page."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml
from weftacceptance import __main__ as command
from weftacceptance import provider, table
from weftacceptance.__main__ import HERE, PAGE, TABLE
from weftacceptance.provider import Check, Checkout
from weftacceptance.server import Helper
from weftacceptance.sweep import sweep
from weftacceptance.table import Row

from tests.acceptance.fakes import World

CHECK = Check("network", "VpcReadCheck", "SDN01-02", "vpc_crud")


def row(line: str, answer: Mapping[str, object], check: Check = CHECK) -> tuple[str, str]:
    (found,) = table.rows_of([check], f"  [network] {check.name}: {line}\n", {check.step: answer}, {})
    return found.state, found.reason


def test_check_is_passed_only_if_its_step_read_something() -> None:
    """Not for a step that was skipped, failed or never ran, even if the check itself would pass without a reading."""
    assert row("PASSED - all", {"success": True}) == ("passed", "")
    assert row("PASSED - all", {"success": True, "skipped": True, "skip_reason": "none"})[0] == "false pass"
    assert row("PASSED - all", {"success": False, "error": "lost"})[0] == "false pass"
    assert row("PASSED - all", {})[0] == "false pass"
    known = Check("storage", "StorageProviderApiCheck", "", "provision")
    assert row("PASSED - Skipped: none", {"success": True}, known)[0] == "false pass"


def test_table_has_the_reasons_of_the_steps() -> None:
    skipped = {"success": True, "skipped": True, "skip_reason": "no such thing"}
    assert row("SKIPPED - runtime_skip: …", skipped) == ("skipped", "no such thing")
    assert row("FAILED - …", {"success": False, "error": "no answer"}) == ("failed", "no answer")
    assert row("ERROR - …", {"success": True})[0] == "error"


def test_check_gets_the_worst_state_of_its_lines() -> None:
    lines = "".join(f"  [a] OneCheck: {state} - x\n" for state in ("PASSED", "FAILED", "PASSED", "SKIPPED"))
    assert table.results_of(lines + "E   OneCheck: ERROR\n") == {"OneCheck": "FAILED"}


def test_difference_from_the_committed_table_is_named() -> None:
    """Fewer passes, more failures, a pass that the table calls skipped, new and missing checks."""
    was = [
        Row("iam", name, "", state)
        for name, state in (("A", "passed"), ("B", "skipped"), ("C", "passed"), ("D", "skipped"))
    ]
    now = [
        Row("iam", "A", "", "passed"),
        Row("iam", "B", "", "passed"),
        Row("iam", "C", "", "failed", "lost"),
    ]
    assert table.compare(was, was) == []
    assert table.compare(now, was) == [
        "iam B: passed, the table says skipped",
        "iam C: failed, the table says passed (lost)",
        "iam D: in the table, and not in the suite",
    ]
    assert table.compare([Row("iam", "E", "", "passed")], []) == ["iam E: passed, and not in the table"]


def test_page_shows_the_committed_table() -> None:
    rows = table.load(TABLE)
    assert PAGE.read_text() == table.page(rows, (HERE / "page.md").read_text())
    found = table.counts(rows)
    assert len(rows) == 254 and not found["failed"] + found["error"]
    assert [one.check for one in rows if one.state == "false pass"] == list(provider.FALSE_PASSES)
    assert all(one.reason for one in rows if one.state != "passed")


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    """A checkout with one suite, smaller than a real one but of the same form."""
    suite = {
        "tests": {
            "validations": {
                "network": {
                    "step": "vpc_crud",
                    "checks": {
                        "VpcReadCheck": {"test_id": "SDN01-02", "labels": ["network"]},
                        "SubnetConfigCheck": {"step": "subnet_config"},
                        "VpcIpConfigCheck": {"step": "vpc_ip_config"},
                        "DhcpIpManagementCheck": {"step": "dhcp_ip_test", "labels": ["ssh"]},
                    },
                }
            }
        }
    }
    steps = [{"name": "vpc_crud", "phase": "test", "command": "x"}, {"name": "teardown", "phase": "teardown"}]
    for where, document in (
        ("suites", suite),
        ("providers/my-isv/config", {"commands": {"network": {"phases": ["test"], "steps": steps}}}),
    ):
        folder = tmp_path / "isvctl" / "configs" / where
        folder.mkdir(parents=True)
        (folder / "network.yaml").write_text(yaml.safe_dump(document, sort_keys=False))
    return Checkout(tmp_path)


def test_configuration_has_each_step_of_a_suite(checkout: Checkout) -> None:
    """The example's steps and those that only checks name, teardown last; logins and overrides are this
    provider's."""
    made = provider.configuration(checkout, "network", Path("/x/step.py"), Path("/x/socket"), launches=False)
    steps = made["commands"]["network"]["steps"]
    assert [(one["name"], one["phase"]) for one in steps] == [
        ("vpc_crud", "test"),
        ("subnet_config", "test"),
        ("vpc_ip_config", "test"),
        ("dhcp_ip_test", "test"),
        ("teardown", "teardown"),
    ]
    assert steps[0]["args"] == ["/x/socket", "network", "vpc_crud"] and steps[0]["continue_on_failure"]
    assert made["tests"]["exclude"]["tests"] == ["DhcpIpManagementCheck"]
    checks = made["tests"]["validations"]["network"]["checks"]
    assert checks == {
        "SubnetConfigCheck": {"require_multi_az": False},
        "VpcIpConfigCheck": {"auto_assign_ip_mode": "instance"},
    }


def test_checks_expect_the_lab_servers_operating_system(tmp_path: Path) -> None:
    """In checks that name one, whole or in part, and nothing else is changed. Steps that release the server come
    after checks that log in to it."""
    os_check = {"OsCheck": {"expected_os": "ubuntu", "timeout": 5}}
    checks = {
        "BmHostReadyCheck": {"labels": ["ssh"], "compose": ["ConnectivityCheck", os_check]},
        "BmOsCheck": {"labels": ["ssh"], "expected_os": "ubuntu"},
        "BmGpusPresentCheck": {"labels": ["ssh", "gpu"], "compose": ["GpuCheck"]},
    }
    suite = {"tests": {"validations": {"ssh": {"step": "describe_instance", "checks": checks}}}}
    steps = [{"name": name, "phase": "test"} for name in ("query_sanitization", "describe_instance")]
    for where, document in (
        ("suites", suite),
        ("providers/my-isv/config", {"commands": {"bare_metal": {"phases": ["test"], "steps": steps}}}),
    ):
        folder = tmp_path / "isvctl" / "configs" / where
        folder.mkdir(parents=True)
        (folder / "bare_metal.yaml").write_text(yaml.safe_dump(document, sort_keys=False))
    made = provider.configuration(Checkout(tmp_path), "bare_metal", Path("/x"), Path("/y"), launches=True)
    assert made["tests"]["validations"]["ssh"]["checks"] == {
        "BmHostReadyCheck": {
            "compose": ["ConnectivityCheck", {"OsCheck": {"expected_os": "debian", "timeout": 5}}]
        },
        "BmOsCheck": {"expected_os": "debian"},
    }
    assert made["tests"]["exclude"]["tests"] == ["BmGpusPresentCheck"]
    listed = made["commands"]["bare_metal"]
    assert [(one["name"], one["phase"]) for one in listed["steps"]] == [
        ("describe_instance", "test"),
        ("query_sanitization", "teardown"),
    ]
    assert listed["phases"] == ["test", "teardown"]
    assert "BmHostReadyCheck" in provider.excluded(Checkout(tmp_path), "bare_metal", launches=False)


def test_client_prints_the_helpers_answer(tmp_path: Path) -> None:
    """Over the socket, several at once; without a helper it prints a failure."""

    def ask(step: str, path: Path = tmp_path / "socket") -> dict[str, object]:
        command = [sys.executable, HERE / "step.py", path, "iam", step]
        return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    with Helper(World(), tmp_path / "socket") as helper:
        found: list[dict[str, object]] = []
        threads = [threading.Thread(target=lambda: found.append(ask("nothing"))) for _ in range(3)]
        for thread in threads:
            thread.start()
        assert ask("create_user")["username"] == "wacc-user"
        for thread in threads:
            thread.join(30)
        assert [one["skipped"] for one in found] == [True] * 3
        assert helper.answers["iam", "create_user"]["success"]
    assert "doesn't answer" in str(ask("create_user", tmp_path / "gone")["error"])


def test_helper_that_disconnects_is_a_failure(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(1)

        def hang_up() -> None:
            peer, _ = listener.accept()
            peer.recv(1000)
            peer.close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        command = [sys.executable, HERE / "step.py", path, "iam", "create_user"]
        answer = subprocess.run(
            command, capture_output=True, text=True, check=True, env=dict(os.environ)
        ).stdout
        thread.join(30)
    assert json.loads(answer)["success"] is False


def test_sweep_removes_what_a_killed_run_left() -> None:
    """Everything that steps create, in both projects, and nothing else. Each kind that can't be removed is named."""
    world = World()
    tenant, operator = world.caller("team-a"), world.caller("operator")
    for made in ("wacc-key", "theirs"):
        tenant.ask("compute", "POST", "/os-keypairs", {"keypair": {"name": made}})
        tenant.ask("image", "POST", "/v2/images", {"name": made})
        operator.ask(
            "accelerator-pod", "POST", "/v1/reservations", {"name": made, "project_id": "x", "nodes": []}
        )
    operator.ask("accelerator-pod", "PUT", "/v1/nodes/gpu05/quarantine", {"reason": "wacc-x"})
    for node, program in (("gpu03", "wacc-check"), ("gpu04", "weft-check")):
        found = {"program": program, "results": [{"code": "XID", "subject": "gpu0", "status": "failed"}]}
        operator.ask("accelerator-pod", "POST", f"/v1/nodes/{node}/checks", found)
    pod = "pod wacc-pod of project team-a"
    world.kept("holds")["gpu06"] = {"node": "gpu06", "what": "repair", "why": pod}
    world.kept("holds")["gpu02"] = {"node": "gpu02", "what": "repair", "why": "pod theirs"}
    for name in ("team-a", "team-b"):
        caller = world.caller(name)
        for made in ("wacc-left", "theirs"):
            caller.ask("network", "POST", "/v2.0/networks", {"network": {"name": made}})
        order = {"name": "wacc-pod", "nodes": {"count": 1}, "locality": {"required": "leaf"}}
        caller.ask("accelerator-pod", "POST", "/v1/pods", order)
    drain = {"target": "node:gpu06", "reason": "wacc-x", "public": ""}
    world.caller("operator").ask("accelerator-pod", "POST", "/v1/drains", drain)
    assert sweep(world) == []
    assert [one["name"] for one in world.kept("networks").values()] == ["theirs", "theirs"]
    assert {one["state"] for one in world.kept("pods").values()} == {"RELEASED"}
    assert not world.kept("drains") and not world.kept("quarantine")
    for kind in ("keypairs", "reservations"):
        assert list(world.kept(kind)) == ["theirs"]
    assert [one["name"] for one in world.kept("images").values() if one["id"] != "guest-1"] == ["theirs"]
    assert (list(world.kept("checks")), list(world.kept("holds"))) == (["gpu04"], ["gpu02"])
    world.kept("networks")["x"] = {"id": "x", "name": "wacc-more", "project_id": "project-team-a"}
    tenant.ask("compute", "POST", "/os-keypairs", {"keypair": {"name": "wacc-key"}})
    operator.ask("accelerator-pod", "PUT", "/v1/nodes/gpu05/quarantine", {"reason": "wacc-x"})
    world.lie = "undying"
    assert sweep(world) == ["network x", "key pair wacc-key", "quarantine gpu05"]


@pytest.mark.parametrize("update", [False, True])
def test_run_with_remains_or_another_version_fails(
    update: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [Row("iam", "A", "", "passed")]
    for name in ("TABLE", "PAGE"):
        monkeypatch.setattr(command, name, tmp_path / name)
    table.save(tmp_path / "TABLE", rows)

    def end(left: list[str], version: str) -> int:
        return command._end(rows, left, version, ["iam"], update)  # pyright: ignore[reportPrivateUsage]

    assert end([], provider.VERSION) == 0
    assert (end(["pod wacc-pod"], provider.VERSION), end([], "0.12.0"), end([], "")) == (1, 1, 1)
    said = capsys.readouterr().out
    assert "left in the cloud: pod wacc-pod" in said and "version 0.12.0, the table of" in said
