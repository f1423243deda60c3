"""The command tree: quick start, help, plugins, exit codes, completion; and operators' commands."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.desk import Desk
from tests.helpers.paths import EXAMPLES
from weft.cli.main import PROVIDERS, build_parser, main
from weft.config.kinds import listen

SMALL = EXAMPLES / "sites" / "small" / "site.yaml"
HEAVY = ("openstack", "keystoneauth1", "fastapi", "pydantic", "rich", "cryptography", "psycopg", "yaml")


@pytest.mark.parametrize("words", [["--help"], ["pod", "--help"], ["serve", "--help"], ["pod", "create"]])
def test_help_imports_nothing_heavy(words: list[str]) -> None:
    """So that help, and refusals by argparse, start quickly."""
    code = (
        "import sys\nfrom weft.cli.main import main\nmain(sys.argv[1:])\n"
        f"print([m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "[]"


def test_pod_list_imports_no_models() -> None:
    """The most frequent command doesn't load pydantic, which takes longer than its request."""
    code = (
        "import sys\nimport weft.client\nfrom weft.cli.main import main\n"
        "code = main(['pod', 'list'])\n"
        "print(code, 'pydantic' in sys.modules, file=sys.stderr)"
    )
    signed = {"AUTH_URL": "http://127.0.0.1:1/v3", "USERNAME": "a", "PASSWORD": "b", "PROJECT_NAME": "c"}
    domains = {"USER_DOMAIN_NAME": "Default", "PROJECT_DOMAIN_NAME": "Default"}
    env = {**os.environ, **{f"OS_{name}": value for name, value in {**signed, **domains}.items()}}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
    assert done.stderr.splitlines()[-1] == "1 False", done.stderr


def leaves(
    parser: argparse.ArgumentParser, path: str = "weft"
) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Each command with its parser."""
    children = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    if not children or "run" in parser._defaults:
        yield path, parser
    for action in children:
        for name, child in action.choices.items():
            yield from leaves(child, f"{path} {name}")


def test_every_command_has_a_help_and_something_to_run() -> None:
    """And a function to run; short descriptions in the quick help are those of the commands' providers."""
    parser = build_parser()
    found = dict(leaves(parser))
    for name in (
        "pod plan",
        "pod create",
        "node list",
        "audit",
        "receipt verify",
        "serve",
        "worker",
        "site activate",
    ):
        assert f"weft {name}" in found
    assert [path for path, p in found.items() if "run" not in p._defaults] == []
    top = next(a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    helps = {action.dest: action.help for action in top._choices_actions}
    assert {name: helps[name] for name in PROVIDERS} == {
        name: help_ for name, (_, help_) in PROVIDERS.items()
    }


@pytest.mark.parametrize("words", [[], ["pod"], ["nix"], ["pod", "nix"], ["--nix"], ["pod", "show"]])
def test_wrong_usage_is_exit_code_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Usage on stderr, nothing on stdout."""
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert (out, "usage: weft" in err) == ("", True)


def test_version_and_help_are_exit_code_0(capsys: pytest.CaptureFixture[str]) -> None:
    """Printed on stdout."""
    assert main(["--version"]) == 0
    assert main(["--help"]) == 0
    assert "audit-log" in capsys.readouterr().out


def test_plugin_adds_a_command_and_a_broken_plugin_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Entry points of weft.commands: one that fails to load doesn't affect the others."""
    (tmp_path / "good_plugin.py").write_text(
        "def add_commands(subparsers):\n"
        "    subparsers.add_parser('hello', help='greet').set_defaults(run=lambda args: print('hello') or 0)\n"
    )
    info = tmp_path / "plugins-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plugins\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[weft.commands]\nhello = good_plugin\nbad = bad_plugin\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert main(["hello"]) == 0
    assert capsys.readouterr().out == "hello\n"
    assert main(["--help"]) == 0
    out, err = capsys.readouterr()
    assert "greet" in out
    assert "bad_plugin" in err


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion_scripts_know_the_commands(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    """bash accepts the script."""
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert "audit-log" in script
    if shell == "bash":
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)


def test_internal_error_is_reported_without_a_traceback(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless WEFT_DEBUG asks for it."""
    words = ["receipt", "verify", "x"]
    parser = build_parser(words)
    assert parser.parse_args(words).run
    monkeypatch.setattr(desk.house.store.pods, "summaries", RuntimeError("inside"))
    bad = desk.weft("pod", "list")
    assert (bad.code, "req-" in bad.err, "inside" in bad.err) == (1, True, False)


def test_output_into_a_closed_pipe_is_not_reported_as_an_error(desk: Desk) -> None:
    """Such as `weft … | head -1`."""
    assert desk.weft("pod", "create", "-f", desk.pod_file()).code == 0
    desk.house.multiply("train", 3000)
    done = subprocess.run(
        [
            "bash",
            "-o",
            "pipefail",
            "-c",
            f"{sys.executable} -m weft.cli.main --os-cloud a-member pod list | head -1",
        ],
        capture_output=True,
        text=True,
        check=False,
        env=dict(os.environ),
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("+---")


def test_error_as_json_into_a_closed_pipe_keeps_its_exit_code(desk: Desk) -> None:
    """Python adds no message, and not its own exit code 120."""
    command = f"{sys.executable} -m weft.cli.main --os-cloud a-member pod show nix --json"
    script = f"set -o pipefail; {command} | true"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "weft: there is no pod 'nix' in this project\n")


def test_findings_of_an_audit_are_exit_code_1(desk: Desk) -> None:
    """Exit code 0 if all were repaired, or if there are none."""
    desk.weft("pod", "create", "-f", desk.pod_file())
    desk.house.orphan(desk.house.finish("train"))
    found = desk.weft("audit", cloud="operator")
    assert (found.code, "orphan" in found.out, "--repair" in found.err) == (1, True, True)
    assert desk.weft("audit", "--json", cloud="operator").json["findings"][0]["category"] == "orphan"
    assert desk.weft("audit", "--accept", cloud="operator").code == 1
    assert desk.weft("audit", "--accept", "--repair", cloud="operator").code == 2
    assert desk.weft("audit", "--repair", cloud="operator").code == 0
    clean = desk.weft("audit", cloud="operator")
    assert (clean.code, "clean" in clean.out) == (0, True)
    assert desk.weft("audit").code == 2


def test_nodes_are_listed_and_quarantined(desk: Desk) -> None:
    """Filtered by state, and as JSON."""
    assert desk.weft("node", "quarantine", "gpu01", "--reason", "fan", cloud="operator").code == 0
    listed = desk.weft("node", "list", "--state", "quarantined", cloud="operator").out
    assert ("fan" in listed, "gpu02" in listed) == (True, False)
    assert (
        len(desk.weft("node", "list", "--json", cloud="operator").json) == len(desk.house.site.nodes) + 4
    )  # bare-metal machines
    assert "free" in desk.weft("node", "clear", "gpu01", cloud="operator").out
    again = desk.weft("node", "clear", "gpu01", cloud="operator")
    assert (again.code, "not in quarantine" in again.err) == (2, True)


def test_nodes_are_held_and_accepted(desk: Desk) -> None:
    """What a hold is for is shown; for a pod's node, when the hold begins to count."""
    held = desk.weft("node", "hold", "gpu01", "--for", "burn-in", cloud="operator")
    assert (held.code, held.out) == (0, "node gpu01 is held for burn-in\n")
    desk.weft("node", "hold", "gpu01", "--for", "firmware", cloud="operator")
    assert "gpu02" not in desk.weft("node", "list", "--state", "held", cloud="operator").out
    shown = desk.weft("node", "show", "gpu01", cloud="operator").out
    assert "burn-in" in shown and "firmware" in shown and "held" in shown
    assert desk.weft("node", "accept", "gpu01", cloud="operator").code == 2
    one = desk.weft("node", "accept", "gpu01", "--for", "burn-in", cloud="operator")
    assert one.out == "node gpu01 is accepted for burn-in\nit is still held for firmware\n"
    listed = desk.weft("node", "holds", "-f", "value", "-c", "node", "-c", "what", cloud="operator")
    assert listed.out == "gpu01 firmware\n"
    assert desk.weft("node", "accept", "gpu01", "--all", "--json", cloud="operator").json["missing"] == []
    assert desk.weft("node", "hold", "gpu01", "--for", " ", cloud="operator").code == 2
    assert desk.weft("node", "holds").code == 2
    desk.weft("pod", "create", "-f", desk.pod_file())
    nodes = desk.weft("node", "list", "--state", "busy", "--json", cloud="operator").json
    busy = desk.weft("node", "hold", nodes[0]["name"], "--for", "firmware", cloud="operator")
    assert "counts once the pod is released" in busy.out


def test_leaf_is_drained_and_undrained(desk: Desk) -> None:
    """The pods there are listed, with a note that nothing is released by itself."""
    desk.weft("pod", "create", "-f", desk.pod_file())
    words = ("--by", "2027-06-01T18:00Z", "--reason", "RMA", "--public", "new switch")
    done = desk.weft("node", "drain", "leaf01", *words, cloud="operator")
    assert done.code == 0 and "gpu01" in done.out
    shown = desk.weft("node", "show", "gpu01", cloud="operator").out
    assert "RMA" in shown and "new switch" in shown and "2027-06-01" in shown
    busy = desk.weft("node", "list", "--state", "busy", "--json", cloud="operator").json[0]
    again = desk.weft("node", "drain", busy["leaf"], cloud="operator").out
    assert "train" in again and "nothing is released by itself" in again
    assert desk.weft("node", "undrain", busy["leaf"], "--json", cloud="operator").json["pods"]
    assert desk.weft("node", "undrain", "nix", cloud="operator").code == 2
    assert desk.weft("node", "drain", "gpu01", "--by", "soon", cloud="operator").code == 2


def test_cabling_of_a_fabric_is_compared_and_adopted(desk: Desk) -> None:
    """Differences are exit code 1; once adopted there are none."""
    desk.house.pull_cable()
    found = desk.weft("fabric", "compare", cloud="operator")
    assert (found.code, "missing cable" in found.out) == (1, True)
    assert desk.weft("fabric", "compare", "nix", cloud="operator").code == 2
    assert desk.weft("fabric", "compare", "ib0", "--json", cloud="operator").json["fabric"] == "ib0"
    taken = desk.weft("fabric", "compare", "--adopt", cloud="operator")
    assert (taken.code, "generation 2" in taken.out) == (0, True)
    assert desk.weft("fabric", "compare", cloud="operator").code == 0


def test_status_of_a_fabric_follows_its_managers(desk: Desk) -> None:
    """No master, or a problem on any of them, is exit code 1."""
    good = desk.weft("fabric", "status", cloud="operator")
    assert (good.code, "master" in good.out) == (0, True)
    data = desk.weft(
        "fabric", "status", "-f", "json", "-c", "healthy", "-c", "managers", cloud="operator"
    ).json
    assert data["healthy"] is True and {m["fabric"] for m in data["managers"]} == {"ib0"}
    desk.house.fabric.manager("sm2").stop()
    bad = desk.weft("fabric", "status", cloud="operator")
    assert (bad.code, "sm2" in bad.out) == (1, True)
    assert desk.weft("fabric", "status", "-f", "value", "-c", "healthy", cloud="operator").out == "False\n"
    desk.house.fabric.manager("sm1").stop()
    assert desk.weft("fabric", "status", "--json", cloud="operator").code == 1


def test_audit_log_shows_who_changed_what(desk: Desk) -> None:
    """One row for each change."""
    desk.weft("pod", "create", "-f", desk.pod_file())
    assert "pod create" in desk.weft("audit-log", cloud="operator").out
    assert desk.weft("audit-log", "--json", cloud="operator").json[0]["user"] == "alice"


def test_text_from_outside_cannot_steer_the_terminal(desk: Desk) -> None:
    """Escape sequences in a reason are printed as replacement characters."""
    desk.weft("node", "quarantine", "gpu01", "--reason", "red \x1b[31m", cloud="operator")
    shown = desk.weft("node", "list", cloud="operator").out
    assert "\x1b" not in shown and "red \ufffd[31m" in shown


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("127.0.0.1:80", ("127.0.0.1", 80)),
        ("[::]:8787", ("::", 8787)),
        (":1", ("0.0.0.0", 1)),
        ("h:0", ("h", 0)),
    ],
)
def test_valid_listen_address_is_parsed(text: str, meaning: tuple[str, int]) -> None:
    """HOST:PORT, IPv6 in brackets."""
    assert listen(text) == meaning


@pytest.mark.parametrize(
    "words",
    [("--workers", "0"), ("--database", "sqlite://x"), ("--policy", "nix.yaml"), ("--public-url", "x")],
)
def test_invalid_settings_are_reported_before_anything_starts(words: tuple[str, str]) -> None:
    """Exit code 2."""
    assert main(["serve", *words]) == 2


@pytest.mark.parametrize(
    "words",
    [
        ["--os-cloud", "staging", "site", "enroll", "site.yaml", "list.yaml"],
        ["site", "enroll", "site.yaml", "list.yaml", "--os-cloud", "staging"],
    ],
)
def test_option_os_cloud_overrides_the_variable(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Before or after the command."""
    monkeypatch.setenv("OS_CLOUD", "prod")
    assert build_parser(words).parse_args(words).os_cloud == "staging"


def _run(command: str) -> subprocess.CompletedProcess[str]:
    """Runs it in bash with this interpreter's `weft` and the small site for SMALL; fails if any part of a pipe
    fails."""
    words = command.replace("weft ", f"{sys.executable} -m weft.cli.main ").replace("SMALL", str(SMALL))
    shell = ["bash", "-o", "pipefail", "-c", words]
    return subprocess.run(shell, capture_output=True, text=True, timeout=120, check=False)


def test_output_that_cannot_be_written_gives_one_sentence() -> None:
    full = _run("weft site check SMALL > /dev/full")
    assert (full.returncode, full.stderr) == (
        1,
        "weft: what is shown can't be written: No space left on device\n",
    )
    closed = _run("weft site check SMALL >&-")
    assert (closed.returncode, closed.stderr) == (
        1,
        "weft: standard output is closed: nothing can be shown\n",
    )


def test_pod_file_may_be_a_shell_pipe() -> None:
    order = "name: a\\nnodes: {count: 1, flavor: h100.8, image: x}\\n"
    planned = _run(f"weft pod plan --offline --site SMALL -f <(printf '{order}')")
    assert planned.returncode == 0 and "Plan of pod a" in planned.stdout, planned.stderr
