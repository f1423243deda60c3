"""`weft pod`: its commands. `weft.cli.podact` has those that change pods, `weft.cli.podlook` those that read."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from weft.cli import bandwidth, health, links, podact, podexample, podlook, podservers, podssh
from weft.cli.common import Subparsers, client_of, group, leaf, seconds, warn
from weft.cli.output import acting, listed, shown

_TIMEOUT = 1800.0


def add_commands(subparsers: Subparsers) -> None:
    """Register `weft pod`."""
    commands = group(subparsers, "pod", "order, show and release pods")
    _add_ordering(commands)
    _add_looking(commands)
    _add_ending(commands)
    podservers.add_commands(commands)
    podssh.add_commands(commands)
    _add_topology(commands)
    health.add_pod_commands(commands)
    links.add_pod_commands(commands)
    bandwidth.add_pod_commands(commands)
    podexample.add_commands(commands)


def _add_ordering(commands: Subparsers) -> None:
    parser = leaf(
        commands, "plan", podact.plan, "show the nodes and resources of an order without changing anything"
    )
    _order_file(parser)
    parser.add_argument(
        "--offline", action="store_true", help="plan locally, from a site file, without a server"
    )
    parser.add_argument("--site", metavar="FILE", type=Path, help="site file for --offline")
    _removing(parser)
    parser = acting(
        commands, "apply", podact.apply, "create the pod of a file, or change it to match the file"
    )
    _order_file(parser)
    _removing(parser)
    _generation(parser)
    _waiting(parser, "as the file describes")
    parser = acting(commands, "create", podact.create, "order a pod")
    _order_file(parser)
    _waiting(parser, "READY")


def _add_looking(commands: Subparsers) -> None:
    parser = listed(commands, "list", podlook.list_, "list pods")
    parser.add_argument(
        "--all-projects", action="store_true", help="list the pods of all projects (operators)"
    )
    parser.add_argument("--project", metavar="ID", help="only pods of this project; with --all-projects")
    parser.add_argument(
        "--state", metavar="STATE", type=str.upper, help="only pods in this state, such as READY"
    )
    parser.add_argument("--node", metavar="NODE", help="only pods that hold this node")
    parser.add_argument("--name", metavar="NAME", help="only pods with this name")
    parser.add_argument("--server", metavar="SERVER", help="only pods with a server of this name")
    parser.add_argument(
        "--alarmed", action="store_true", help="only pods with an alarm: FAILED, or too long in their state"
    )
    parser.add_argument("--limit", metavar="N", type=_number, help="maximum number (default: all)")
    parser.add_argument(
        "--marker", metavar="NAME:ID", help="start after this pod, the last of the previous page"
    )
    parser = shown(commands, "show", podlook.show, "show a pod: its state and why, nodes, SSH, lease")
    _name(parser)
    parser.add_argument(
        "--resources", action="store_true", help="also conditions, servers, places, resources, differences"
    )
    parser.add_argument("--events", action="store_true", help="also what happened to it")
    parser = listed(commands, "servers", podlook.servers, "list a pod's servers: names, nodes, addresses")
    _name(parser)
    what = "show what happened to a pod"
    parser = listed(commands, "events", podlook.list_events, what, podlook.events)
    _name(parser)
    parser.add_argument(
        "--after", metavar="N", type=_number, default=0, help="only events after this sequence number"
    )
    parser.add_argument(
        "--newest", metavar="N", type=_number, help="only the last so many events, at most 1000"
    )
    following = parser.add_argument_group("following")  # not in the plugin, whose lists end
    following.add_argument("--follow", action="store_true", help="follow until the pod is released or failed")
    parser = acting(commands, "wait", podlook.wait, "wait until a pod is in a state")
    _name(parser)
    parser.add_argument(
        "--until",
        metavar="STATES",
        default="READY",
        help="states to wait for, separated by commas (default READY); also returns if the pod can't get there",
    )
    _timeout(parser, "timeout")


def _generation(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--generation",
        metavar="N",
        type=_number,
        help="only if the pod is at this generation (weft pod show)",
    )


def _add_ending(commands: Subparsers) -> None:
    for word, more in (("release", ""), ("delete", " (the same as release)")):
        parser = acting(commands, word, podact.release, f"release a pod{more}")
        _name(parser)
        _generation(parser)
        _waiting(parser, "RELEASED")
    parser = acting(commands, "extend", podact.extend, "extend a pod's lease")
    _name(parser)
    end = parser.add_mutually_exclusive_group(required=True)
    end.add_argument("--until", metavar="TIME", help="new end of the lease, such as 2027-01-31T18:00Z")
    end.add_argument("--by", metavar="DURATION", help="so much after its present end, such as 90m, 4h or 7d")
    _generation(parser)
    parser = acting(
        commands, "report", podact.report, "report a faulty node: the project's next orders avoid it"
    )
    _name(parser)
    parser.add_argument("node", metavar="NODE", help="node of the pod, or the server on it, by name")
    parser.add_argument("--reason", metavar="TEXT", required=True, help="what is wrong, for operators")
    parser = acting(commands, "replace", podact.replace, "replace a node of a pod by another one")
    _name(parser)
    parser.add_argument("node", metavar="NODE", help="node to be replaced, or the server on it, by name")
    parser.add_argument(
        "--with",
        dest="by",
        metavar="NODE",
        help="node that takes its place (operators; default: the pod's spare, else the nearest free node)",
    )
    parser.add_argument(
        "--no-hold",
        action="store_true",
        help="let any order have the replaced node once it is clean (operators; default: held until it is accepted)",
    )
    parser.add_argument("--plan", action="store_true", help="show what would change, and change nothing")
    _generation(parser)
    _waiting(parser, "READY")
    parser = acting(commands, "retry", podact.retry, "resume a FAILED pod where it failed")
    _name(parser)
    _waiting(parser, "READY")
    parser = acting(commands, "abandon", podact.abandon, "end a release that can't finish (operators)")
    _name(parser)
    parser.add_argument(
        "--reason",
        metavar="TEXT",
        required=True,
        help="why; appears in the receipt, which the pod's project may read",
    )
    _waiting(parser, "RELEASED")
    parser = shown(commands, "receipt", podlook.receipt, "show the signed receipt of a released pod")
    _name(parser)


def _order_file(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-f", "--file", metavar="FILE", required=True, help="pod file (YAML); - for stdin")


def _removing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--remove",
        metavar="NAME",
        action="append",
        default=[],
        help="server or node, by name, to remove if the file asks for fewer; repeatable",
    )


def _name(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="name or id of the pod")


def _waiting(parser: argparse.ArgumentParser, state: str) -> None:
    parser.add_argument("--wait", action="store_true", help=f"wait until it is {state}, showing progress")
    _timeout(parser, "timeout of --wait")


def _timeout(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=seconds,
        default=_TIMEOUT,
        help=f"{what} (default {_TIMEOUT:.0f})",
    )


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not a non-negative integer")
    return int(text)


def _add_topology(commands: Subparsers) -> None:
    parser = leaf(
        commands,
        "topology",
        _topology,
        "write where a pod's servers are, for Slurm, Kubernetes, MPI, NCCL and others",
        json_=False,
    )
    parser.add_argument("name", metavar="NAME", help="name or id of the pod")
    parser.add_argument(
        "--format",
        dest="topology_format",
        metavar="FORMAT",
        default="json",
        help="slurm-conf, slurm-block-conf, slurm-yaml, kubernetes, nodefeature, kueue, topograph, hostfile, "
        "hostfile-mpich, rankfile, nccl-env, nccl-xml, ucx, weft-check or json (default json)",
    )


def _topology(args: argparse.Namespace) -> int:
    """The file on stdout; on stderr, the servers that aren't in it."""
    text, left_out = client_of(args).pods.topology(args.name, args.topology_format)
    for one in left_out:
        warn(f"weft: left out: {one}")
    sys.stdout.write(text)
    sys.stdout.flush()
    return 0
