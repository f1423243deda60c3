"""`weft site use`: hours of nodes and accelerators in a period."""

from __future__ import annotations

import argparse

from weft.cli.common import Subparsers, client_of, day
from weft.cli.output import Listing, listed


def add_site_commands(commands: Subparsers) -> None:
    """Register `weft site use`."""
    parser = listed(commands, "use", use, "show node and accelerator hours of the project's pods in a period")
    parser.add_argument(
        "--from",
        dest="since",
        metavar="TIME",
        help="begin, such as 2027-01-01 or 2027-01-01T00:00Z; default: the begin of this month (UTC)",
    )
    parser.add_argument("--to", dest="until", metavar="TIME", help="end; default: now")
    parser.add_argument(
        "--by",
        choices=("pod", "project", "type"),
        default="pod",
        help="what has a row of its own (default %(default)s)",
    )
    parser.add_argument("--all-projects", action="store_true", help="of all projects (operators)")
    parser.add_argument("--project", metavar="ID", help="only of this project, with --all-projects")


def use(args: argparse.Namespace) -> Listing:
    """`weft site use`."""
    since = day(args.since) if args.since else _begin_of_month()
    found = client_of(args).use(
        since,
        day(args.until) if args.until else None,
        by=args.by,
        all_projects=args.all_projects,
        project=args.project,
    )
    named = {"pod": ("project_id", "pod", "pod_id"), "project": ("project_id",), "type": ()}[args.by]
    return Listing((*named, "type", "state", "node_hours", "accelerator_hours"), found["rows"], found)


def _begin_of_month() -> str:
    from datetime import UTC, datetime

    return datetime.now(UTC).strftime("%Y-%m-01T00:00:00Z")
