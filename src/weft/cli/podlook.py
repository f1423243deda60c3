"""`weft pod list`, `show`, `events`, `wait` and `receipt`: commands that read pods."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

from weft.cli.common import Json, cell, client_of, say, warn
from weft.cli.output import Listing, Record, write
from weft.cli.podrecord import CODED, SERVER_COLUMNS
from weft.model.errors import InputError, TemporaryError

if TYPE_CHECKING:
    from weft.client import Client

EVENT_COLUMNS = ("sequence", "at", "type", "message")


def list_(args: argparse.Namespace) -> Listing:
    """`weft pod list`; columns of the queue appear only if an order waits, that of failing nodes
    only if there are any."""
    pods = client_of(args).pods.list(
        args.all_projects,
        project=args.project,
        state=args.state,
        node=args.node,
        name=args.name,
        server=args.server,
        alarmed="true" if args.alarmed else None,
        limit=args.limit,
        marker=args.marker,
    )
    project = ("project_id",) if args.all_projects else ()
    waits = [p for p in pods if p.get("position") or p.get("expected_start")]
    queue = ("position", "expected_start") if waits else ()
    fails = ("nodes_failing",) if any(p.get("nodes_failing") for p in pods) else ()
    columns = (
        *("id", "name", *project, "state", "nodes", *fails, "fabric", "segment", "since"),
        *(*queue, "lease_end", "reason"),
    )
    return Listing(columns, pods, more=CODED)


def servers(args: argparse.Namespace) -> Listing:
    """`weft pod servers`; with `-f value -c name` it prints a file of hosts."""
    pod = client_of(args).pods.show(args.name)
    return Listing(SERVER_COLUMNS, pod["servers"])


def show(args: argparse.Namespace) -> Record:
    """`weft pod show`."""
    from weft.cli.podrecord import record

    client = client_of(args)
    pod = client.pods.show(args.name)
    return record(pod, args.resources, client.pods.events(pod["id"]) if args.events else None)


def list_events(args: argparse.Namespace) -> Listing:
    """Events of a pod so far."""
    return Listing(
        EVENT_COLUMNS, client_of(args).pods.events(args.name, args.after, newest=args.newest), more=CODED
    )


def events(args: argparse.Namespace) -> int:
    """`weft pod events`: a list; with `--follow` a line per event as they arrive, with `-f json` an object per line."""
    if not args.follow:
        return write(list_events(args), args)
    if args.formatter not in ("table", "json"):
        raise InputError("--format", args.formatter, "json with --follow, or none: a line of text per event")
    from weft.client import LONGEST_WAIT

    as_json = args.json or args.formatter == "json"
    client = client_of(args)
    found = client.pods.events(args.name, args.after, newest=args.newest)
    pod = client.pods.show(args.name)
    after = args.after
    while True:
        _write_events(found, as_json)
        after = max([after, *(e["sequence"] for e in found)])
        if pod["state"] in ("RELEASED", "FAILED") and not found:
            return 0
        wait = LONGEST_WAIT if pod["state"] not in ("RELEASED", "FAILED") else 0.0
        found, pod = _next(client, pod["id"], after, wait)


def _next(client: Client, pod: str, after: int, wait: float) -> tuple[list[Json], Json]:
    """Events after a sequence and the pod, once the API answers; an outage is reported once."""
    from weft.cli.follow import GATHER

    trouble = ""
    while True:
        try:
            return client.pods.events(pod, after, wait, GATHER), client.pods.show(pod)
        except TemporaryError as error:
            if str(error) != trouble:
                warn(f"weft: {error}")
            trouble = str(error)
            time.sleep(error.delay)


def wait(args: argparse.Namespace) -> int:
    """`weft pod wait`: 0 if the pod is in the state, 1 if it can't get there by itself or the time is up."""
    from weft.cli.podrecord import record

    until = [state.strip().upper() for state in args.until.split(",")]
    pod = client_of(args).pods.wait_for(args.name, until, args.timeout)
    reached = pod["state"] in until and not (pod["state"] == "READY" and pod.get("changing_since"))
    if args.json or args.formatter:
        write(record(pod), args)
    elif reached:
        say(f"pod {pod['name']} is {pod['state']}")
    if reached:
        return 0
    changing = ", with a change under way" if pod.get("changing_since") else ""
    warn(f"weft: pod {pod['name']} is {pod['state']}{changing}: {cell(pod['reason']) or 'no reason given'}")
    return 1


def _write_events(found: list[Json], as_json: bool) -> None:
    import json

    for event in found:
        line = f"{event['sequence']:>6}  {event['at'][:19]}  {event['type']:<8}  {event['message']}"
        say(json.dumps(event, ensure_ascii=False) if as_json else line)


def receipt(args: argparse.Namespace) -> Record:
    """`weft pod receipt`."""
    from weft.cli.receipt import record

    return record(client_of(args).pods.receipt(args.name))
