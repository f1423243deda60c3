"""The program: arguments, documents, exit codes, the commands that it runs, and its single file."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.helpers.paths import ROOT
from tests.weftcheck.machines import Rig
from weft import __version__
from weftcheck import VERSION, cli, host
from weftcheck.catalog import CODES
from weftcheck.checks import GROUPS
from weftcheck.expected import MEMBERS, Expected, ExpectedError, parse
from weftcheck.host import MissingError, Output, UnreadableError
from weftlab.hostfolder import GPUS

SOURCE = ROOT / "src" / "weftcheck"


def _main(rig: Rig, *arguments: str) -> int:
    return cli.main(arguments, rig.root, rig.run)


def test_exit_code_says_ok_failed_or_unknown(rig: Rig, capsys: pytest.CaptureFixture[str]) -> None:
    """Failed comes before unknown; a run that judged nothing is unknown."""
    assert _main(rig) == 0
    assert " 0 failed, 0 unknown, " in capsys.readouterr().out
    assert _main(rig, "--check", "MODULE") == 3
    del rig.commands["nvidia-smi -q -x"]
    assert _main(rig) == 3
    (rig.port(0) / "state").write_text("1: DOWN")
    assert _main(rig) == 1
    shown = capsys.readouterr().out
    assert "FAILED  PORT_STATE        mlx5_0/1: down, physically linkup\n" in shown
    assert f"read from /sys/class/infiniband/mlx5_0/ports/1\n        {CODES['PORT_STATE'].cost}" in shown


def test_json_document_names_host_time_and_results(
    rig: Rig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A failed result says what it costs and how to mend it; a host's value that can't be read is null."""
    file = tmp_path / "expected.json"
    file.write_text('{"version": 1, "gpus": 8}')
    assert _main(rig, "--json", "--expect", str(file)) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["version"], found["program"], found["status"]) == (1, f"weft-check {VERSION}", "failed")
    assert found["host"]["hostname"] == "gpu1" and found["host"]["serial"] is None
    assert found["when"].endswith("+00:00") and found["expected"].startswith("sha256:")
    assert {result["code"] for result in found["results"]} == set(CODES)
    [failed] = [r for r in found["results"] if r["status"] == "failed"]
    assert failed == {
        "code": "GPU_COUNT",
        "subject": "host",
        "status": "failed",
        "reason": "2, expected 8",
        "source": "/sys/bus/pci/devices",
        "found": "2",
        "expected": "8",
        "cost": CODES["GPU_COUNT"].cost,
        "mend": CODES["GPU_COUNT"].mend,
    }


def test_skipped_result_says_whether_a_value_was_expected(
    rig: Rig, capsys: pytest.CaptureFixture[str]
) -> None:
    """weft ends an earlier failure if no value was expected, and not if a guest has the GPU. No other result has the
    member.
    """
    driver = rig.root / "sys/bus/pci/drivers/vfio-pci"
    driver.mkdir(parents=True)
    for address in GPUS:
        (rig.device(address) / "driver").symlink_to(driver)
    _main(rig, "--json")
    results = json.loads(capsys.readouterr().out)["results"]
    said = {(r["code"], r["status"]): r.get("nothing_expected") for r in results}
    assert said["MODULE", "skipped"] is said["PORT_RATE", "skipped"] is True
    assert said["GPU_STATE", "skipped"] is False
    assert {v for (_, status), v in said.items() if status != "skipped"} == {None}


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        ("[]", "isn't a JSON object"),
        ("{", "isn't JSON: "),
        ("[" * 100000, "isn't JSON: "),
        ("{}", "version is None; allowed is 1"),
        ('{"version": 2}', "version is 2; allowed is 1"),
        ('{"version": 1, "gpu": 8}', "'gpu' isn't a member; allowed are gpus, hcas, "),
        ('{"version": 1, "gpus": 8, "gpus": 4}', "member 'gpus' is there twice"),
        ('{"version": 1, "gpus": "8"}', 'gpus is "8"; allowed: a whole number from 0'),
        ('{"version": 1, "gpus": true}', "gpus is true; allowed: a whole number from 0"),
        ('{"version": 1, "gpus": -1}', "gpus is -1; allowed: a whole number from 0"),
        ('{"version": 1, "rate": NaN}', "rate is NaN; allowed: a number above 0"),
        ('{"version": 1, "ats": "on"}', 'ats is "on"; allowed: true or false'),
        ('{"version": 1, "distance": "far"}', 'distance is "far"; allowed: PIX, PXB, PHB, NODE or SYS'),
        (
            '{"version": 1, "max_payload": 300}',
            "max_payload is 300; allowed: 128, 256, 512, 1024, 2048 or 4096",
        ),
        ('{"version": 1, "hca_link": "x16"}', "hca_link is \"x16\"; allowed: a link such as '32 GT/s x16'"),
        ('{"version": 1, "modules": "x"}', 'modules is "x"; allowed: a list of at most 1024 words'),
        ('{"version": 1, "pkeys": ["0x8000"]}', 'pkeys is ["0x8000"]; allowed: keys such as "0x8101"'),
        ('{"version": 1, "pkeys": [{"key": "0x8101", "at": 1}]}', "pkeys is "),
        (
            '{"version": 1, "firmware": {"x": "1"}}',
            'firmware is {"x": "1"}; allowed: names as mstconfig prints',
        ),
        ('{"version": 1, "parameters": {"x": "1"}}', 'parameters is {"x": "1"}; allowed: names such as'),
    ],
)
def test_invalid_expected_document_is_refused_in_one_sentence(
    rig: Rig, tmp_path: Path, capsys: pytest.CaptureFixture[str], document: str, sentence: str
) -> None:
    """Exit code 2, and no command is run."""
    file = tmp_path / "expected.json"
    file.write_text(document)
    assert _main(rig, "--expect", str(file)) == 2
    out, error = capsys.readouterr()
    assert error.startswith(f"weft-check: {file}: ") and sentence in error
    assert (error.count("\n"), out, rig.asked) == (1, "", [])


def test_other_invalid_arguments_are_refused_in_one_sentence(
    rig: Rig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A missing file, a directory, a file that is too long, an unknown code."""
    long = tmp_path / "long"
    long.write_bytes(b" " * (1024 * 1024 + 1))
    for arguments in (
        ("--expect", str(tmp_path / "none")),
        ("--expect", str(tmp_path)),
        ("--expect", str(long)),
        ("--check", "GPU"),
    ):
        assert _main(rig, *arguments) == 2
        assert capsys.readouterr().err.count("\n") == 1


def test_members_have_readable_examples_and_codes_name_existing_members() -> None:
    """Every code is checked by one group."""
    document = ", ".join(f'"{name}": {member.example}' for name, member in MEMBERS.items())
    assert parse(f'{{"version": 1, {document}}}'.encode()) != Expected()
    named = {name.strip() for entry in CODES.values() for name in entry.member.split(",") if name}
    assert named == set(MEMBERS)
    assert [code for codes, _ in GROUPS for code in codes] == list(CODES)
    with pytest.raises(ExpectedError, match="isn't JSON"):
        parse(b"\xff")


def test_check_that_raises_is_unknown_and_the_others_still_run(rig: Rig) -> None:
    rig.commands["nvidia-smi -q -x"] = None  # pyright: ignore[reportArgumentType]

    def broken(command: tuple[str, ...], timeout: float) -> Output:
        raise ZeroDivisionError("x")

    rig.run = broken  # type: ignore[method-assign]
    found = rig.look()
    assert found.one("CLOCK").reason == "the check itself failed: ZeroDivisionError: x"
    assert found.one("PCI_DEVICE", GPUS[0]).status.value == "ok"


def test_control_characters_of_a_machine_do_not_reach_the_terminal(
    rig: Rig, capsys: pytest.CaptureFixture[str]
) -> None:
    """The machine's texts are printed without control characters, and cut when they are long."""
    (rig.port(0) / "state").write_text("4: \x1b[2J" + "x" * 5000)
    assert _main(rig) == 1
    shown = capsys.readouterr().out
    assert "\x1b" not in shown and "x" * 600 not in shown


def test_hanging_command_is_ended_with_its_children(tmp_path: Path) -> None:
    """Within the time limit, even if it ignores signals or leaves a child with its output open."""
    start = time.monotonic()
    with pytest.raises(UnreadableError, match=r"ended after 0\.3 s without an answer"):
        host.run(("sh", "-c", "trap '' TERM; sleep 60 & sleep 60"), 0.3)
    assert time.monotonic() - start < 20
    with pytest.raises(UnreadableError, match="without an answer"):
        host.run(("sh", "-c", f"(echo $$ > {tmp_path}/group; sleep 61) & exit 0"), 0.5)
    group = int((tmp_path / "group").read_text())
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            break
        time.sleep(0.05)
    else:
        pytest.fail("a child outlives its command")


def test_endless_output_is_cut_and_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "OUTPUT_LIMIT", 100_000)
    done = host.run(("sh", "-c", "yes"), 30)
    assert done.cut and len(done.text) == 100_000


def test_commands_run_in_locale_c_and_from_system_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller's language and PATH have no effect."""
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\necho planted\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    done = host.run(("sh", "-c", "echo $LC_ALL; echo $PATH; cat; echo wrong >&2; exit 3"), 30)
    assert done.text.startswith("C\n/usr/local/sbin:") and str(tmp_path) not in done.text
    assert (done.code, done.error) == (3, "wrong\n")
    with pytest.raises(MissingError, match="the program weft-no-such-program isn't installed"):
        host.run(("weft-no-such-program",), 30)


def test_link_out_of_the_root_is_not_followed(tmp_path: Path) -> None:
    """What is read from a recorded tree must not be the reading machine's."""
    (tmp_path / "link").symlink_to("/etc")
    with pytest.raises(UnreadableError, match="is a link to outside of the root folder"):
        host.Host(tmp_path).target("link")


def test_source_is_python_3_9_and_imports_the_standard_library_alone() -> None:
    """It runs on hosts that have nothing else."""
    for file in SOURCE.glob("*.py"):
        tree = ast.parse(file.read_text(), feature_version=(3, 9))
        names = {
            name.partition(".")[0]
            for node in ast.walk(tree)
            for name in (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else []
            )
        }
        assert names <= sys.stdlib_module_names | {"weftcheck"}, file
    assert __version__ == VERSION


def test_one_file_has_the_whole_program(tmp_path: Path) -> None:
    """The file that `make weft-check` makes runs without any package and without the sources."""
    target = tmp_path / "weft-check"
    made = [sys.executable, str(ROOT / "tools" / "onefile.py"), str(target)]
    subprocess.run(made, check=True, timeout=60)
    run = [sys.executable, "-I", "-S", str(target), "--list"]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True)
    assert [line.split()[0] for line in done.stdout.splitlines()] == list(CODES)
    assert (
        subprocess.run([*run[:-1], "--check", "X"], capture_output=True, timeout=60, check=False).returncode
        == 2
    )
    assert target.stat().st_mode & 0o111 and target.read_bytes().startswith(b"#!/usr/bin/env python3\n")


def test_json_document_names_gpus_by_serial_number_or_uuid(
    rig: Rig, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without readable output no GPU is among the parts."""
    command = "nvidia-smi -q -x"
    printed = rig.commands[command]
    assert isinstance(printed, Output)
    text = printed.text
    first = text.index(">", text.index("<gpu ")) + 1
    numbered = f"{text[:first]}<serial>1650424000123</serial><uuid>GPU-1</uuid>{text[first:]}"
    rig.commands[command] = printed._replace(text=numbered)
    _main(rig, "--json")
    (gpu,) = [one for one in json.loads(capsys.readouterr().out)["parts"] if one["kind"] == "gpu"]
    assert gpu["serial"] == "1650424000123" and gpu["place"].startswith("0000:")
    rig.commands[command] = printed._replace(text=numbered.replace("1650424000123", "N/A"))
    _main(rig, "--json")
    assert '"GPU-1"' in capsys.readouterr().out
    del rig.commands[command]
    assert _main(rig, "--json") == 3
    assert not [one for one in json.loads(capsys.readouterr().out)["parts"] if one["kind"] == "gpu"]
