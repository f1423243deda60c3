"""The programs as processes: start, serve, SIGKILL, restart."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import entry_points
from pathlib import Path

import grpc
import pytest

from openvipu import server_main
from openvipu.agent import main as agent_main
from openvipu.proto import admin_pb2, admin_pb2_grpc, vipuuser_pb2_grpc
from openvipu.proto import vipuuser_pb2 as pb
from openvipu.rpc import channel
from openvipu.sim import main as sim_main
from openvipu.sim.pod import PodConfig, SimulatedPod
from tests.helpers import forks
from tests.helpers.amounts import examples, seeded
from tests.openvipu.vipuhouse import LONGEST_WAIT, POD4, POD16, controlling, new_config, until

BIN = Path(sys.executable).parent


class Program:
    """A running program, forked (`tests.helpers.forks`)."""

    def __init__(self, folder: Path, name: str, arguments: Sequence[str]) -> None:
        self._out, self._err = folder / "out", folder / "err"
        self.process = forks.start(name, arguments, os.environ, Path.cwd(), self._out, self._err)

    def first_line(self) -> str:
        """The line that it prints when it is ready."""

        def ready() -> bool:
            said = self._out.read_text() if self._out.exists() else ""
            return "\n" in said or self.process.exitcode is not None

        until(ready, self._said)
        line = self._out.read_text().strip()
        assert line, self._said()
        return line

    def _said(self) -> str:
        return self._err.read_text() if self._err.exists() else "nothing"

    def kill(self) -> None:
        self.process.kill()

    def ended(self) -> int | None:
        """Its exit status after SIGTERM."""
        self.process.terminate()
        self.process.join(LONGEST_WAIT)
        return self.process.exitcode


@contextmanager
def program(name: str, *arguments: str) -> Generator[tuple[Program, str]]:
    """A running program, and the line that it prints when it is ready."""
    with tempfile.TemporaryDirectory() as folder:
        running = Program(Path(folder), name, arguments)
        try:
            yield running, running.first_line()
        finally:
            running.ended()
            running.kill()


def run(
    name: str, *arguments: str, env: Mapping[str, str] = os.environ, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end; its exit status and output."""
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder, "out"), Path(folder, "err")
        code = forks.run(name, arguments, env, cwd or Path.cwd(), out, err, LONGEST_WAIT)
        assert code is not None, f"{name} {arguments} doesn't end"
        return subprocess.CompletedProcess([name, *arguments], code, out.read_text(), err.read_text())


def server(state: Path, *more: str) -> tuple[str, ...]:
    addresses = (
        "--user-address",
        "127.0.0.1:0",
        "--admin-address",
        "127.0.0.1:0",
        "--metrics-address",
        "127.0.0.1:0",
    )
    return ("openvipu-server", "--state", str(state), *addresses, "--reset-backoff", "0.01", *more)


def ports(line: str) -> tuple[str, str]:
    """(user, admin) from 'user API on port U, admin API on port A'."""
    words = line.replace(",", "").split()
    return words[4], words[9]


def test_programs_work_from_start_to_removal(tmp_path: Path) -> None:
    """sim, --init --secure, server, vipu-admin and vipu as an operator types them; SIGTERM ends with status 0."""
    env = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    state = tmp_path / "state"
    made = run("openvipu-server", "--state", str(state), "--init", "--secure")
    assert made.returncode == 0, made.stderr
    key = made.stdout.split("Access key is '")[1].split("'")[0]
    assert stat.S_IMODE(state.stat().st_mode) == 0o600
    agents = tmp_path / "agents"
    sim = (
        "openvipu-sim",
        "--pod",
        "16",
        "--port",
        "0",
        "--control",
        "127.0.0.1:0",
        "--agents-file",
        str(agents),
    )
    with program(*sim) as (_, said), program(*server(state)) as (process, line):
        user_port, admin_port = ports(line)
        control = f"127.0.0.1:{said.split()[-1]}"
        admin = ("-P", admin_port, "--api-user-id", "admin", "--api-access-key", key)

        def do(*arguments: str) -> str:
            done = run("vipu-admin", *admin, *arguments, env=env, cwd=tmp_path)
            assert done.returncode == 0, done.stderr
            return done.stdout

        names = []
        for entry in agents.read_text().splitlines():
            name, host, port = entry.split()
            do("create", "agent", name, "--host", host, "--port", port)
            names.append(name)
        do("create", "cluster", "c16", "--agents", ",".join(names))
        do("create", "allocation", "a", "--size", "8")
        do("create", "user", "alice", "--allocations", "a")
        config = tmp_path / "alice.vipu-cli.hcl"
        assert stat.S_IMODE(config.stat().st_mode) == 0o600
        mine = ("--config", str(config), "-P", user_port)
        done = run("vipu", *mine, "create", "partition", "p", "--size", "8", env=env, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert (tmp_path / ".ipuof.conf.d" / "p_gcd0_ipuof.conf").exists()
        probe = run("openvipu-sim", "--control", control, "probe", "ipum1:0", "ipum2:3")
        assert (probe.returncode, probe.stdout.split()[0]) == (0, "delivered")
        probe = run("openvipu-sim", "--control", control, "probe", "ipum1:0", "ipum3:3")
        assert (probe.returncode, probe.stdout) == (1, "blocked\n")
        assert run("openvipu-sim", "--control", control, "plant", "dead-ipu", "ipum4", "2").returncode == 0
        assert run("openvipu-sim", "--control", control, "faults").stdout == "dead-ipu ipum4 2\n"
        assert run("openvipu-sim", "--control", control, "heal").returncode == 0
        assert run("openvipu-sim", "--control", control, "faults").stdout == ""
        assert run("vipu", "-P", user_port, "list", "partitions", env=env, cwd=tmp_path).returncode == 1
        assert process.ended() == 0


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("openvipu-server", "--state", "none"), "doesn't exist; make it with --init"),
        (("openvipu-server", "--state", "none", "--user-address", "x"), "address 'x' is not HOST:PORT"),
        (("openvipu-server", "--secure"), "--secure goes with --init"),
        (("openvipu-server", "--poll-interval", "0"), "--poll-interval must be more than 0"),
        (("openvipu-server", "--poll-interval", "nan"), "--poll-interval must be more than 0"),
        (("openvipu-server", "--tls", "nowhere", "--state", "good"), "ca.crt can't be read"),
        (("openvipu-server", "--state", "good", "--init"), "exists already"),
        (
            ("openvipu-server", "--state", "good", "--admin-address", "0.0.0.0:0"),
            "can be reached from outside without a key",
        ),
        (("openvipu-server", "--state", "good", "-a", "x y"), "interface 'x y' is not a host name"),
        (("openvipu-server", "--state", "good", "-a", "lo:0,192.0.2.1"), "192.0.2.1 can't be listened for"),
        (("openvipu-server", "--what"), "unrecognized arguments: --what"),
        (("openvipu-sim", "--pod", "5"), "pod 5 is not allowed; use 4, 16, 64, 128 or 256"),
        (("openvipu-sim", "--base", "here"), "base 'here' is not an IP address"),
        (("openvipu-sim", "--control", "127.0.0.1:1", "faults"), "openvipu-sim: "),
        (("openvipu-sim", "--control", "127.0.0.1:1", "probe", "a", "b"), "'a' is not MACHINE:IPU"),
        (
            ("openvipu-agent", "--hardware", "nothing:here", "--state", "s"),
            "hardware 'nothing:here' can't be loaded",
        ),
        (
            ("openvipu-agent", "--hardware", "json:loads", "--state", "s"),
            "hardware 'json:loads' can't be loaded",
        ),
        (("openvipu-agent", "--hardware", "a:real_one"), "--state is required with --hardware"),
        (("openvipu-agent", "--name", "a b"), "name 'a b' is not allowed"),
        (("openvipu-agent", "--controller-key-file", "none"), "key file none can't be read"),
    ],
)
def test_invalid_start_is_refused_in_one_sentence(
    tmp_path: Path,
    command: tuple[str, ...],
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Exit status 2, or 1 if the other side refuses; one line on stderr, no traceback."""
    monkeypatch.chdir(tmp_path)
    assert server_main.main(["--state", "good", "--init"]) == 0
    mains = {"openvipu-server": server_main, "openvipu-agent": agent_main, "openvipu-sim": sim_main}
    try:
        status = mains[command[0]].main(list(command[1:]))
    except SystemExit as stop:
        status = int(stop.code or 0)
    said = capsys.readouterr().err
    assert status in (1, 2)
    assert words in said
    assert len(said.splitlines()) == 1


def test_taken_port_is_reported(tmp_path: Path) -> None:
    """The second controller on a port is refused in a sentence that names the address."""
    with SimulatedPod(PodConfig(POD4, port=0)) as pod, controlling(pod, new_config(tmp_path)) as controller:
        run("openvipu-server", "--state", str(tmp_path / "s"), "--init")
        address = f"127.0.0.1:{controller.server.user_port}"
        done = run(
            "openvipu-server", "--state", str(tmp_path / "s"), "--user-address", address, "--no-metrics"
        )
        assert (done.returncode, f"address {address} can't be listened on" in done.stderr) == (2, True)


def test_agent_serves_one_machine_and_remembers_its_controller(tmp_path: Path) -> None:
    binding = tmp_path / "binding"
    agent = (
        "openvipu-agent",
        "--address",
        "127.0.0.1:0",
        "--no-exporter",
        "--state",
        str(binding),
        "--name",
        "gw1",
    )
    with SimulatedPod(PodConfig(POD4, port=0)) as pod, controlling(pod, new_config(tmp_path)) as controller:
        for _ in range(2):
            with program(*agent) as (_, line):
                spec = admin_pb2.AgentSpec(host="127.0.0.1", port=int(line.split()[-1]))
                reply = controller.admin.CreateAgent(admin_pb2.CreateAgentRequest(id="gw1", spec=spec))
                assert reply.agent.status.product == "IPU-M2000"
                assert json.loads(binding.read_text())["controller_id"] == "controller-a"
            controller.admin.RemoveAgent(admin_pb2.RemoveAgentRequest(id="gw1", force=True))


def test_sigkill_of_a_busy_server_loses_nothing(tmp_path: Path) -> None:
    """Killed at random moments under load: every acknowledged create is there, every acknowledged remove is gone."""
    dice = seeded(7)
    state = tmp_path / "state"
    run("openvipu-server", "--state", str(state), "--init")
    with SimulatedPod(PodConfig(POD16, port=0)) as pod:
        with program(*server(state)) as (_, line):
            _fill(pod, ports(line)[1])
        expected: set[str] = set()
        for life in range(examples(4)):
            with program(*server(state)) as (process, line):
                acknowledged = _load(ports(line)[0], life, process, dice.uniform(0.05, 0.5))
            expected = (expected | acknowledged["created"]) - acknowledged["removed"]
            with program(*server(state)) as (_, line):
                found = _settled(ports(line)[0])
                maybe = acknowledged["maybe"]
                assert expected - maybe <= found <= expected | maybe, (expected, found, maybe)
                expected = found
                on_machines = {
                    setting.partition_id
                    for agent in pod.agents.values()
                    for setting in agent.machine.status().settings
                }
                assert on_machines == found


def _fill(pod: SimulatedPod, port: str) -> None:
    with channel(f"127.0.0.1:{port}") as link:
        admin = admin_pb2_grpc.AdminServiceStub(link)
        for name, agent in pod.agents.items():
            spec = admin_pb2.AgentSpec(host=agent.host, port=agent.port)
            admin.CreateAgent(admin_pb2.CreateAgentRequest(id=name, spec=spec))
        spec = admin_pb2.ClusterSpec(num_ipulink_domains=1, agent_ids=list(pod.agents))
        admin.CreateCluster(admin_pb2.CreateClusterRequest(id="c", spec=spec))


def _load(port: str, life: int, process: Program, seconds: float) -> dict[str, set[str]]:
    """Four clients create and remove until the server is killed: names by outcome; "maybe" if it wasn't answered."""
    outcomes: dict[str, set[str]] = {"created": set(), "removed": set(), "maybe": set()}

    def client(number: int) -> None:
        with channel(f"127.0.0.1:{port}") as link:
            users = vipuuser_pb2_grpc.UserServiceStub(link)
            for turn in range(10_000):
                id_ = f"p{life}-{number}-{turn}"
                outcomes["maybe"].add(id_)
                try:
                    wanted = pb.PartitionRequirements(id=id_, size=1)
                    users.CreatePartition(pb.CreatePartitionRequest(requirements=wanted), timeout=20)
                    outcomes["created"].add(id_)
                    if turn % 3:
                        users.RemovePartition(pb.RemovePartitionRequest(partition_id=id_), timeout=20)
                        outcomes["removed"].add(id_)
                    outcomes["maybe"].discard(id_)
                except grpc.RpcError as error:
                    assert isinstance(error, grpc.Call)
                    if error.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED:
                        return
                    outcomes["maybe"].discard(id_)

    threads = [threading.Thread(target=client, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    time.sleep(seconds)
    process.kill()
    for thread in threads:
        thread.join()
    return outcomes


def _settled(port: str) -> set[str]:
    with channel(f"127.0.0.1:{port}") as link:
        users = vipuuser_pb2_grpc.UserServiceStub(link)

        def states() -> set[tuple[int, int]]:
            found: set[tuple[int, int]] = set()
            for entry in users.ListPartitions(pb.ListPartitionsRequest()).partitions:
                try:
                    status = users.GetPartitionStatus(
                        pb.GetPartitionStatusRequest(partition_id=entry.id)
                    ).status
                except grpc.RpcError:
                    continue
                found.add((status.ready_state, status.operation_state))
            return found

        until(lambda: states() <= {(pb.PS_ACTIVE, pb.POS_IDLE)})
        return {entry.id for entry in users.ListPartitions(pb.ListPartitionsRequest()).partitions}


def test_simulator_serves_in_a_network_namespace(tmp_path: Path) -> None:
    """With openvipu-sim --netns only that namespace reaches the agents' addresses."""
    name = f"vipu-test-{os.getpid()}"
    try:
        with program(
            "openvipu-sim",
            "--pod",
            "4",
            "--netns",
            name,
            "--base",
            "10.2.0.0",
            "--control",
            "127.0.0.1:18092",
        ):
            inside = [
                "ip",
                "netns",
                "exec",
                name,
                str(BIN / "openvipu-sim"),
                "--control",
                "127.0.0.1:18092",
                "faults",
            ]
            done = subprocess.run(inside, capture_output=True, text=True, timeout=LONGEST_WAIT, check=False)
            assert done.returncode == 0, done.stderr
            sockets = ["ip", "netns", "exec", name, "cat", "/proc/net/tcp", "/proc/net/tcp6"]
            listening = subprocess.run(sockets, capture_output=True, text=True, check=True).stdout
            assert "0100020A:1F90" in listening  # 10.2.0.1:8080
    finally:
        subprocess.run(["ip", "netns", "delete", name], check=True, capture_output=True)


def test_forked_programs_are_the_installed_ones() -> None:
    """What the tests fork is the function of the installed program."""
    installed = {p.name: p.value for p in entry_points(group="console_scripts")}
    assert {name: installed.get(name) for name in forks.PROGRAMS} == forks.PROGRAMS
