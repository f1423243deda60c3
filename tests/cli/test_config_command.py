"""`weft config check`, `show` and `example`, and what `weft serve` reports about an invalid file."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

from weft.cli.config import agents
from weft.cli.main import main
from weft.config.agents import read_section
from weft.config.resolve import resolve
from weft.config.table import SECTIONS
from weft.config.tomltext import read_toml
from weft.model.errors import InputErrors

CANARY = "canary7"
WRONG = f"""\
[weft]
wokers = 3
database = "mysql://weft:{CANARY}@db/weft"
[probe_agent]
name = "p"
listen = {{host = "h", port = 1}}
tls = {{ca = "c", certificate = "c", key = "k", clint = "{CANARY}"}}
"""


@pytest.fixture(autouse=True)
def variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WEFT_CONFIG", "WEFT_DATABASE", "WEFT_STATE", "CREDENTIALS_DIRECTORY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    path = tmp_path / "weft.toml"
    path.write_text(WRONG)
    return path


def test_check_reports_every_error_of_every_section(wrong: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A sentence for each, by line; exit code 2."""
    assert main(["config", "check", "--file", str(wrong)]) == 2
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert out == "" and CANARY not in err
    assert [line.partition(": ")[2].partition(": ")[0] for line in lines] == [
        f"{wrong}:2",
        f"{wrong}:3",
        f"{wrong}:7",
    ]
    assert "probe_agent.tls.clint: an unknown key is not allowed" in lines[2]
    assert lines[2].endswith("the nearest is clients")


def test_check_prints_errors_as_rows(wrong: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With `-f json`; the exit code is the same, and a valid file gives no rows."""
    assert main(["config", "check", "--file", str(wrong), "-f", "json"]) == 2
    rows = json.loads(capsys.readouterr().out)
    assert [(row["Place"], row["Setting"]) for row in rows] == [
        (f"{wrong}:2", "weft.wokers"),
        (f"{wrong}:3", "weft.database"),
        (f"{wrong}:7", "probe_agent.tls.clint"),
    ]
    assert rows[1]["Allowed"].startswith("a URL such as postgresql://")
    wrong.write_text("[weft]\n")
    assert main(["config", "check", "--file", str(wrong), "-f", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == []


def test_check_finds_the_file_as_the_processes_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file of WEFT_CONFIG, with values from the environment; no file at all is an error."""
    path = tmp_path / "weft.toml"
    path.write_text("[weft]\n")
    monkeypatch.setenv("WEFT_CONFIG", str(path))
    assert main(["config", "check"]) == 0
    assert capsys.readouterr().out == f"{path}: valid\n"
    monkeypatch.setenv("WEFT_DATABASE", f"mysql://{CANARY}")
    assert main(["config", "check"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("weft: WEFT_DATABASE: 'mysql' is not allowed") and CANARY not in said
    monkeypatch.setenv("WEFT_CONFIG", str(tmp_path / "nix"))
    assert main(["config", "check"]) == 2
    assert "WEFT_CONFIG: " in capsys.readouterr().err
    if not Path("/etc/weft/weft.toml").exists():
        monkeypatch.delenv("WEFT_CONFIG")
        assert main(["config", "check"]) == 2
        assert "--file: missing: a file to check" in capsys.readouterr().err


def test_show_lists_each_value_with_its_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Secrets are hidden; an agent's section is shown only if the file has it."""
    path = tmp_path / "weft.toml"
    path.write_text(
        f'[weft]\ndatabase = "postgresql://weft:{CANARY}@db/weft"\n[probe_agent]\nname = "p"\n'
        'listen = {host = "h", port = 1}\ntls = {ca = "c", certificate = "c", key = "k"}\n'
    )
    path.chmod(0o600)
    monkeypatch.setenv("WEFT_STATE", "/elsewhere")
    assert main(["config", "show", "--file", str(path), "-f", "json"]) == 0
    out = capsys.readouterr().out
    found = {row["Setting"]: (row["Value"], row["Source"]) for row in json.loads(out)}
    assert CANARY not in out and found["weft.database"] == ("***", f"{path}:2")
    assert found["weft.state"] == ("/elsewhere", "WEFT_STATE")
    assert found["weft.workers"] == ("8", "default") and found["serve.worker"] == ("true", "default")
    assert found["probe_agent.listen.port"] == ("1", f"{path}:5")
    assert found["probe_agent.tls.clients"] == ('["weft"]', "default")
    assert not any(name.startswith("fabric_agent") for name in found)
    path.write_text(WRONG)
    assert main(["config", "show", "--file", str(path)]) == 2


def test_example_without_its_comment_marks_is_a_valid_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As printed it sets nothing; with every setting enabled, the only errors are files that don't exist."""
    assert main(["config", "example"]) == 0
    text = capsys.readouterr().out
    assert tomllib.loads(text) == {"weft": {}, "serve": {}, "logs": {}}
    used = re.sub(r"^#(?! )", "", text, flags=re.MULTILINE)
    # Of two alternatives only one is allowed.
    used = re.sub(r"^(?:\w+_key_file|database_file|pid_command) = .*\n", "", used, flags=re.MULTILINE)
    path = tmp_path / "weft.toml"
    path.write_text(used)
    path.chmod(0o600)
    assert tomllib.loads(used).keys() == SECTIONS.keys()
    file = read_toml(path, "--config")
    with pytest.raises(InputErrors) as caught:
        resolve(file, {})
    assert {one.allowed for one in caught.value.errors} == {"an existing file"}
    for section, kind in agents().items():
        read_section(file, section, kind, {})


def test_process_with_an_invalid_file_ends_before_it_does_anything(
    wrong: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`weft serve` and `weft worker` report errors of their own sections, and unknown names, with exit code 2."""
    for name in ("serve", "worker"):
        assert main([name, "--config", str(wrong), "--state", str(wrong.parent / "state")]) == 2
        lines = capsys.readouterr().err.splitlines()
        assert len(lines) == 2 and all(line.startswith(f"weft: {wrong}:") for line in lines)
    assert not (wrong.parent / "state").exists()


def test_check_reads_the_policy_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each invalid rule with file and line, together with the errors of weft.toml."""
    file, policy = tmp_path / "weft.toml", tmp_path / "policy.yaml"
    file.write_text('[serve]\npolicy = "policy.yaml"\nlisten = "x"\n')
    policy.write_text(
        "# ours\npods:creat: '@'\npods:create: 'role:'\npods:list: '@'\npods:list: '!'\npods:show: 3\n"
    )
    assert main(["config", "check", "--file", str(file)]) == 2
    said = capsys.readouterr().err
    assert f"{policy}:5: pods:list: a second check" in said and f"{policy}:6: pods:show: 3" in said
    assert f"{file}:3: serve.listen" in said
    policy.write_text("# ours\npods:creat: '@'\npods:create: 'rule:operater'\n")
    assert main(["config", "check", "--file", str(file)]) == 2
    assert f"{policy}:2: pods:creat" in capsys.readouterr().err
    file.write_text('[serve]\npolicy = "policy.yaml"\n')
    policy.write_text("pods:create: role:member\n")
    assert main(["config", "check", "--file", str(file)]) == 0
