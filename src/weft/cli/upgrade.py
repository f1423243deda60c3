"""`weft upgrade`: the state of an upgrade that rolls, and its end."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING

from weft.cli.backup import add_settings_options, local_settings
from weft.cli.common import Subparsers, say
from weft.cli.output import Record, acting, write
from weft.ending import interrupted_by_signals

if TYPE_CHECKING:
    from weft.app.upgrades import Upgrade


def add_commands(subparsers: Subparsers) -> None:
    """Register `weft upgrade`."""
    parser = acting(
        subparsers,
        "upgrade",
        upgrade,
        "show which versions of weft work with the database, and what of an upgrade isn't made yet; --finish makes it",
    )
    parser.add_argument(
        "--finish",
        action="store_true",
        help="make the second half of the upgrade: from then on older versions are refused; refused itself while any "
        "is at work",
    )
    add_settings_options(parser)


def upgrade(args: argparse.Namespace) -> int:
    """`weft upgrade`: show the state, or finish the upgrade; returns 0."""
    from weft.app import upgrades

    if args.finish:
        with interrupted_by_signals():
            made = upgrades.finish(local_settings(args))
        if args.formatter is not None or args.json:
            return write(Record({"made": list(made)}, {"made": list(made)}), args)
        say(
            f"made {', '.join(made)}: older versions are refused from now on"
            if made
            else "nothing was left to make"
        )
        return 0
    found = upgrades.look(local_settings(args))
    if args.formatter is not None or args.json:
        fields = _fields(found)
        return write(Record(fields, fields), args)
    for line in _lines(found):
        say(line)
    return 0


def _fields(found: Upgrade) -> dict[str, object]:
    state = found.state
    return {
        "pending": list(state.pending),
        "unfinished": list(state.unfinished),
        "announced": list(state.announced),
        "newer": list(state.newer),
        "barred": list(state.barred),
        "documents": state.documents,
        "processes": [asdict(one) for one in found.processes],
        "older": [one.name for one in found.older],
    }


def _lines(found: Upgrade) -> list[str]:
    state, lines = found.state, list[str]()
    if state.barred:
        lines.append(f"this version is too old for the database: {', '.join(state.barred)}")
    if state.newer:
        lines.append(f"made by a newer weft, beside which this one works: {', '.join(state.newer)}")
    if state.pending:
        lines.append(f"made when a process of this version starts: {', '.join(state.pending)}")
    if state.unfinished:
        lines.append(f"made by weft upgrade --finish: {', '.join(state.unfinished)}")
    if state.announced:
        lines.append(f"begun, run weft upgrade --finish again: {', '.join(state.announced)}")
    older = {one.name for one in found.older}
    for one in found.processes:
        lines.append(f"{one.role} {one.name}: weft {one.version}{', older' if one.name in older else ''}")
    if not state.barred and not state.pending and not state.unfinished and not state.newer:
        lines.insert(0, "the database is this version's: nothing is left to make")
    return lines
