"""`weft pod`: the commands, and those that plan and change pods; `weft.cli.podlook` has those that only look."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.cli import podlook, podservers
from weft.cli.common import (
    Json,
    Subparsers,
    cell,
    client_of,
    group,
    leaf,
    read_order,
    say,
    seconds,
    warn,
    write_json,
)
from weft.model.errors import InputError, NotFoundError

if TYPE_CHECKING:
    from weft.cli.follow import Goal
    from weft.client import Client
    from weft.model.order import Order

_TIMEOUT = 1800.0


def add_commands(subparsers: Subparsers) -> None:
    commands = group(subparsers, "pod", "order, show and release pods")
    _add_ordering(commands)
    _add_looking(commands)
    _add_ending(commands)
    podservers.add_commands(commands)


def _add_ordering(commands: Subparsers) -> None:
    parser = leaf(
        commands, "plan", plan, "show the nodes and resources of an order without changing anything"
    )
    _order_file(parser)
    parser.add_argument(
        "--offline", action="store_true", help="plan locally, from a site file, without a server"
    )
    parser.add_argument("--site", metavar="FILE", type=Path, help="site file for --offline")
    _removing(parser)
    parser = leaf(commands, "apply", apply, "create the pod of a file, or change it to match the file")
    _order_file(parser)
    _removing(parser)
    parser.add_argument(
        "--generation",
        metavar="N",
        type=_number,
        help="only if the pod is at this generation (weft pod show)",
    )
    _waiting(parser, "as the file describes")
    parser = leaf(commands, "create", create, "order a pod")
    _order_file(parser)
    _waiting(parser, "READY")


def _add_looking(commands: Subparsers) -> None:
    parser = leaf(commands, "list", podlook.list_, "list pods")
    parser.add_argument(
        "--all-projects", action="store_true", help="list the pods of all projects (operators)"
    )
    parser.add_argument("--project", metavar="ID", help="only pods of this project; with --all-projects")
    parser.add_argument(
        "--state", metavar="STATE", type=str.upper, help="only pods in this state, such as READY"
    )
    parser.add_argument("--node", metavar="NODE", help="only pods that hold this node")
    parser.add_argument("--name", metavar="NAME", help="only pods with this name")
    parser.add_argument("--limit", metavar="N", type=_number, help="maximum number (default: all)")
    parser.add_argument(
        "--marker", metavar="NAME:ID", help="start after this pod, the last of the previous page"
    )
    parser = leaf(commands, "show", podlook.show, "show a pod in full")
    _name(parser)
    parser = leaf(commands, "events", podlook.events, "show what happened to a pod")
    _name(parser)
    parser.add_argument(
        "--after", metavar="N", type=_number, default=0, help="only events after this sequence number"
    )
    parser.add_argument("--follow", action="store_true", help="follow until the pod is released or failed")
    parser = leaf(commands, "wait", podlook.wait, "wait until a pod is in a state")
    _name(parser)
    parser.add_argument(
        "--until",
        metavar="STATES",
        default="READY",
        help="states to wait for, separated by commas (default READY); also returns if the pod can't get there",
    )
    _timeout(parser, "timeout")


def _add_ending(commands: Subparsers) -> None:
    parser = leaf(commands, "release", release, "release a pod")
    _name(parser)
    _waiting(parser, "RELEASED")
    parser = leaf(commands, "extend", extend, "extend a pod's lease")
    _name(parser)
    parser.add_argument(
        "--until", metavar="TIME", required=True, help="new end of the lease, such as 2027-01-31T18:00Z"
    )
    parser = leaf(commands, "retry", retry, "resume a FAILED pod where it failed")
    _name(parser)
    _waiting(parser, "READY")
    parser = leaf(commands, "abandon", abandon, "end a release that can't finish (operators)")
    _name(parser)
    parser.add_argument(
        "--reason",
        metavar="TEXT",
        required=True,
        help="why; appears in the receipt, which the pod's project may read",
    )
    _waiting(parser, "RELEASED")
    parser = leaf(commands, "receipt", podlook.receipt, "show the signed receipt of a released pod")
    _name(parser)


def _order_file(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-f", "--file", metavar="FILE", required=True, help="pod file (YAML); - for stdin")


def _removing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--remove",
        metavar="NODE",
        action="append",
        default=[],
        help="node, or server on a shared node by name, to remove if the file asks for fewer; repeatable",
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


def plan(args: argparse.Namespace) -> int:
    if args.offline != (args.site is not None):
        raise InputError(
            "--site", args.site and str(args.site), "--offline and --site FILE require each other"
        )
    if args.offline:
        from weft.cli.plan_offline import plan_offline

        return plan_offline(args.file, args.site, args.json, args)
    answer = client_of(args).plan_pod(to_json(read_order(args.file)), args.remove)
    if args.json:
        write_json(answer)
    else:
        from weft.cli import text

        say(text.plan(answer))
    return 0


def create(args: argparse.Namespace) -> int:
    order = read_order(args.file)
    client = client_of(args)
    pod = client.create_pod(to_json(order))
    _warn_of_access(order)
    if args.wait:
        from weft.cli.follow import READY

        return _wait(client, args, pod, READY, 0)
    return _ordered(args, pod, "ordered")


def _warn_of_access(order: Order) -> None:
    from weft.planning.shapes.access import access_notes

    for said in access_notes(order):
        warn(f"weft: pod {order.name}: {said}")


def apply(args: argparse.Namespace) -> int:
    order = read_order(args.file)
    client = client_of(args)
    before = _last_event(client, order.name) if args.wait else 0
    answer = client.apply_pod(to_json(order), args.remove, args.generation)
    pod, outcome = answer["pod"], answer["outcome"]
    if outcome == "created":
        _warn_of_access(order)
    if args.wait:
        from weft.cli.follow import READY

        # One that matches the file already may still be on its way.
        if outcome != "unchanged" or not READY.at(pod):
            return _wait(client, args, pod, READY, before)
    if args.json:
        write_json(answer)
    elif outcome == "unchanged":
        say(f"pod {pod['name']} already matches the file (generation {pod['generation']}): nothing to change")
    elif outcome == "created":
        return _ordered(args, pod, "ordered")
    else:
        from weft.cli import text

        say("\n".join(text.change(answer["change"])))
        return _ordered(args, pod, f"being changed to generation {pod['generation']}")
    return 0


def release(args: argparse.Namespace) -> int:
    client = client_of(args)
    before = _last_event(client, args.name) if args.wait else 0
    pod = client.release_pod(args.name)
    if args.wait:
        from weft.cli.follow import RELEASED

        return _wait(client, args, pod, RELEASED, before)
    return _ordered(args, pod, "being released")


def extend(args: argparse.Namespace) -> int:
    pod = client_of(args).extend_pod(args.name, args.until)
    if args.json:
        write_json(pod)
    else:
        say(f"pod {pod['name']}: the lease ends at {cell(pod['lease_end'])}")
    return 0


def retry(args: argparse.Namespace) -> int:
    client = client_of(args)
    before = _last_event(client, args.name) if args.wait else 0
    pod = client.retry_pod(args.name)
    if args.wait:
        from weft.cli.follow import READY

        return _wait(client, args, pod, READY, before)
    return _ordered(args, pod, "tried again")


def abandon(args: argparse.Namespace) -> int:
    client = client_of(args)
    seen = client.pod_events(args.name) if args.wait else []
    pod = client.abandon_pod(args.name, args.reason)
    if args.wait:
        from weft.cli.follow import RELEASED

        return _wait(client, args, pod, RELEASED, max((e["sequence"] for e in seen), default=0))
    return _ordered(args, pod, "being abandoned")


def _ordered(args: argparse.Namespace, pod: Json, what: str) -> int:
    if args.json:
        write_json(pod)
    else:
        why = f": {pod['reason']}" if pod["state"] == "PENDING" and pod.get("reason") else ""
        say(
            f"pod {pod['name']} is {what} ({pod['id']}, {pod['state']}{why}); "
            f"follow it: weft pod events {pod['name']} --follow"
        )
    return 0


def _last_event(client: Client, name: str) -> int:
    """Sequence of a pod's last event, after which a command's own begin; 0: there is no such pod yet."""
    try:
        seen = client.pod_events(name)
    except NotFoundError:
        return 0
    return max((e["sequence"] for e in seen), default=0)


def _wait(client: Client, args: argparse.Namespace, pod: Json, goal: Goal, after: int) -> int:
    from weft.cli.follow import follow, progress_for

    try:
        end = follow(client, pod, goal, after, args.timeout, progress_for(goal, args.json))
    except KeyboardInterrupt:
        warn(
            f"pod {pod['name']} continues: follow it with `weft pod events {pod['name']} --follow`, "
            f"release it with `weft pod release {pod['name']}`"
        )
        return 130
    pod = end.pod
    if args.json:
        write_json(pod)
    if end.missed:
        warn(f"weft: {end.missed}")
        return 1
    if args.json:
        return 0
    if goal.reached == "READY":
        from weft.cli import text

        say()
        say("\n".join(text.pod(pod)))
    elif pod.get("has_receipt"):
        say(f"pod {pod['name']} is {pod['state']}; its receipt: weft pod receipt {pod['name']} --json")
    else:
        say(f"pod {pod['name']} is {pod['state']}: it had no resources yet")
    return 0


def to_json(order: Order) -> dict[str, Any]:
    """Only what the file contains: the server's defaults apply."""
    return order.model_dump(mode="json", exclude_unset=True)
