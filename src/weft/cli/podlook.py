"""`weft pod list`, `show`, `events` and `receipt`: what there is, and what happened."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

from weft.cli.common import Json, cell, client_of, say, table, warn, write_json
from weft.model.errors import TemporaryError

if TYPE_CHECKING:
    from weft.client import Client


def list_(args: argparse.Namespace) -> int:
    pods = client_of(args).list_pods(
        args.all_projects,
        project=args.project,
        state=args.state,
        node=args.node,
        name=args.name,
        limit=args.limit,
        marker=args.marker,
    )
    if args.json:
        write_json(pods)
        return 0
    project = ("project_id",) if args.all_projects else ()
    waits = [p for p in pods if p.get("position") or p.get("expected_start")]
    queue = ("position", "expected_start") if waits else ()
    columns = (
        "name",
        *project,
        "state",
        "nodes",
        "fabric",
        "segment",
        "since",
        *queue,
        "lease_end",
        "reason",
    )
    say("\n".join(table(columns, pods)))
    return 0


def show(args: argparse.Namespace) -> int:
    pod = client_of(args).show_pod(args.name)
    if args.json:
        write_json(pod)
    else:
        from weft.cli import text

        say("\n".join(text.pod(pod)))
    return 0


def events(args: argparse.Namespace) -> int:
    """With `--json --follow` one JSON object per line, as events arrive."""
    from weft.client import LONGEST_WAIT

    client = client_of(args)
    found = client.pod_events(args.name, args.after)
    if not args.follow:
        if args.json:
            write_json(found)
        else:
            say("\n".join(table(("sequence", "at", "type", "message"), found)))
        return 0
    pod = client.show_pod(args.name)
    after = args.after
    while True:
        _write_events(found, args.json)
        after = max([after, *(e["sequence"] for e in found)])
        if pod["state"] in ("RELEASED", "FAILED") and not found:
            return 0
        wait = LONGEST_WAIT if pod["state"] not in ("RELEASED", "FAILED") else 0.0
        found, pod = _next(client, pod["id"], after, wait)


def _next(client: Client, pod: str, after: int, wait: float) -> tuple[list[Json], Json]:
    """Events after a sequence and the pod, once the API answers; that it doesn't is told once."""
    from weft.cli.follow import GATHER

    trouble = ""
    while True:
        try:
            return client.pod_events(pod, after, wait, GATHER), client.show_pod(pod)
        except TemporaryError as error:
            if str(error) != trouble:
                warn(f"weft: {error}")
            trouble = str(error)
            time.sleep(error.delay)


def wait(args: argparse.Namespace) -> int:
    """0 if the pod is in the state, 1 if it can't get there by itself or the time is up."""
    until = [state.strip().upper() for state in args.until.split(",")]
    pod = client_of(args).wait_for_pod(args.name, until, args.timeout)
    if args.json:
        write_json(pod)
    reached = pod["state"] in until and not (pod["state"] == "READY" and pod.get("changing_since"))
    if reached:
        if not args.json:
            say(f"pod {pod['name']} is {pod['state']}")
        return 0
    changing = ", with a change under way" if pod.get("changing_since") else ""
    warn(f"weft: pod {pod['name']} is {pod['state']}{changing}: {cell(pod['reason']) or 'no reason given'}")
    return 1


def _write_events(found: list[Json], as_json: bool) -> None:
    import json

    for event in found:
        line = f"{event['sequence']:>6}  {event['at'][:19]}  {event['type']:<8}  {event['message']}"
        say(json.dumps(event, ensure_ascii=False) if as_json else line)


def receipt(args: argparse.Namespace) -> int:
    signed = client_of(args).pod_receipt(args.name)
    if args.json:
        write_json(signed)
    else:
        from weft.cli.receipt import show_receipt

        show_receipt(signed)
    return 0
