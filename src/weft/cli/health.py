"""`weft pod health`, `weft node health`, `weft site health`: what is well, and what isn't, and why."""

from __future__ import annotations

import argparse

from weft.cli.common import Json, Subparsers, client_of
from weft.cli.output import Listing, Record, listed, shown
from weft.cli.podrecord import CODED

VALUES = ("ok", "warning", "failed", "unknown")
_REASONS = ("health", "reason", "since")


def add_pod_commands(commands: Subparsers) -> None:
    """Register `weft pod health`."""
    parser = shown(commands, "health", pod, "show whether a pod and its nodes are well; exit 1 unless ok")
    parser.add_argument("name", metavar="NAME", help="name or id")


def add_node_commands(commands: Subparsers) -> None:
    """Register `weft node health`."""
    parser = listed(
        commands, "health", nodes, "show which nodes are well, and why not; with NODE exit 1 unless it is ok"
    )
    parser.add_argument("node", metavar="NODE", nargs="?", help="only this one, with a line for each reason")
    parser.add_argument("--health", choices=VALUES, help="only nodes of this health")


def add_site_commands(commands: Subparsers) -> None:
    """Register `weft site health`."""
    parser = listed(commands, "health", site, "count nodes by health")
    parser.add_argument(
        "--by",
        choices=("type", "rack", "project", "use", "cloud"),
        default="type",
        help="what nodes of a group have in common (default %(default)s)",
    )


def pod(args: argparse.Namespace) -> Record:
    """`weft pod health`."""
    found = client_of(args).pods.health(args.name)
    lines = [{"node": "", **one} for one in found["reasons"]]
    lines += [{"node": one["node"], **reason} for one in found["nodes"] for reason in one["reasons"]]
    details = {"reasons": Listing(("node", *_REASONS), lines, more=CODED)}
    fields = {name: found[name] for name in ("id", "name", "state", "health")}
    fields["nodes_ok"] = f"{sum(one['health'] == 'ok' for one in found['nodes'])} of {len(found['nodes'])}"
    return Record(fields, found, details, int(found["health"] != "ok"))


def nodes(args: argparse.Namespace) -> Listing:
    """`weft node health`."""
    client = client_of(args)
    if args.node is not None:
        one = client.nodes.health(args.node)
        reasons = one["reasons"] or [{"health": "ok", "reason": "", "since": None}]
        lines = [{"node": one["node"], **reason} for reason in reasons]
        return Listing(("node", *_REASONS), lines, one, int(one["health"] != "ok"), CODED)
    found = client.nodes.healths(args.health)
    columns = ("node", "health", "type", "rack", "use", "pod", "why")
    return Listing(columns, [{**one, "why": _why(one)} for one in found], found)


def site(args: argparse.Namespace) -> Listing:
    """`weft site health`; the last row is the sum."""
    found = client_of(args).site.health(args.by)
    rows = [*found["groups"], {**found["total"], "group": "(all)"}]
    lines = [{**row, args.by: row["group"] or "-"} for row in rows]
    return Listing((args.by, "nodes", *VALUES), lines, found)


def _why(node: Json) -> str:
    return "; ".join(one["reason"] for one in node["reasons"])
