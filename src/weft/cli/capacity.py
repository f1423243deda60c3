"""`weft capacity` and `weft reservation`: what can be ordered, and what is reserved."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, cast

from weft.cli.common import Json, Subparsers, add_revision, client_of, day, group, leaf, say, write_done
from weft.cli.output import Listing, Record, listed, shown, write
from weft.model.errors import InputError, PermanentError
from weft.planning.words import some

COLUMNS = (
    *("shape", "accelerators", "cloud", "place", "unit", "free", "total"),
    *("inside", "orders", "largest", "later", "where", "counts"),
)
"""Columns. `free` and `total` count units; `largest` and `later` what orders count, within one domain of a level, or
with a flavor (`inside`)."""

STATES = ("free", "busy", "held", "drained", "failed", "maintenance", "quarantined")
"""States of nodes, the columns of `--history`."""


def add_commands(subparsers: Subparsers) -> None:
    """Register `weft capacity` and `weft reservation`."""
    parser = listed(
        subparsers,
        "capacity",
        capacity,
        "show what can be ordered now, and when more will be available",
        show_capacity,
    )
    parser.add_argument(
        "--accelerator", metavar="TYPE", help="only nodes with accelerators of this type; ipu: IPUs"
    )
    parser.add_argument(
        "--level",
        choices=("nvlink_domain", "leaf", "block", "hall", "building", "site"),
        help="only sizes within one domain of this level",
    )
    parser.add_argument(
        "--duration", metavar="TIME", default="24h", help="how long an order must be able to run (24h)"
    )
    parser.add_argument("--offline", action="store_true", help="for an empty site, without a server")
    parser.add_argument("--site", metavar="FILE", type=Path, help="site file for --offline")
    parser.add_argument(
        "--history", action="store_true", help="show nodes by type and state over time instead (operators)"
    )
    parser.add_argument(
        "--from",
        dest="since",
        metavar="TIME",
        help="start of --history, such as 2027-01-31; default: a week before its end",
    )
    parser.add_argument("--to", dest="until", metavar="TIME", help="its end; default: now")
    commands = group(subparsers, "reservation", "reserve nodes for a project (operators)")
    parser = leaf(commands, "create", create, "reserve nodes for a project")
    parser.add_argument("name", metavar="NAME", help="name of the reservation")
    parser.add_argument("--project", metavar="PROJECT", required=True, help="name or id of the project")
    parser.add_argument(
        "--node", metavar="NODE", action="append", default=[], help="a node or IPU-Machine; repeatable"
    )
    parser.add_argument(
        "--leaf",
        metavar="LEAF",
        action="append",
        default=[],
        help="all compute nodes of a leaf; repeatable",
    )
    parser.add_argument("--start", metavar="TIME", help="start, such as 2027-01-31T18:00Z; default: now")
    parser.add_argument("--end", metavar="TIME", help="end; default: until it is deleted")
    parser.add_argument("--reason", metavar="TEXT", help="why")
    listed(commands, "list", list_, "list reservations")
    parser = shown(commands, "show", show, "show a reservation")
    parser.add_argument("name", metavar="NAME", help="name of the reservation")
    parser = leaf(commands, "delete", delete, "delete a reservation")
    parser.add_argument("name", metavar="NAME", help="name of the reservation")
    add_revision(parser, "weft reservation show")


def capacity(args: argparse.Namespace) -> Listing:
    """`weft capacity`: a row for each level or flavor of each kind of capacity."""
    if args.offline != (args.site is not None):
        raise InputError(
            "--site", args.site and str(args.site), "--offline and --site FILE require each other"
        )
    if args.history:
        return _history(args)
    if args.since or args.until:
        raise InputError("--from, --to", args.since or args.until, "a period of --history")
    found = _offline(args) if args.offline else _asked(args)
    if not all("shape" in row for row in found["rows"]):
        said = "the server is of an older version, whose answer this client doesn't know"
        raise PermanentError("list capacity", "weft's API", said, "use --json of a client of that version")
    return Listing(COLUMNS, [line for row in found["rows"] for line in lines_of(row)], found)


def show_capacity(args: argparse.Namespace) -> int:
    """The list, with explanations below a table."""
    found = capacity(args)
    code = write(found, args)
    if args.history:
        return code
    if args.formatter == "table" and not args.json:
        document = cast(Json, found.document)
        waiting = document["waiting"]
        queue = f"{some(waiting, 'order')} in the queue" if waiting else "the queue is empty"
        nothing = "" if found.rows else "nothing can be ordered "
        say(f"{nothing}for orders that run for {document['duration']}; {queue}")
    return code


def _history(args: argparse.Namespace) -> Listing:
    if args.offline or args.accelerator or args.level:
        raise InputError("--history", "with --offline, --accelerator or --level", "without these")
    found = client_of(args).capacity.history(args.since and day(args.since), args.until and day(args.until))
    rows = [
        {"at": one["at"], "type": of["type"], "total": of["total"], **dict.fromkeys(STATES, 0), **of["states"],
         "waiting": one["waiting"]}
        for one in found["points"]
        for of in one["nodes"]
    ]  # fmt: skip
    return Listing(("at", "type", "total", *STATES, "waiting"), rows, found)


def _asked(args: argparse.Namespace) -> Json:
    return client_of(args).capacity.show(args.accelerator, args.level, args.duration)


def _offline(args: argparse.Namespace) -> Json:
    import re
    from datetime import UTC, datetime

    from weft.app.offline import capacity_of
    from weft.app.sitefile import load_site
    from weft.model.ids import DURATION
    from weft.model.placement import Occupancy
    from weft.planning.queue.book import Book

    if not re.fullmatch(DURATION, args.duration):
        raise InputError(
            "--duration", args.duration, "a whole number with a unit s, m, h or d, such as 90m, 12h or 7d"
        )
    now = datetime.now(UTC)
    view = capacity_of(
        load_site(args.site),
        Occupancy(),
        Book(),
        now,
        args.duration,
        accelerator=args.accelerator,
        level=args.level,
    )
    return view.model_dump(mode="json")


def lines_of(row: Json) -> list[dict[str, Any]]:
    """Each size of a row, with what is the same for all of them."""
    kind = row["accelerators"]
    alike = {
        **{name: row[name] for name in ("shape", "cloud", "place", "unit", "total", "free", "orders")},
        "accelerators": f"{kind['count']} x {kind['type']}" if kind else "any",
        "counts": "; ".join(map(_count, row["counts"])),
    }
    return [
        {
            **alike,
            "inside": one["level"] or one["flavor"],
            "largest": one["count"],
            "later": ", ".join(
                f"{s['count']} from {s['at'][:16]}Z" for s in row["soon"] if s["level"] == one["level"]
            ),
            "where": one["where"],
        }
        for one in row["largest"]
    ]


def _count(count: Json) -> str:
    """`NVLink domains of 4 nodes: 1 of 2 free`."""
    each = "" if count["each"] is None else f" of {some(count['each'], 'node')}"
    if count["free"] is None:
        return f"{count['name']}{each}: {count['total']}"
    of = "" if count["total"] is None else f" of {count['total']}"
    return f"{count['name']}{each}: {count['free']}{of} free"


def create(args: argparse.Namespace) -> int:
    """`weft reservation create`: prints the reserved nodes."""
    given = {"start": args.start, "end": args.end, "reason": args.reason}
    made = client_of(args).capacity.reserve(
        {
            "name": args.name,
            "project_id": args.project,
            "nodes": args.node,
            "leaves": args.leaf,
            **{k: v for k, v in given.items() if v is not None},
        }
    )
    nodes = f"{len(made['nodes'])} nodes are reserved for project {made['project_id']}"
    return write_done(args, made, f"{nodes}: {', '.join(made['nodes'])}")


def list_(args: argparse.Namespace) -> Listing:
    """`weft reservation list`."""
    columns = ("name", "project_id", "start", "end", "nodes", "reason", "created_by")
    return Listing(columns, client_of(args).capacity.reservations(), more=("created_at", "revision"))


def show(args: argparse.Namespace) -> Record:
    """`weft reservation show`."""
    found = client_of(args).capacity.reservation(args.name)
    return Record(found, found)


def delete(args: argparse.Namespace) -> int:
    """`weft reservation delete`."""
    gone = client_of(args).capacity.end_reservation(args.name, args.revision)
    return write_done(args, gone, f"reservation {gone['name']} is deleted")
