"""`weft part`: parts of nodes by their serial numbers."""

from __future__ import annotations

import argparse

from weft.cli.common import Subparsers, client_of, group
from weft.cli.output import Listing, Record, shown


def add_commands(subparsers: Subparsers) -> None:
    """Register `weft part`."""
    commands = group(
        subparsers, "part", "show where parts of nodes were, and what failed of them (operators)"
    )
    parser = shown(
        commands,
        "history",
        history,
        "show in which nodes a GPU or adapter was, and which of its checks failed",
    )
    parser.add_argument("serial", metavar="SERIAL", help="serial number or UUID of a GPU, GUID of an adapter")


def history(args: argparse.Namespace) -> Record:
    """`weft part history`."""
    found = client_of(args).nodes.part_history(args.serial)
    details = {
        "stays": Listing(("node", "place", "since", "seen_at"), found["stays"]),
        "failures": Listing(("at", "node", "place", "check", "reason"), found["failures"]),
    }
    return Record({name: found[name] for name in ("serial", "kind", "model")}, found, details)
