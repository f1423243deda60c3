"""``openvipu-agent``: the agent of one IPU-Machine."""

from __future__ import annotations

import argparse
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from openvipu.agent import beacon
from openvipu.agent.binding import Binding
from openvipu.agent.exporter import start_exporter
from openvipu.agent.service import start
from openvipu.hardware.protocol import Hardware, load
from openvipu.hardware.simulated import build_pod, pod_plan
from openvipu.model.errors import BadRequest
from openvipu.model.names import check_id
from openvipu.program import controller_options, listen_address, parser, read_key, run, say, wait_for_signal
from openvipu.rpctls import Tls

THREADS = 128
"""Threads of the server, most of them for callers without a key, who may only wait; see ``openvipu.receiving``."""


def main(argv: list[str] | None = None) -> int:
    """Run ``openvipu-agent`` until a signal; returns the exit code."""
    return run("openvipu-agent", lambda: _main(_parser().parse_args(argv)))


def _parser() -> argparse.ArgumentParser:
    made = parser("openvipu-agent", "The agent of one IPU-Machine, for its gateway.")
    made.add_argument("--name", default="ipum1", help="what the agent would like to be called")
    made.add_argument("--address", default="0.0.0.0:8080", metavar="HOST:PORT")
    made.add_argument("--exporter-address", default="0.0.0.0:2112", metavar="HOST:PORT")
    made.add_argument("--no-exporter", action="store_true")
    made.add_argument(
        "--state", type=Path, help="file that remembers the controller (a real machine must have one)"
    )
    controller_options(made)
    made.add_argument(
        "--hardware",
        default="simulated",
        help="'simulated' (one machine by itself), or MODULE:FUNCTION that makes the driver of a real one",
    )
    made.add_argument("--rnic-address", default="127.0.0.1", help="of the simulated machine")
    made.add_argument("--announce", default="", metavar="HOST:PORT", help="send beacons there (UDP)")
    made.add_argument("--announce-host", default="", help="the host that the beacons name")
    return made


def hardware(entry: str, name: str, rnic_address: str) -> Hardware:
    """The machine that ``--hardware`` names."""
    if entry != "simulated":
        return load(entry)
    _, machines = build_pod(pod_plan(4), [name], [rnic_address])
    return machines[0]


def _main(arguments: argparse.Namespace) -> int:
    check_id("name", arguments.name)
    host, port = listen_address(arguments.address)
    if arguments.hardware != "simulated" and arguments.state is None:
        raise BadRequest(
            "--state is required with --hardware: an agent that forgets its controller is anybody's"
        )
    machine = hardware(arguments.hardware, arguments.name, arguments.rnic_address)
    key = read_key(arguments.controller_key_file) if arguments.controller_key_file else ""
    binding = Binding(arguments.state, key)
    mutual = not arguments.no_client_certificates
    tls = Tls.read(arguments.tls, "agent", mutual) if arguments.tls else None
    with ExitStack() as stack:
        exporter_port = 0
        if not arguments.no_exporter:
            exporter = start_exporter(machine, *listen_address(arguments.exporter_address))
            exporter_port = int(exporter.server_address[1])
            stack.callback(exporter.server_close)
            stack.callback(exporter.shutdown)
        executor = stack.enter_context(ThreadPoolExecutor(THREADS))
        server, port = start(machine, binding, arguments.address, executor, tls, exporter_port)
        stack.callback(lambda: server.stop(grace=2).wait())
        if arguments.announce:
            body = beacon.encode(arguments.announce_host or host, port, arguments.name)
            stack.callback(beacon.Beacon(arguments.announce, [body]).close)
        say(f"agent {arguments.name} on port {port}")
        wait_for_signal()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
