"""``openvipu-sim``: a POD of simulated IPU-Machines, and the verbs that disturb it."""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc

from openvipu.hardware.simulated import FAULT_KINDS, pod_plan
from openvipu.model.errors import BadRequest
from openvipu.program import controller_options, listen_address, parser, read_key, run, say, wait_for_signal
from openvipu.proto import simulation_pb2 as pb
from openvipu.proto import simulation_pb2_grpc as pb_grpc
from openvipu.rpc import channel, words_of
from openvipu.rpctls import Tls
from openvipu.sim.control import start_control
from openvipu.sim.pod import PodConfig, SimulatedPod

CONTROL = "127.0.0.1:8092"


def main(argv: list[str] | None = None) -> int:
    """Run ``openvipu-sim``; returns the exit code."""
    return run("openvipu-sim", lambda: _main(_parser().parse_args(argv)))


def _parser() -> argparse.ArgumentParser:
    made = parser("openvipu-sim", "A POD of simulated IPU-Machines, or a verb for one that runs.")
    made.add_argument("--pod", type=int, default=16, metavar="IPUS", help="4, 16, 64, 128 or 256")
    made.add_argument("--switched", action="store_true", help="join the domains of a POD128/256 by switches")
    made.add_argument("--base", default="127.86.0.0", help="machine m of domain d is at BASE + 256 d + m + 1")
    made.add_argument("--port", type=int, default=8080, help="of every agent")
    made.add_argument("--prefix", default="ipum", help="of the agents' names, which are numbered from 1")
    made.add_argument("--exporter-port", type=int, help="of every machine's exporter (default: none)")
    made.add_argument("--delay", type=float, default=0.0, metavar="SECONDS", help="that every change takes")
    made.add_argument("--announce", default="", metavar="HOST:PORT", help="send the agents' beacons there")
    made.add_argument("--bindings", type=Path, metavar="DIR", help="remember the agents' controllers there")
    controller_options(made)
    made.add_argument("--agents-file", type=Path, help="write a line 'name host port' for each agent")
    made.add_argument("--netns", default="", help="run in this network namespace (made if it isn't there)")
    made.add_argument("--control", default=CONTROL, metavar="HOST:PORT", help="address of the control API")
    verbs = made.add_subparsers(dest="verb", metavar="VERB")
    for verb, words in (("plant", "plant a fault"), ("heal", "heal a fault, or all of them")):
        sub = verbs.add_parser(verb, help=words)
        sub.add_argument("kind", nargs=None if verb == "plant" else "?", choices=FAULT_KINDS)
        sub.add_argument("machine", nargs=None if verb == "plant" else "?", default="")
        sub.add_argument("unit", nargs="?", default="", help="IPU number or port")
        sub.add_argument("--seconds", type=float, default=0.0, help="of a slow-reset")
    verbs.add_parser("faults", help="list what is planted")
    probe = verbs.add_parser("probe", help="send a packet from one IPU to another")
    probe.add_argument("source", metavar="MACHINE:IPU")
    probe.add_argument("target", metavar="MACHINE:IPU")
    return made


def _main(arguments: argparse.Namespace) -> int:
    listen_address(arguments.control)
    return _control(arguments) if arguments.verb else _run(arguments)


def _run(arguments: argparse.Namespace) -> int:
    plan = pod_plan(arguments.pod, arguments.switched)
    if not 0 <= arguments.delay <= 3600:
        raise BadRequest("--delay must be 0 to 3600 seconds")
    if arguments.bindings:
        arguments.bindings.mkdir(parents=True, exist_ok=True)
    config = PodConfig(
        plan=plan,
        base=arguments.base,
        port=arguments.port,
        prefix=arguments.prefix,
        delay=arguments.delay,
        exporters=arguments.exporter_port,
        announce=arguments.announce,
        bindings=arguments.bindings,
        controller_key=read_key(arguments.controller_key_file) if arguments.controller_key_file else "",
        tls=Tls.read(arguments.tls, "agent", not arguments.no_client_certificates) if arguments.tls else None,
    )
    if arguments.netns:
        from openvipu.sim.namespace import enter

        enter(arguments.netns, arguments.base)
    with ExitStack() as stack:
        pod = stack.enter_context(SimulatedPod(config))
        executor = stack.enter_context(ThreadPoolExecutor(4))
        server, port = start_control(pod, arguments.control, executor)
        stack.callback(lambda: server.stop(grace=1).wait())
        if arguments.agents_file:
            lines = [f"{name} {agent.host} {agent.port}\n" for name, agent in pod.agents.items()]
            arguments.agents_file.write_text("".join(lines))
        say(f"{len(pod.agents)} agents, control API on port {port}")
        wait_for_signal()
    return 0


def _control(arguments: argparse.Namespace) -> int:
    with channel(arguments.control) as link:
        stub = pb_grpc.SimulationServiceStub(link)
        try:
            return _verb(stub, arguments)
        except grpc.RpcError as error:
            print(f"openvipu-sim: {words_of(error)}", file=sys.stderr)
            return 1


def _verb(stub: Any, arguments: argparse.Namespace) -> int:
    if arguments.verb == "faults":
        for fault in stub.ListFaults(pb.ListFaultsRequest(), timeout=10).faults:
            say(f"{fault.kind} {fault.machine} {fault.unit}".rstrip())
        return 0
    if arguments.verb == "probe":
        (source, number), (target, other) = _ipu(arguments.source), _ipu(arguments.target)
        request = pb.ProbeRequest(from_machine=source, from_ipu=number, to_machine=target, to_ipu=other)
        reply = stub.Probe(request, timeout=10)
        say(f"delivered over {reply.hops} links" if reply.delivered else "blocked")
        return 0 if reply.delivered else 1
    fault = pb.Fault(
        kind=arguments.kind or "", machine=arguments.machine, unit=arguments.unit, seconds=arguments.seconds
    )
    if arguments.verb == "plant":
        stub.Plant(pb.PlantRequest(fault=fault), timeout=10)
    else:
        stub.Heal(pb.HealRequest(fault=fault), timeout=10)
    return 0


def _ipu(text: str) -> tuple[str, int]:
    machine, _, number = text.rpartition(":")
    if not machine or number not in ("0", "1", "2", "3"):
        raise BadRequest(f"{text!r} is not MACHINE:IPU, for example ipum1:0")
    return machine, int(number)


if __name__ == "__main__":
    raise SystemExit(main())
