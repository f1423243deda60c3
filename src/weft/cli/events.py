"""`weft events`: what happened to all pods of a project, or of all projects; `--follow` shows what comes."""

from __future__ import annotations

import argparse
import json
import time

from weft.cli.common import Json, Subparsers, client_of, say, warn
from weft.cli.output import Listing, listed, write
from weft.cli.podrecord import CODED
from weft.model.errors import ConflictError, InputError, TemporaryError

SOME = 100
"""Events that are shown first, unless `--after` or `--newest` says more."""


def add_commands(subparsers: Subparsers) -> None:
    """Register `weft events`."""
    parser = listed(
        subparsers, "events", look, "show what happened to all pods of the project, the last 100 events", run
    )
    parser.add_argument("--follow", action="store_true", help="continue as events arrive, a line each")
    first = parser.add_mutually_exclusive_group()
    first.add_argument(
        "--newest", metavar="N", type=int, help=f"only the last so many, at most 1000 (default {SOME})"
    )
    first.add_argument(
        "--after", metavar="POSITION", help="only events after this one (column `position` of -f json)"
    )
    parser.add_argument("--all-projects", action="store_true", help="of all projects (operators)")
    parser.add_argument("--project", metavar="ID", help="only of this project, with --all-projects")


def look(args: argparse.Namespace) -> Listing:
    """The events so far."""
    return _listing(args, _page(args, args.after)["events"])


def run(args: argparse.Namespace) -> int:
    """A list; with `--follow` one line per event, with `-f json` one object per line."""
    if not args.follow:
        return write(look(args), args)
    if args.formatter not in ("table", "json"):
        raise InputError("--format", args.formatter, "json with --follow, or none: a line of text per event")
    as_json = args.formatter == "json"
    page = _page(args, args.after)
    while True:
        if page.get("removed"):  # no API before this one has it
            warn(
                "weft: events before these were removed before they were read: the site didn't keep them that long"
            )
        for event in page["events"]:
            say(json.dumps(event, ensure_ascii=False) if as_json else _line(args, event))
        page = _next(args, page["position"])


def _page(args: argparse.Namespace, after: str | None, wait: float = 0.0) -> Json:
    newest = None if after is not None else SOME if args.newest is None else args.newest
    return client_of(args).events(after, wait, newest, all_projects=args.all_projects, project=args.project)


def _next(args: argparse.Namespace, after: str) -> Json:
    """The next page once there is one. An outage is reported once; a restored database is read from its last events."""
    from weft.client import LONGEST_WAIT

    trouble = ""
    while True:
        try:
            return _page(args, after, LONGEST_WAIT)
        except ConflictError as error:
            warn(f"weft: {error}; the last {args.newest or SOME} follow")
            return _page(args, None)
        except TemporaryError as error:
            if str(error) != trouble:
                warn(f"weft: {error}")
            trouble = str(error)
            time.sleep(error.delay)


def _listing(args: argparse.Namespace, events: list[Json]) -> Listing:
    project = ("project_id",) if args.all_projects else ()
    return Listing(("at", *project, "pod", "type", "message"), events, more=("position", "pod_id", *CODED))


def _line(args: argparse.Namespace, event: Json) -> str:
    project = f"{event['project_id']}  " if args.all_projects else ""
    return f"{event['at'][:19]}  {project}{event['pod']:<16}  {event['type']:<8}  {event['message']}"
