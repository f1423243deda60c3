"""`weft site plan|apply|resources|events|destroy|abandon|receipt`: what the site needs in its clouds."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from weft.cli.common import (
    Subparsers,
    client_of,
    exit_code,
    fields,
    leaf,
    say,
    seconds,
    warn,
    write_json,
)
from weft.cli.output import Listing, Record, listed, shown
from weft.model.errors import NotFoundError, TemporaryError

if TYPE_CHECKING:
    from weft.client import Client

Json = dict[str, Any]
POLL = 0.2
"""Seconds between readings of state that no event reports."""
LONGEST_PAUSE = 10.0
"""Seconds that one request waits for an event."""
TIMEOUT = 1800.0
_NAMES = ("site", "generation", "applied_at", "applied_by", "state", "reason", "since")


def add_site_commands(commands: Subparsers) -> None:
    """Register `weft site plan`, `apply`, `destroy` and the others about the site's own resources."""
    plan = leaf(
        commands, "plan", _plan, "compare what the active site needs in its clouds with what is there"
    )
    _adopting(plan)
    apply = leaf(commands, "apply", _apply, "create or change what the active site needs in its clouds")
    _adopting(apply)
    _waiting(apply, "until everything is there")
    shown(
        commands,
        "resources",
        _resources,
        "show what was applied and its state; exit 1 unless everything is as desired",
    )
    events = listed(commands, "events", _events, "show what happened to the site's resources")
    events.add_argument(
        "--after", metavar="N", type=int, default=0, help="only events after this sequence number"
    )
    destroy = leaf(
        commands, "destroy", _destroy, "remove what was applied from the clouds; ends with a receipt"
    )
    _waiting(destroy, "until everything is confirmed gone")
    abandon = leaf(
        commands,
        "abandon",
        _abandon,
        "end a removal that can't finish; its receipt is clean only if it did finish after all",
    )
    abandon.add_argument("--reason", required=True, metavar="TEXT", help="why; appears in the receipt")
    shown(commands, "receipt", _receipt, "show the signed receipt of what was last destroyed")


def _adopting(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--adopt",
        action="store_true",
        help="adopt existing resources, matched by VLAN, CIDR, MAC address or name; they are weft's from then on",
    )


def _waiting(parser: argparse.ArgumentParser, until: str) -> None:
    parser.add_argument("--wait", action="store_true", help=f"wait {until}, showing progress")
    parser.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=seconds,
        default=TIMEOUT,
        help=f"timeout of --wait (default {TIMEOUT:g}); the work continues",
    )


def _plan(args: argparse.Namespace) -> int:
    """`weft site plan` and `apply`; returns 1 if something is in the way."""
    answer = client_of(args).site.plan(args.adopt)
    code = exit_code(args, answer["conflicts"])
    _print_plan(args, answer)
    return code


def _apply(args: argparse.Namespace) -> int:
    client = client_of(args)
    after = _last_event(client)
    answer = client.site.apply(args.adopt)
    # A site without networks has nothing that could be waited for, unless it had some before.
    waits = args.wait and bool(answer["resources"] or answer["steps"])
    if not (args.json and waits):  # JSON is one document
        _print_plan(args, answer, applied=True)
    if not waits:
        return 0
    return _wait(args, client, after, lambda view: view["done"])


def _destroy(args: argparse.Namespace) -> int:
    client = client_of(args)
    after = _last_event(client)
    view = client.site.destroy()
    if args.wait:
        return _wait(args, client, after, lambda view: view["state"] == "RELEASED")
    _print_state(args, view)
    return 0


def _abandon(args: argparse.Namespace) -> int:
    _print_state(args, client_of(args).site.abandon(args.reason))
    return 0


def _resources(args: argparse.Namespace) -> Record:
    """`weft site resources`; code 1 unless everything is as desired."""
    view = client_of(args).site.resources()
    rows = [r for r in view["resources"] if r["state"] != "absent"]
    listing = Listing(("key", "name", "where", "state", "id", "reason"), rows)
    fields = {name: view.get(name) for name in _NAMES} | {"resources_there": _there(view)}
    fields |= {"has_receipt": view["has_receipt"]}
    return Record(fields, view, {"resources": listing}, int(not view["done"]))


def _events(args: argparse.Namespace) -> Listing:
    return Listing(("sequence", "at", "type", "message"), client_of(args).site.events(args.after))


def _receipt(args: argparse.Namespace) -> Record:
    from weft.cli.receipt import record

    signed = client_of(args).site.receipt()
    return replace(record(signed), code=int(not signed["receipt"]["clean"]))


def _last_event(client: Client) -> int:
    """Sequence of the last event before this command: earlier ones aren't shown."""
    try:
        return max((e["sequence"] for e in client.site.events(0)), default=0)
    except NotFoundError:
        return 0


def _wait(args: argparse.Namespace, client: Client, after: int, over: Callable[[Json], bool]) -> int:
    """Print each event on a line until the work is over or a person must act; survives a restart of the API."""
    deadline = time.monotonic() + args.timeout
    pause = 0.0
    while True:
        view: Json | None = None
        tried = False
        try:
            events = client.site.events(after, min(pause, max(0.0, deadline - time.monotonic())))
            view = client.site.resources()
            for event in events:
                after = event["sequence"]
                tried = tried or event["type"] == "error"
                if not args.json and event["type"] in ("state", "error", "receipt"):
                    say(f"{event['type']}: {event['message']}")
        except TemporaryError as error:
            warn(f"weft: {error}")
            time.sleep(POLL)
        if view is not None and over(view):
            _print_state(args, view)
            return 0
        if tried and view and view["needs_person"]:
            warn(f"weft: it needs attention, and is retried meanwhile: {view['reason']}")
            if args.json:
                write_json(view)
            return 1
        if time.monotonic() >= deadline:
            reason = f"{view['state']}: {view['reason']}" if view else "weft's API doesn't answer"
            warn(f"weft: not done after {args.timeout:g} s ({reason}); the work continues")
            if args.json and view is not None:
                write_json(view)
            return 1
        # The last state is written without an event, right after the last event.
        pause = POLL if view is not None and view["state"] == "READY" else LONGEST_PAUSE


def _print_plan(args: argparse.Namespace, answer: Json, applied: bool = False) -> None:
    from weft.cli import text

    if args.json:
        write_json(answer)
    else:
        say(text.site_plan(answer, applied))


def _print_state(args: argparse.Namespace, view: Json) -> None:
    if args.json:
        write_json(view)
    else:
        _summary(view)


def _there(view: Json) -> int:
    return sum(r["state"] not in ("absent", "wanted") for r in view["resources"])


def _summary(view: Json) -> None:
    pairs = [*((name.replace("_", " "), view.get(name)) for name in _NAMES), ("resources", _there(view))]
    say("\n".join(fields(pairs)))
    if view["has_receipt"]:
        say("weft site receipt shows what was read when it was removed")
