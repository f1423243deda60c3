"""``vipu`` and ``vipu-admin``: the output that scripts read, byte by byte."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from openvipu.clients.main import vipu, vipu_admin
from openvipu.hardware.fabric import Fault
from openvipu.sim.pod import PodConfig, SimulatedPod
from tests.openvipu.vipuhouse import POD64, Controller, controlling, house, new_config

GOLDEN = Path(__file__).with_name("golden")


@dataclass
class Shell:
    """Runs command lines in this process and keeps the transcript."""

    controller: Controller
    capsys: pytest.CaptureFixture[str]
    transcript: list[str] = field(default_factory=list)

    def __call__(self, line: str) -> tuple[int, str, str]:
        """Exit status, stdout and stderr of a command."""
        program, *arguments = shlex.split(line)
        run = {"vipu": vipu, "vipu-admin": vipu_admin}[program]
        server = self.controller.server
        port = server.admin_port if program == "vipu-admin" else server.user_port
        self.capsys.readouterr()
        try:
            status = run(["-P", str(port), *arguments])
        except SystemExit as stop:
            status = int(stop.code or 0)
        out, err = self.capsys.readouterr()
        words = f"$ {line}\n{out}" + "".join(f"! {text}\n" for text in err.splitlines())
        self.transcript.append(words + (f"[exit {status}]\n" if status else ""))
        return status, out, err

    def compare(self, name: str) -> None:
        """Check the transcript against the golden file; WRITE_GOLDEN=1 writes the file."""
        text = "".join(self.transcript)
        for agent in self.controller.pod.agents.values():
            text = text.replace(str(agent.port), "PORT_")
        text = text.replace(str(self.controller.server.user_port), "8090")
        text = re.sub(r"\d+\.\d\ds", "0.00s", text)
        text = re.sub(r"Access key is '[^']+'", "Access key is 'KEY'", text)
        path = GOLDEN / name
        if os.environ.get("WRITE_GOLDEN"):
            path.write_text(text)
        assert text == path.read_text()


@pytest.fixture
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home and working directory, and no settings from the environment."""
    home = tmp_path / "home"
    home.mkdir()
    for name in [name for name in os.environ if name.startswith("VIPU_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(home)
    return home


@pytest.fixture
def shell64(tmp_path: Path, at_home: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Shell]:
    """A POD64 whose agents aren't added yet."""
    with (
        SimulatedPod(PodConfig(POD64, port=0, prefix="lr75-ipum")) as pod,
        controlling(pod, new_config(tmp_path)) as controller,
    ):
        yield Shell(controller, capsys)


@pytest.fixture
def shell16(tmp_path: Path, at_home: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Shell]:
    """A POD16 as the cluster ``c``."""
    with house(tmp_path) as controller:
        yield Shell(controller, capsys)


def test_administrators_session_matches_the_golden_file(shell64: Shell) -> None:
    """From agents to a partition of 64 IPUs and back."""
    agents = list(shell64.controller.pod.agents)
    for name in agents[:2]:
        agent = shell64.controller.pod.agents[name]
        shell64(f"vipu-admin create agent {name} --host {agent.host} --port {agent.port}")
    shell64.controller.add_agents(*agents[2:])
    shell64("vipu-admin list agents")
    shell64("vipu-admin get agent lr75-ipum1")
    names = ",".join(agents)
    shell64(f"vipu-admin create cluster c64_1-16 --topology torus --agents {names}")
    shell64("vipu-admin list clusters")
    shell64("vipu-admin test cluster c64_1-16")
    shell64("vipu-admin create allocation a16 --size 16 --options")
    shell64("vipu-admin create allocation a16 --size 16")
    shell64("vipu-admin create allocation a64 --size 64")
    shell64("vipu-admin get allocation a16")
    shell64("vipu-admin create user alice --allocations a16")
    shell64("vipu-admin list users")
    shell64("vipu-admin remove allocation a16")
    shell64("vipu-admin list users")
    shell64(
        "vipu-admin create partition p64 --size 64 --cluster c64_1-16 --num-gcds 4 "
        "--gcd-sync-replicas 16 --routing ringswnc"
    )
    shell64("vipu-admin list partitions")
    shell64("vipu-admin get agent lr75-ipum16")
    shell64("vipu-admin remove cluster c64_1-16")
    shell64("vipu-admin remove partition p64")
    shell64("vipu-admin list partition")
    shell64("vipu-admin remove cluster c64_1-16")
    shell64("vipu-admin remove agent lr75-ipum1")
    shell64("vipu-admin discover agent")
    shell64.compare("administrator.txt")


def test_users_session_matches_the_golden_file(shell16: Shell, at_home: Path) -> None:
    """A user's day: look, create, read the configuration, reset, remove."""
    shell16.controller.add_allocation("alloc-1", 8)
    shell16("vipu --server-version")
    shell16("vipu list allocations")
    shell16("vipu list ipu-attrs ipum1")
    shell16("vipu create partition p4 --size 4 --allocation alloc-1 --options")
    shell16("vipu create partition p4 --size 4 --allocation alloc-1 --reconfigurable --index 1")
    shell16("vipu create partition p2 --size 2 --num-gcds 2")
    shell16("vipu list partitions")
    shell16("vipu get partition p4")
    shell16("vipu get partition p4 --gcd 0 --ipuof-configs")
    shell16("vipu get partition p2 --ipuof-configs")
    shell16("vipu get partition p2 --showjson")
    shell16("vipu reset partition p4")
    shell16("vipu remove partitions p4")
    shell16("vipu remove partition p2 --showjson")
    shell16("vipu list partitions --showjson")
    shell16.compare("user.txt")


def test_common_mistakes_match_the_golden_file(shell16: Shell) -> None:
    """Exit status and stderr of each; no traceback."""
    shell16.controller.pod.plant(Fault("bad-cable", "ipum3", "up0"))
    shell16.controller.add_allocation("a", 4)
    for line in [
        "vipu create partition p --size 3",
        "vipu create partition p --size four",
        "vipu create partition p --size 4 --routing fast",
        "vipu create partition p --size 4 --index 9",
        "vipu create partition p --size 8 --allocation a",
        "vipu create partition p --size 8 --disable-auto-reset",
        "vipu list partitions",
        "vipu get partition p",
        "vipu reset partition p",
        "vipu remove partition p",
        "vipu create partition p --size 16",
        "vipu remove partition p",
        "vipu get partition p",
        "vipu remove partition p",
        "vipu get partition p --gcd 0 --ipuof-configs",
        "vipu list partitions --allocation x",
        "vipu create partition p --size 2 --allocation x",
        "vipu-admin create allocation b --size 64",
        "vipu-admin create allocation b",
        "vipu-admin create cluster d --agents ipum1,ipum2 --topology ring",
        "vipu-admin create agent x --host 127.0.0.1 --port 99999",
        "vipu-admin test cluster c --test Cabling --test Traffic",
        "vipu-admin test cluster x",
        "vipu-admin remove user bob",
        "vipu --config nowhere.hcl list partitions",
        "vipu -P 1 list partitions",
    ]:
        status, _, err = shell16(line)
        assert "Traceback" not in err
        assert status in (0, 1, 2)
    text = "".join(shell16.transcript)
    shell16.transcript = [re.sub(r"can't be reached: .*", "can't be reached: …", text)]
    shell16.compare("mistakes.txt")


def test_output_that_clients_parse_is_unchanged(shell64: Shell) -> None:
    """The lines as published: success, access key, patience, no free allocation, the table, the host."""
    shell64.controller.add_agents()
    agents = ",".join(shell64.controller.pod.agents)
    assert shell64(f"vipu-admin create cluster c64_1-16 --topology torus --agents {agents}")[1] == (
        "create cluster (c64_1-16): success.\n"
    )
    out = shell64("vipu-admin create user alice")[1]
    assert re.match(r"create user \(alice\): success\. Access key is '[\w]+'\.\n", out)
    out = shell64("vipu-admin create partition p64 --size 64 --cluster c64_1-16")[1]
    assert out.startswith("Please be patient. This operation can take several seconds\n")
    assert out.endswith("create partition (p64): success.\n")
    rule = "-" * 79 + "\n"
    assert shell64("vipu list partitions")[1] == (
        " Partition | Cluster  | ILDs | GW Routing | ILD Routing | Size | GCDs | State\n"
        + rule
        + " p64       | c64_1-16 | 1    | DEFAULT    | RINGSWNC    | 64   | 1    | ACTIVE\n"
        + rule
    )
    status, _, err = shell64("vipu-admin create allocation x --size 64")
    assert status != 0
    assert "no free allocation" in err
    status, _, err = shell64("vipu create partition p64 --size 1")
    assert (status, err) == (1, "create partition (p64): failed: partition 'p64' exists already.\n")
    out = shell64("vipu-admin remove partition p64")[1]
    assert out.endswith("remove partition (p64): success.\n")
    version = shell64("vipu --server-version")[1]
    assert version.startswith("version: 1.18.0\n")
    found = re.search("host: (.*):", version)
    assert found
    assert found.group(1) == "localhost"


def test_json_output_has_the_public_structure(shell16: Shell) -> None:
    """Members that clients read: agent.spec.host, allocation.spec.agent_ids, allocations, partitions[].id."""
    shell16.controller.add_allocation("a", 8)
    shell16.controller.create_active("p", 4)
    agent = json.loads(shell16("vipu-admin get agent ipum1 --showjson")[1])["agent"]
    assert (agent["id"], agent["spec"]["host"]) == ("ipum1", shell16.controller.pod.agents["ipum1"].host)
    allocation = json.loads(shell16("vipu-admin --showjson get allocation a")[1])["allocation"]
    assert (allocation["id"], allocation["spec"]["agent_ids"]) == ("a", ["ipum1", "ipum2"])
    for program in ("vipu", "vipu-admin"):
        assert [
            entry["id"]
            for entry in json.loads(shell16(f"{program} list allocations --showjson")[1])["allocations"]
        ] == ["a"]
        assert [
            entry["id"]
            for entry in json.loads(shell16(f"{program} list partitions --showjson")[1])["partitions"]
        ] == ["p"]
    made = json.loads(shell16("vipu create partition q --size 1 --showjson")[1])
    assert made == {"partition_id": "q"}


def test_poplar_config_file_is_written_and_removed(shell16: Shell, at_home: Path) -> None:
    """One file for each GCD in ~/.ipuof.conf.d, with the text of --ipuof-configs; removed with the partition."""
    shell16("vipu create partition p --size 4 --num-gcds 2")
    folder = at_home / ".ipuof.conf.d"
    assert sorted(path.name for path in folder.iterdir()) == ["p_gcd0_ipuof.conf", "p_gcd1_ipuof.conf"]
    text = (folder / "p_gcd1_ipuof.conf").read_text()
    assert text == shell16("vipu get partition p --gcd 1 --ipuof-configs")[1]
    body = json.loads(text)
    assert body["attributes"]["GCD Id"] == "1"
    assert all(isinstance(value, str) for value in body["attributes"].values())
    assert [device["routing_id"] for device in body["devices"]] == [2, 3]
    without_gcd = shell16("vipu get partition p --ipuof-configs")[1].splitlines()
    assert without_gcd[0] == "IPUoF configuration of partition p, GCDs 0, 1:"
    shell16("vipu create partition single --size 1")
    tail = shell16("vipu get partition single --ipuof-configs")[1].partition("\n")[2]
    assert json.loads(tail)["attributes"]["Partition Id"] == "single"
    shell16("vipu remove partition p")
    assert [path.name for path in folder.iterdir()] == ["single_gcd0_ipuof.conf"]


def test_flags_override_environment_and_file(
    shell16: Shell, at_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The environment (VIPU_CLI_…) overrides vipu-cli.hcl."""
    port = shell16.controller.server.user_port
    (at_home / "vipu-cli.hcl").write_text(f'# the controller\napi-host="127.0.0.1"\napi-port="{port}"\n')
    assert vipu(["--server-version"]) == 0
    assert f"host: 127.0.0.1:{port}" in capsys.readouterr().out
    monkeypatch.setenv("VIPU_CLI_API_HOST", "localhost")
    assert vipu(["--server-version"]) == 0
    assert f"host: localhost:{port}" in capsys.readouterr().out
    assert vipu(["--server-version", "-H", "::ffff:127.0.0.1"]) == 0
    assert f"host: [::ffff:127.0.0.1]:{port}" in capsys.readouterr().out
    (at_home / "bad.hcl").write_text('api-host="127.0.0.1"\napi-port = {\n')
    assert vipu(["--config", "bad.hcl", "list", "partitions"]) == 2
    assert "bad.hcl, line 2: expected key=\"value\", found 'api-port = {'" in capsys.readouterr().err


def _complete(program: Callable[..., int], capsys: pytest.CaptureFixture[str], typed: str) -> list[str]:
    capsys.readouterr()
    assert program(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    name = "vipu" if program is vipu else "vipu-admin"
    words = [name, *typed.split(" ")]
    lines = [
        f"COMP_WORDS=({' '.join(shlex.quote(word) for word in words)}); COMP_CWORD={len(words) - 1}",
        "_" + name.replace("-", "_"),
        'printf "%s\\n" "${COMPREPLY[@]}"',
    ]
    shell = subprocess.run(
        ["bash"], input=script + "\n" + "\n".join(lines), text=True, capture_output=True, check=True
    )
    return shell.stdout.split()


def test_completion_works_in_a_real_bash(capsys: pytest.CaptureFixture[str]) -> None:
    """Verbs and nouns of both programs."""
    assert _complete(vipu, capsys, "cre") == ["create"]
    assert _complete(vipu_admin, capsys, "create a") == ["agent", "agents", "allocation", "allocations"]
    assert "--gcd-sync-replicas" in _complete(vipu, capsys, "create partition p --gcd-")
    assert "--ipuof-configs" in _complete(vipu, capsys, "get partition --ip")
    assert _complete(vipu, capsys, "create u") == []
