"""`weft capacity` and `weft reservation`: what can be ordered, and what is reserved."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from weft.cli.common import Json, Subparsers, client_of, group, leaf, say, table, write_json
from weft.cli.output import Listing, listed
from weft.model.errors import InputError


def add_commands(subparsers: Subparsers) -> None:
    parser = leaf(
        subparsers, "capacity", capacity, "show what can be ordered now, and when more will be available"
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
    parser = leaf(commands, "delete", delete, "delete a reservation")
    parser.add_argument("name", metavar="NAME", help="name of the reservation")


def capacity(args: argparse.Namespace) -> int:
    if args.offline != (args.site is not None):
        raise InputError(
            "--site", args.site and str(args.site), "--offline and --site FILE require each other"
        )
    found = _offline(args) if args.offline else _asked(args)
    if args.json:
        write_json(found)
        return 0
    say("\n".join(_text(found)))
    return 0


def _asked(args: argparse.Namespace) -> Json:
    return client_of(args).capacity(args.accelerator, args.level, args.duration)


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


def _text(found: Json) -> list[str]:
    lines: list[str] = []
    for row in found["rows"]:
        kind = row["accelerators"]
        each = f"{kind['count']} x {kind['type']}" if kind else "any nodes"
        where = f"fabric {row['fabric']}, cloud {row['cloud']}"
        lines += ["", f"{each} ({where}): {row['free']} of {row['nodes']} nodes are free"]
        lines += table(("inside_one", "now", "later", "where"), _levels(row), "  ")
        # A server of before NVLink domains and rails doesn't mention them.
        for one in row.get("nvlink", ()):
            lines.append(
                f"  {one['free']} of {one['domains']} NVLink domains of {one['nodes']} nodes are free as a whole"
            )
        if row.get("rails", 1) > 1:
            lines.append(f"  a leaf is {row['rails']} switches, one for each rail")
    for row in found["parts"]:
        where = "no fabric" if row["fabric"] == "none" else f"fabric {row['fabric']}"
        free = f"{row['free']} of {row['total']} are free on {row['nodes']} nodes, {row['shared']} of them shared"
        more = f"; {row['functions']} virtual functions are free" if row["functions"] is not None else ""
        lines += ["", f"{row['accelerator']} in parts of nodes ({where}, cloud {row['cloud']}): {free}{more}"]
        lines += table(("flavor", "accelerators", "servers"), _servers(row), "  ")
    for pod in found["ipus"]:
        free = f"{pod['free']} of {pod['machines']} IPU-Machines are free"
        hosts = f"Poplar servers with capacity: {pod['poplar_servers']}"
        lines += ["", f"IPUs of {pod['ipu_pod']} (cloud {pod['cloud']}): {free}, {hosts}"]
        one = {"now": pod["largest"]["count"], "later": _later(pod["soon"]), "where": pod["largest"]["where"]}
        lines += table(("now", "later", "where"), [one], "  ")
    if not found["rows"] and not found["ipus"]:
        in_parts = any(row["nodes"] for row in found["parts"])
        lines = [
            "",
            f"no node can be ordered{' as a whole' if in_parts else ''}",
            *(lines if in_parts else ()),
        ]
    queue = f"{found['waiting']} orders are in the queue" if found["waiting"] else "the queue is empty"
    return [*lines[1:], "", f"for orders that run for {found['duration']}; {queue}"]


def _servers(row: Json) -> list[dict[str, Any]]:
    return [{**one, "servers": one["count"]} for one in row["largest"]]


def _levels(row: Json) -> list[dict[str, Any]]:
    return [
        {
            "inside_one": one["level"],
            "now": one["count"],
            "later": _later(s for s in row["soon"] if s["level"] == one["level"]),
            "where": one["where"],
        }
        for one in row["largest"]
    ]


def _later(soon: Iterable[Json]) -> str:
    return ", ".join(f"{s['count']} from {s['at'][:16]}Z" for s in soon)


def create(args: argparse.Namespace) -> int:
    given = {"start": args.start, "end": args.end, "reason": args.reason}
    made = client_of(args).create_reservation(
        {
            "name": args.name,
            "project_id": args.project,
            "nodes": args.node,
            "leaves": args.leaf,
            **{k: v for k, v in given.items() if v is not None},
        }
    )
    if args.json:
        write_json(made)
    else:
        say(
            f"{len(made['nodes'])} nodes are reserved for project {made['project_id']}: {', '.join(made['nodes'])}"
        )
    return 0


def list_(args: argparse.Namespace) -> Listing:
    columns = ("name", "project_id", "start", "end", "nodes", "reason", "created_by")
    return Listing(columns, client_of(args).reservations())


def delete(args: argparse.Namespace) -> int:
    gone = client_of(args).delete_reservation(args.name)
    if args.json:
        write_json(gone)
    else:
        say(f"reservation {gone['name']} is deleted")
    return 0
