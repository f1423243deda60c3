"""`weft pod plan`, `apply`, `create`, `release`, `extend`, `replace`, `retry`, `abandon`: plan or change pods."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from weft.cli.common import Json, cell, client_of, read_order, say, warn, write_json
from weft.cli.output import Record, write
from weft.cli.podrecord import record
from weft.model.errors import InputError, NotFoundError

if TYPE_CHECKING:
    from weft.cli.follow import WaitGoal
    from weft.client import Client
    from weft.model.order import Order


def plan(args: argparse.Namespace) -> int:
    """`weft pod plan`; a refusal is raised as an error."""
    if args.offline != (args.site is not None):
        raise InputError(
            "--site", args.site and str(args.site), "--offline and --site FILE require each other"
        )
    if args.offline:
        from weft.cli.plan_offline import plan_offline

        return plan_offline(args.file, args.site, args.json, args)
    answer = client_of(args).pods.plan(to_json(read_order(args.file)), args.remove)
    if args.json:
        write_json(answer)
    else:
        from weft.cli import text

        say(text.plan(answer))
    return 0


def create(args: argparse.Namespace) -> int:
    """`weft pod create`; with `--wait` until it is READY."""
    order = read_order(args.file)
    client = client_of(args)
    pod = client.pods.create(to_json(order))
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
    """`weft pod apply`: creates or changes the pod, or reports that nothing is to change."""
    order = read_order(args.file)
    client = client_of(args)
    before = _last_event(client, order.name) if args.wait else 0
    answer = client.pods.apply(to_json(order), args.remove, args.generation)
    pod, outcome = answer["pod"], answer["outcome"]
    if outcome == "created":
        _warn_of_access(order)
    if args.wait:
        from weft.cli.follow import READY

        # A pod that matches the file may still be in progress.
        if outcome != "unchanged" or not READY.at(pod):
            return _wait(client, args, pod, READY, before)
    if args.json:
        write_json(answer)
    elif args.formatter:
        return write(record(pod), args)
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
    """`weft pod release`."""

    def ask(client: Client) -> dict[str, Any]:
        return client.pods.release(args.name, generation=args.generation)

    return _asked(args, ask, "RELEASED", "being released")


def extend(args: argparse.Namespace) -> int:
    """`weft pod extend`, to a time or by a duration."""
    client = client_of(args)
    until, generation = args.until, args.generation
    if args.by is not None:  # after the end that was read: not if it has moved since
        pod = client.pods.show(args.name)
        until = _later(pod, args.by)
        generation = pod["generation"] if generation is None else generation
    pod = client.pods.extend(args.name, until, generation)
    if args.json or args.formatter:
        write(record(pod), args)
    else:
        say(f"pod {pod['name']}: the lease ends at {cell(pod['lease_end'])}")
    return 0


def _later(pod: Json, by: str) -> str:
    """The end of the pod's lease plus a duration. Raises `InputError` for a lease without an end."""
    import re
    from datetime import datetime, timedelta

    from weft.model.ids import DURATION

    if not re.fullmatch(DURATION, by):
        raise InputError("--by", by, "a whole number with a unit s, m, h or d, such as 90m, 4h or 7d")
    if not pod.get("lease_end"):
        raise InputError("--by", by, f"--until TIME: the lease of pod {pod['name']} has no end to count from")
    unit = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}[by[-1]]
    try:
        return (datetime.fromisoformat(pod["lease_end"]) + timedelta(**{unit: int(by[:-1])})).isoformat()
    except OverflowError:
        raise InputError("--by", by, "an end before the year 10000") from None


def replace(args: argparse.Namespace) -> int:
    """`weft pod replace`, or with `--plan` what it would do."""
    client = client_of(args)
    if args.plan:
        planned = client.pods.plan_replacement(args.name, args.node, args.by, not args.no_hold)
        if args.json:
            write_json(planned)
        else:
            from weft.cli import text

            say(text.plan(planned))
            going = ", ".join((planned.get("change") or {}).get("nodes_removed", ()))
            if going and not args.no_hold:
                say(f"{going}: would be held for repair: no order gets it until an operator accepts it.")
        return 0
    before = _last_event(client, args.name) if args.wait else 0
    answer = client.pods.replace_node(args.name, args.node, args.by, args.generation, not args.no_hold)
    pod = answer["pod"]
    if args.wait:
        from weft.cli.follow import READY

        return _wait(client, args, pod, READY, before)
    if args.json:
        write_json(answer)
        return 0
    if not args.formatter:
        from weft.cli import text

        say("\n".join(text.change(answer["change"])))
    return _ordered(args, pod, f"being changed to generation {pod['generation']}")


def report(args: argparse.Namespace) -> int:
    """`weft pod report`."""
    found = client_of(args).pods.report_node(args.name, args.node, args.reason)
    if args.json or args.formatter:
        write(Record(found, found), args)
        return 0
    say(f"node {found['node']} is reported: the project's next orders avoid it until an operator clears it")
    say(
        f"pod {found['pod']} keeps it, unless its order has on_failure: replace; "
        f"`weft pod replace {args.name} {found['node']}` puts another in its place"
    )
    return 0


def retry(args: argparse.Namespace) -> int:
    """`weft pod retry`."""
    return _asked(args, lambda client: client.pods.retry(args.name), "READY", "being retried")


def abandon(args: argparse.Namespace) -> int:
    """`weft pod abandon`."""
    what = "being abandoned"
    return _asked(args, lambda client: client.pods.abandon(args.name, args.reason), "RELEASED", what)


def _asked(
    args: argparse.Namespace,
    ask: Callable[[Client], Json],
    reached: Literal["READY", "RELEASED"],
    what: str,
) -> int:
    """Send a request about a pod; with `--wait` follow its later events until it is `reached`."""
    client = client_of(args)
    before = _last_event(client, args.name) if args.wait else 0
    pod = ask(client)
    if not args.wait:
        return _ordered(args, pod, what)
    from weft.cli import follow

    return _wait(client, args, pod, {"READY": follow.READY, "RELEASED": follow.RELEASED}[reached], before)


def _ordered(args: argparse.Namespace, pod: Json, what: str) -> int:
    if args.json or args.formatter:
        write(record(pod), args)
    else:
        why = f": {pod['reason']}" if pod["state"] == "PENDING" and pod.get("reason") else ""
        say(
            f"pod {pod['name']} is {what} ({pod['id']}, {pod['state']}{why}); "
            f"follow it: weft pod events {pod['name']} --follow"
        )
    return 0


def _last_event(client: Client, name: str) -> int:
    """Sequence of a pod's last event before this command; 0: there is no such pod yet."""
    try:
        seen = client.pods.events(name)
    except NotFoundError:
        return 0
    return max((e["sequence"] for e in seen), default=0)


def _wait(client: Client, args: argparse.Namespace, pod: Json, goal: WaitGoal, after: int) -> int:
    from weft.cli.follow import follow, progress_for

    try:
        as_data = bool(args.json or args.formatter)
        end = follow(client, pod, goal, after, args.timeout, progress_for(goal, as_data))
    except KeyboardInterrupt:
        warn(
            f"pod {pod['name']} continues: follow it with `weft pod events {pod['name']} --follow`, "
            f"release it with `weft pod release {pod['name']}`"
        )
        return 130
    pod = end.pod
    if args.json or args.formatter:
        write(record(pod), args)
    if end.missed:
        warn(f"weft: {end.missed}")
        return 1
    if args.json or args.formatter:
        return 0
    if goal.reached == "READY":
        args.formatter = "table"
        say()
        write(record(pod), args)
    elif pod.get("has_receipt"):
        say(f"pod {pod['name']} is {pod['state']}; its receipt: weft pod receipt {pod['name']} --json")
    else:
        say(f"pod {pod['name']} is {pod['state']}: it had no resources yet")
    return 0


def to_json(order: Order) -> dict[str, Any]:
    """The order as JSON, with only what the file contains: the server's defaults apply."""
    return order.model_dump(mode="json", exclude_unset=True)
