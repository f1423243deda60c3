"""Lists and records in the formats of every `openstack` command, written by cliff's own formatters.

A command that reads returns a `Listing` or a `Record`; `weft` writes it here, the plugin of `openstack` has cliff
write it.
The options are cliff's, by name and default (a test compares them). Of cliff only the requested formatter is imported,
when there is something to write; its entry points are never scanned.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from weft.cli.common import Run, Subparsers, cell, clean, leaf, say, short, warn, write_json
from weft.model.csvcells import cell_text
from weft.model.errors import InputError

_COMMON = {
    "json": "cliff.formatters.json_format:JSONFormatter",
    "table": "cliff.formatters.table:TableFormatter",
    "value": "cliff.formatters.value:ValueFormatter",
    "yaml": "cliff.formatters.yaml_format:YAMLFormatter",
}
LIST_FORMATS = {"csv": "cliff.formatters.commaseparated:CSVLister", **_COMMON}
SHOW_FORMATS = {**_COMMON, "shell": "cliff.formatters.shell:ShellFormatter"}
OPTIONS = (
    *(
        "--json",
        "--format",
        "--column",
        "--sort-column",
        "--sort-ascending",
        "--sort-descending",
        "--max-width",
    ),
    *("--fit-width", "--print-empty", "--noindent", "--quote", "--prefix"),
)
"""All options that are added here; docs/cli.md describes them once."""
_WORDS = {"id": "ID", "ip": "IP", "vlan": "VLAN", "ipu": "IPU"}


@dataclass(frozen=True, slots=True)
class Listing:
    """Result of a list command.

    Attributes:
        columns: keys of the rows that are shown, in order; missing ones are None.
        rows: values are what JSON knows.
        document: the API's answer, for `--json`; None: the rows.
        code: exit code.
        more: further keys, which are data for programs: in JSON and YAML, elsewhere where `-c` names one.
    """

    columns: Sequence[str]
    rows: Sequence[Mapping[str, Any]]
    document: object = None
    code: int = 0
    more: Sequence[str] = ()

    def columns_in(self, format_: str, named: Sequence[str] = ()) -> list[str]:
        """The columns of a format, also those that only `-c` shows if `named` has them."""
        wide = format_ in ("json", "yaml") or any(_normal(column) in self.more for column in named)
        return [*self.columns, *(self.more if wide else ())]

    @property
    def headings(self) -> tuple[str, ...]:
        """The columns' headings as `openstack` writes them: `Project ID` for `project_id`."""
        return tuple(
            " ".join(_WORDS.get(word, word.capitalize()) for word in column.split("_"))
            for column in self.columns
        )


@dataclass(frozen=True, slots=True)
class Record:
    """Result of a show command.

    Attributes:
        fields: name -> value; a table leaves the empty ones out.
        document: the API's answer, for `--json`.
        details: lists below the record's table; in other formats further fields.
        code: exit code.
    """

    fields: Mapping[str, Any]
    document: object
    details: Mapping[str, Listing] = field(default_factory=dict[str, Listing])
    code: int = 0


@dataclass(frozen=True, slots=True)
class ReadCommand:
    """`run` of a command that reads: writes what `look` returns.

    Attributes:
        many: `look` returns a `Listing`.
        run: replaces the writing in `weft`, as for `--follow`; None: write it.
    """

    look: Callable[[argparse.Namespace], Listing | Record]
    many: bool
    run: Run | None = None

    def __call__(self, args: argparse.Namespace) -> int:
        return self.run(args) if self.run is not None else write(self.look(args), args)


def listed(
    subparsers: Subparsers,
    name: str,
    look: Callable[[argparse.Namespace], Listing],
    help_: str,
    run: Run | None = None,
) -> argparse.ArgumentParser:
    """The parser of a list command; `look` returns the rows, `run` replaces writing them in `weft`."""
    parser = leaf(subparsers, name, ReadCommand(look, True, run), help_, json_=False)
    _list_options(_format_options(parser, LIST_FORMATS))
    return parser


def shown(
    subparsers: Subparsers, name: str, look: Callable[[argparse.Namespace], Record], help_: str
) -> argparse.ArgumentParser:
    """The parser of a show command; `look` returns the record."""
    parser = leaf(subparsers, name, ReadCommand(look, False), help_, json_=False)
    _format_options(parser, SHOW_FORMATS)
    return parser


def acting(
    subparsers: Subparsers, name: str, run: Callable[[argparse.Namespace], int], help_: str
) -> argparse.ArgumentParser:
    """The parser of a command that changes something: a sentence, or the record with `--format`.

    It has no `-f`, which is the file of commands that take one.
    """
    parser = leaf(subparsers, name, run, help_, json_=False)
    _format_options(parser, SHOW_FORMATS, default=None)
    return parser


def _format_options(
    parser: argparse.ArgumentParser, formats: Mapping[str, str], default: str | None = "table"
) -> argparse._ArgumentGroup:  # pyright: ignore[reportPrivateUsage]
    group = parser.add_argument_group("output formats")
    either = group.add_mutually_exclusive_group()
    names = ("-f", "--format") if default else ("--format",)
    said = f"output format (default {default or 'a sentence'})"
    either.add_argument(*names, dest="formatter", choices=sorted(formats), default=default, help=said)
    either.add_argument("--json", action="store_true", help="write the API's document as JSON")
    group.add_argument(
        "-c", "--column", dest="columns", metavar="COLUMN", action="append", default=[], help="repeatable"
    )
    group.add_argument(
        "--max-width",
        metavar="N",
        type=int,
        default=_variable("CLIFF_MAX_TERM_WIDTH"),
        help="width of a table, 0: any (CLIFF_MAX_TERM_WIDTH)",
    )
    group.add_argument(
        "--fit-width",
        action="store_true",
        default=bool(_variable("CLIFF_FIT_WIDTH")),
        help="fit a table to the terminal, as is done on one (CLIFF_FIT_WIDTH=1)",
    )
    group.add_argument("--print-empty", action="store_true", help="print a table without rows too")
    group.add_argument("--noindent", action="store_true", help="JSON on one line")
    if "csv" in formats:
        quotes = ("all", "minimal", "none", "nonnumeric")
        group.add_argument(
            "--quote", dest="quote_mode", choices=quotes, default="nonnumeric", help="what is quoted in CSV"
        )
    if "shell" in formats:
        parser.set_defaults(variables=[])
        group.add_argument("--prefix", default="", help="of the variables' names, for the format shell")
    return group


def _list_options(group: argparse._ArgumentGroup) -> None:  # pyright: ignore[reportPrivateUsage]
    group.add_argument(
        "--sort-column",
        dest="sort_columns",
        metavar="COLUMN",
        action="append",
        default=[],
        help="repeatable; the first one counts most",
    )
    either = group.add_mutually_exclusive_group()
    either.add_argument("--sort-ascending", dest="sort_direction", action="store_const", const="asc")
    either.add_argument("--sort-descending", dest="sort_direction", action="store_const", const="desc")


def _variable(name: str) -> int:
    text = os.environ.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 7 else 0


def write(found: Listing | Record, args: argparse.Namespace) -> int:
    """Write a result to stdout as the options say; returns its code. Raises `InputError` for an unknown column."""
    code = args.exit_code = found.code  # before any output: it stays if the reader closes the pipe
    if args.json:
        listed_ = isinstance(found, Listing) and found.document is None
        write_json(found.rows if listed_ else found.document)  # pyright: ignore[reportAttributeAccessIssue]
    elif isinstance(found, Listing):
        _write_listing(found, args)
    else:
        _write_record(found, args)
    return code


def _write_listing(found: Listing, args: argparse.Namespace) -> None:
    rows = list(found.rows)
    known = (*found.columns, *found.more)
    for column in reversed(_named(args.sort_columns, "--sort-column", known)):
        try:
            rows.sort(
                key=lambda row: (row.get(column) is None, row.get(column)),
                reverse=args.sort_direction == "desc",
            )
        except TypeError:
            warn(f"weft: rows can't be sorted by {column}: its values are of different kinds")
    wanted = _named(args.columns, "--column", known)
    there = found.columns_in(args.formatter, args.columns)
    columns = [column for column in there if not wanted or column in wanted]
    _emit_list(args.formatter, Listing(columns, rows), args)


def _emit_list(format_: str, listing: Listing, args: argparse.Namespace) -> None:
    values = [[_value(row.get(column), format_) for column in listing.columns] for row in listing.rows]
    _formatter(LIST_FORMATS, format_).emit_list(listing.headings, values, sys.stdout, args)


def _write_record(found: Record, args: argparse.Namespace) -> None:
    in_table = args.formatter == "table"
    wanted = _named(args.columns, "--column", (*found.fields, *found.details))
    fields = dict(found.fields) if in_table else {**found.fields, **as_fields(found, args.formatter)}
    names = [
        name
        for name, value in fields.items()
        if (not wanted or name in wanted) and not (in_table and value in (None, "", [], (), {}))
    ]
    if names or not in_table:
        values = [_value(fields[name], args.formatter, lines=in_table) for name in names]
        _formatter(SHOW_FORMATS, args.formatter).emit_one(names, values, sys.stdout, args)
    for name, listing in found.details.items():
        if in_table and (not wanted or name in wanted) and listing.rows:
            say(f"\n{name.replace('_', ' ').capitalize()}:")
            _emit_list("table", listing, args)


def as_fields(found: Record, format_: str) -> dict[str, list[dict[str, Any]]]:
    """A record's details as further fields: name -> rows of its columns in a format."""
    return {
        name: [{column: row.get(column) for column in listing.columns_in(format_)} for row in listing.rows]
        for name, listing in found.details.items()
    }


def _named(given: Sequence[str], option: str, columns: Sequence[str]) -> list[str]:
    """The columns that an option names. Raises `InputError` for an unknown one."""
    for column in given:
        if _normal(column) not in columns:
            raise InputError(option, column, f"one of {', '.join(columns)}")
    return [_normal(column) for column in given]


def _normal(column: str) -> str:
    return column.lower().strip().replace(" ", "_")


def _value(value: Any, format_: str, lines: bool = False) -> Any:
    """A value for a format: for people in tables, data in JSON and YAML, elsewhere text that can't control a terminal,
    begin a new line, or be computed by a spreadsheet.
    """
    if format_ in ("json", "yaml"):
        return _data(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return short(value) if format_ == "table" else value
    if format_ == "table":
        text = clean(cell(value))
        return text if lines else text.replace("\n", " ")
    if isinstance(value, str):
        text = clean(value).replace("\n", " ")
        return cell_text(text) if format_ == "csv" else text
    return clean(str(_data(value))) if isinstance(value, list | tuple | Mapping) else value


def _data(value: Any) -> Any:
    """A value in plain lists and dicts, which YAML requires."""
    if isinstance(value, Mapping):
        return {str(key): _data(item) for key, item in value.items()}  # pyright: ignore[reportUnknownArgumentType]
    return [_data(item) for item in value] if isinstance(value, list | tuple) else value


def _formatter(formats: Mapping[str, str], name: str) -> Any:
    module, _, class_ = formats[name].partition(":")
    return getattr(importlib.import_module(module), class_)()
