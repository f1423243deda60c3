"""Coverage-guided fuzzing of everything that reads text or bytes from outside.

``python tests/openvipu/fuzz_readers.py TARGET [libFuzzer options]``; TARGET is config, state, database, beacon,
binding or wire. Without ``-runs=N`` it goes on until it finds something. Only the refusals that a reader
may answer with are caught; anything else is a finding.
"""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["openvipu"]):
    from google.protobuf.message import DecodeError

    from openvipu.agent.binding import Binding
    from openvipu.clients.config import parse
    from openvipu.controller.discovery import read_beacon
    from openvipu.convert import setting_from_wire
    from openvipu.hardware.protocol import HardwareError
    from openvipu.hardware.simulated import build_pod, pod_plan
    from openvipu.model.codec import decode, encode
    from openvipu.model.errors import Refusal, StateError
    from openvipu.model.partition import Partition
    from openvipu.model.state import Settings, State
    from openvipu.proto import agent_pb2, vipuuser_pb2
    from openvipu.rules.shape import check_requirements
    from openvipu.services.wire import requirements
    from openvipu.store import Store

FOLDER = tempfile.TemporaryDirectory()
FILE = Path(FOLDER.name) / "file"


def config(data: bytes) -> None:
    """A configuration file of the command lines."""
    with contextlib.suppress(Refusal):
        for key, value in parse(data.decode("utf-8", "replace"), "file").items():
            assert isinstance(key, str)
            assert isinstance(value, str)


def state(data: bytes) -> None:
    """One stored partition."""
    with contextlib.suppress(StateError, ValueError, RecursionError):
        decode(Partition, json.loads(data), "p")


def database(data: bytes) -> None:
    """A whole state file: a good one with some bytes changed."""
    FILE.unlink(missing_ok=True)
    Store.create(FILE, Settings("c", "k"))
    whole = bytearray(FILE.read_bytes())
    for place in range(0, len(data) - 2, 3):
        whole[int.from_bytes(data[place : place + 2]) % len(whole)] = data[place + 2]
    FILE.write_bytes(whole)
    with contextlib.suppress(StateError):
        store = Store.open(FILE)
        store.close()
        assert store.state == State(Settings("c", "k"))


def beacon(data: bytes) -> None:
    """A datagram on the discovery port."""
    found = read_beacon(data, "lo")
    if found is not None:
        assert found.host
        assert 1 <= found.port <= 65535


def binding(data: bytes) -> None:
    """An agent's file that names its owner."""
    FILE.write_bytes(data)
    with contextlib.suppress(StateError):
        Binding(FILE)


def wire(data: bytes) -> None:
    """Bytes as a create request, and as a setting for a machine."""
    with contextlib.suppress(DecodeError, Refusal):
        check_requirements(requirements(vipuuser_pb2.CreatePartitionRequest.FromString(data)))
    with contextlib.suppress(DecodeError, HardwareError):
        _, (machine,) = build_pod(pod_plan(4), ["m"], ["127.0.0.1"])
        setting = setting_from_wire(agent_pb2.Setting.FromString(data))
        machine.configure(setting)
        machine.train(setting.partition_id, setting.generation)
        assert encode(machine.status())


TARGETS: dict[str, Callable[[bytes], None]] = {
    entry.__name__: entry for entry in (config, state, database, beacon, binding, wire)
}


if __name__ == "__main__":
    atheris.Setup([sys.argv[0], *sys.argv[2:]], TARGETS[sys.argv[1]])
    atheris.Fuzz()
