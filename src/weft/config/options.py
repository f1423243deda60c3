"""Options of the command line, made from the table of settings."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from weft.config.kinds import Choice, Flag
from weft.config.table import FILE, TABLE, VARIABLE, Setting


def add_file_option(parser: argparse.ArgumentParser) -> None:
    """`--config FILE`."""
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help=f"settings ({VARIABLE}; default {FILE}, if it is there)"
    )


def add_options(parser: argparse.ArgumentParser, *sections: str) -> None:
    """The options of some sections, in the table's order."""
    for one in TABLE:
        if one.section in sections:
            add_option(parser, one)


def add_option(parser: argparse.ArgumentParser, one: Setting) -> None:
    """One setting's option; its value is text, or absent."""
    if isinstance(one.kind, Flag):
        off = one.option.startswith("--no-")
        parser.add_argument(one.option, dest=one.dest, action="store_const", const=not off, help=help_of(one))
    elif isinstance(one.kind, Choice):
        parser.add_argument(one.option, dest=one.dest, choices=one.kind.values, help=help_of(one))
    else:
        parser.add_argument(one.option, dest=one.dest, metavar=one.metavar, help=help_of(one))


def help_of(one: Setting) -> str:
    """Meaning, variable and default."""
    if isinstance(one.kind, Flag):
        return one.option_meaning or one.meaning
    default = one.default_text
    notes = "; ".join(filter(None, (one.variable, f"default {default}" if default else "")))
    return f"{one.meaning} ({notes})" if notes else one.meaning


def given_options(args: argparse.Namespace) -> Mapping[str, object]:
    """Name -> text or flag of the options that were given."""
    found = {one.name: getattr(args, one.dest, None) for one in TABLE}
    return {name: value for name, value in found.items() if value is not None}
