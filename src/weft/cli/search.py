"""`weft search`: finds what has a name, id, address or number."""

from __future__ import annotations

import argparse

from weft.cli.common import Subparsers, client_of, warn
from weft.cli.output import Listing, listed

COLUMNS = ("kind", "name", "what", "unit", "state", "project_id", "id")


def add_commands(subparsers: Subparsers) -> None:
    """Register `weft search`."""
    parser = listed(subparsers, "search", search, "find by name, id, GUID, MAC or IP address, P_Key or VLAN")
    parser.add_argument("text", metavar="TEXT", help="the whole value: 0x8012, 'VLAN 120', gpu01")


def search(args: argparse.Namespace) -> Listing:
    """`weft search`."""
    found = client_of(args).search(args.text)
    if found["more"]:
        warn(f"only the first {len(found['hits'])} are listed")
    return Listing(COLUMNS, found["hits"], found)
