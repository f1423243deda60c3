"""Coverage-guided fuzzing of everything that reads text or bytes from outside.

``python tests/openvipu/fuzz_readers.py TARGET [libFuzzer options]``; TARGET is config, state, database, beacon,
binding, request or setting. Without ``-runs=N`` it runs until it finds something. A reader may raise its own
refusals; anything else is a finding. Each target starts from one valid input, since random bytes are neither JSON
nor a message and wouldn't get past the first check.
"""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["openvipu"]):
    from google.protobuf.message import DecodeError

    from openvipu.agent import beacon as beacons
    from openvipu.agent.binding import Binding
    from openvipu.clients.config import parse, user_file
    from openvipu.controller.discovery import read_beacon
    from openvipu.convert import setting_from_wire, setting_to_wire
    from openvipu.hardware.protocol import HardwareError
    from openvipu.hardware.simulated import build_pod, pod_plan
    from openvipu.model.codec import decode, encode
    from openvipu.model.errors import Refusal, StateError
    from openvipu.model.hardware import IpuSetting, Setting
    from openvipu.model.partition import GatewayRouting, Partition, PlacedIpu, Routing, Shape, SyncType
    from openvipu.model.state import Settings, State
    from openvipu.proto import agent_pb2, vipuuser_pb2
    from openvipu.rules.shape import check_requirements
    from openvipu.services.wire import requirements
    from openvipu.store import Store

FOLDER = tempfile.TemporaryDirectory()
FILE = Path(FOLDER.name) / "file"


@dataclass(frozen=True)
class Target:
    """A reader.

    Attributes:
        refusals: what it may raise.
        good: a valid input.
    """

    read: Callable[[bytes], None]
    refusals: tuple[type[Exception], ...]
    good: bytes


def config(data: bytes) -> None:
    """A configuration file of the command lines."""
    for key, value in parse(data.decode("utf-8", "replace"), "file").items():
        assert isinstance(key, str)
        assert isinstance(value, str)


def state(data: bytes) -> None:
    """One stored partition."""
    decode(Partition, json.loads(data), "p")


def database(data: bytes) -> None:
    """A whole state file: a good one with some bytes changed."""
    FILE.unlink(missing_ok=True)
    Store.create(FILE, Settings("c", "k"))
    whole = bytearray(FILE.read_bytes())
    for place in range(0, len(data) - 2, 3):
        whole[int.from_bytes(data[place : place + 2]) % len(whole)] = data[place + 2]
    FILE.write_bytes(whole)
    store = Store.open(FILE)
    store.close()
    assert store.state == State(Settings("c", "k"))


class NoBeaconError(Exception):
    """The datagram isn't a beacon and is ignored."""


def beacon(data: bytes) -> None:
    """A datagram on the discovery port."""
    found = read_beacon(data, "lo")
    if found is None:
        raise NoBeaconError
    assert found.host
    assert 1 <= found.port <= 65535


def binding(data: bytes) -> None:
    """An agent's file that names its owner."""
    FILE.write_bytes(data)
    Binding(FILE)


def request(data: bytes) -> None:
    """A create request from the wire."""
    check_requirements(requirements(vipuuser_pb2.CreatePartitionRequest.FromString(data)))


def setting(data: bytes) -> None:
    """A setting for a machine, from the wire."""
    _, (machine,) = build_pod(pod_plan(4), ["m"], ["127.0.0.1"])
    found = setting_from_wire(agent_pb2.Setting.FromString(data))
    machine.configure(found)
    machine.train(found.partition_id, found.generation)
    assert encode(machine.status())


def _partition() -> bytes:
    shape = Shape(2, 1, 1, 1, False, Routing.DNC, GatewayRouting.UNDEFINED, SyncType.GS2_DEFAULT)
    ipus = tuple(PlacedIpu("a1", number, 0, 0, number, number) for number in range(2))
    made = Partition("p", "c", "all", shape, ipus, 3, auto_reset=True, relocatable=False, errors=("one",))
    return json.dumps(encode(made)).encode()


def _owner() -> bytes:
    Binding(FILE).claim("controller-a", "key")
    return FILE.read_bytes()


def _request() -> bytes:
    wanted = vipuuser_pb2.PartitionRequirements(id="p", size=4, num_gcds=2, cluster_id="c", allocation_id="a")
    return vipuuser_pb2.CreatePartitionRequest(requirements=wanted, relocatable=True).SerializeToString()


def _setting() -> bytes:
    ipus = (IpuSetting(0, 0, 0), IpuSetting(1, 1, 0))
    return setting_to_wire(Setting("p", 1, ipus, (), ("serial",), 0, 0)).SerializeToString()


TARGETS: dict[str, Target] = {
    "config": Target(config, (Refusal,), user_file("127.0.0.1", "8090", "alice", r"a\"b").encode()),
    "state": Target(state, (StateError, ValueError, RecursionError), _partition()),
    "database": Target(database, (StateError,), b""),
    "beacon": Target(beacon, (NoBeaconError,), beacons.encode("127.0.0.1", 8080, "ipum1")),
    "binding": Target(binding, (StateError,), _owner()),
    "request": Target(request, (DecodeError, Refusal), _request()),
    "setting": Target(setting, (DecodeError, HardwareError), _setting()),
}


def main(name: str, *options: str) -> None:
    target, begin = TARGETS[name], Path(FOLDER.name) / "begin"
    target.read(target.good)
    begin.mkdir()
    (begin / "good").write_bytes(target.good)

    def tried(data: bytes) -> None:
        with contextlib.suppress(*target.refusals):
            target.read(data)

    atheris.Setup([sys.argv[0], *options, str(begin)], tried)
    atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:])
