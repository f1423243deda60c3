"""Shared by all commands: options, the client, and output.

Contract of a command provider: a module with `add_commands(subparsers)`, cheap to import (only argparse at
module level, everything else inside functions); each leaf parser sets `set_defaults(run=function)`, and
`function(args) -> int` returns the exit code and raises `WeftError`.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft.client import Client
    from weft.model.order import Order

Json = dict[str, Any]
Run = Callable[[argparse.Namespace], int]
SIGNING_IN = "signing in"
"""Title of the options of commands that ask weft's API."""
Subparsers = Any
"""`argparse._SubParsersAction`, which has no public name."""


def leaf(
    subparsers: Subparsers, name: str, run: Run, help_: str, *, api: bool = True, json_: bool = True
) -> argparse.ArgumentParser:
    """A command's parser with `run`, `--json` and, if it uses the API, the connection options."""
    parser: argparse.ArgumentParser = subparsers.add_parser(name, help=help_, description=sentence(help_))
    parser.set_defaults(run=run)
    if json_:
        parser.add_argument("--json", action="store_true", help="write JSON")
    if api:
        connection(parser)
    return parser


def group(subparsers: Subparsers, name: str, help_: str) -> Subparsers:
    """A command with sub-commands; alone it prints its help."""
    parser: argparse.ArgumentParser = subparsers.add_parser(name, help=help_, description=sentence(help_))
    parser.set_defaults(run=_show_help(parser))
    return parser.add_subparsers(metavar="COMMAND", title="commands")


def _show_help(parser: argparse.ArgumentParser) -> Run:
    def run(args: argparse.Namespace) -> int:
        parser.print_help(sys.stderr)
        return 2

    return run


def sentence(help_: str) -> str:
    """A help text as a sentence: with a capital and a full stop."""
    return help_[:1].upper() + help_[1:].rstrip(".") + "."


def keep_after_dashes(parser: argparse.ArgumentParser) -> None:
    """Have the parser leave what follows `--` in `args.after_dashes`, as it is; argparse counts it as arguments."""
    parse = parser.parse_known_args

    def parse_known_args(args: Sequence[str] | None = None, namespace: Any = None) -> Any:
        words = list(sys.argv[1:] if args is None else args)
        end = words.index("--") if "--" in words else len(words)
        found, rest = parse(words[:end], namespace)
        found.after_dashes = words[end + 1 :]
        return found, rest

    parser.parse_known_args = parse_known_args  # pyright: ignore[reportAttributeAccessIssue]


def connection(parser: argparse.ArgumentParser) -> None:
    """Options to authenticate and to find the API; SUPPRESS so that those before the command count too."""
    options = parser.add_argument_group(SIGNING_IN)
    for name, metavar, text in (
        ("--os-cloud", "NAME", "name in clouds.yaml (OS_CLOUD; without it, OS_* as usual)"),
        ("--os-region-name", "NAME", "region of the catalog (OS_REGION_NAME)"),
        ("--os-cacert", "FILE", "authority of Keystone's and weft's certificates (OS_CACERT)"),
        ("--endpoint", "URL", "URL of weft's API, overriding the catalog (WEFT_ENDPOINT)"),
    ):
        options.add_argument(name, metavar=metavar, default=argparse.SUPPRESS, help=text)


def client_of(args: argparse.Namespace) -> Client:
    """The client for the command's options; `args.client` if the caller provides one (plugins)."""
    ready = getattr(args, "client", None)
    if ready is not None:
        return ready
    from weft.client import connect

    return connect(
        cloud=getattr(args, "os_cloud", None),
        endpoint=getattr(args, "endpoint", None) or os.environ.get("WEFT_ENDPOINT"),
        region=getattr(args, "os_region_name", None),
        cacert=getattr(args, "os_cacert", None),
        given=getattr(args, "sign_in", None),
    )


def day(text: str) -> str:
    """A time as given; a day stands for its start in UTC."""
    return f"{text}T00:00:00Z" if len(text) == 10 else text


def add_revision(parser: argparse.ArgumentParser, seen: str) -> None:
    """`--revision`. Args: seen: the command that shows it."""
    parser.add_argument(
        "--revision",
        metavar="N",
        type=int,
        help=f"only if it has this revision ({seen}); otherwise nothing is changed",
    )


def write_json(value: object) -> None:
    """JSON for people and programs, on stdout."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def exit_code(args: argparse.Namespace, wrong: object) -> int:
    """1 if something is wrong, else 0. Call it before any output: the code stays if the reader closes the pipe."""
    args.exit_code = 1 if wrong else 0
    return args.exit_code


def say(text: str = "") -> None:
    """Print a line on stdout, without terminal control characters."""
    print(clean(text), flush=True)


def write_done(args: argparse.Namespace, document: object, sentence: str) -> int:
    """Write what a command did: its document with `--json`, otherwise a sentence. Returns 0."""
    if args.json:
        write_json(document)
    else:
        say(sentence)
    return 0


def warn(text: str) -> None:
    """A line on stderr."""
    print(clean(text), file=sys.stderr, flush=True)


def clean(text: str) -> str:
    """External text without control characters; line ends stay."""
    return "".join(c if c.isprintable() or c == "\n" else "\ufffd" for c in text)


def table(columns: Sequence[str], rows: Iterable[Mapping[str, Any]], indent: str = "") -> list[str]:
    """Aligned columns with a heading, one line per row however long, so that they can be piped.

    Args:
        columns: keys of the rows; the headings are the same in capitals.
    """
    cells = [[c.replace("_", " ").upper() for c in columns]]
    cells += [[clean(cell(row.get(c))).replace("\n", " ") for c in columns] for row in rows]
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    return [
        (indent + "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True))).rstrip()
        for line in cells
    ]


def fields(pairs: Iterable[tuple[str, Any]]) -> list[str]:
    """`name  value` lines; empty values are left out."""
    shown = [(name, cell(value)) for name, value in pairs if value not in (None, "", (), [], {})]
    width = max((len(name) for name, _ in shown), default=0)
    return [f"{name.ljust(width)}  {value}" for name, value in shown]


def cell(value: Any) -> str:
    """A value as a table cell: lists comma-separated, None as `-`, times without fractions of seconds."""
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return str(short(value))
    if isinstance(value, list | tuple):
        return ", ".join(cell(v) for v in value) or "-"
    text = str(value)
    if len(text) >= 20 and text[4:5] == text[7:8] == "-" and text[10:11] == "T" and text[19:20] in ".+Z":
        return text[:19].replace("T", " ") + "Z" if text.endswith(("Z", "+00:00")) else text
    return text


def short(value: float) -> float:
    """A number for people: six digits are enough, and 0.30000000000000004 is 0.3. Whole numbers stay as they are."""
    if isinstance(value, int) or not math.isfinite(value) or abs(value) >= 1e6:
        return value if isinstance(value, int) else round(value, 1)
    return float(f"{value:.6g}")


def seconds(text: str) -> float:
    """An option's value in seconds. Raises `ArgumentTypeError` unless it is a finite time."""
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not 0 < value < 1e7:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number of seconds")
    return value


def read_order(file: str) -> Order:
    """The order in a pod file. Raises `InputErrors` with file, line, field, value and what is allowed."""
    from weft.app.orderfile import load_order

    if file == "-":
        return load_order(read_stdin(), "<stdin>")
    return load_order(Path(file))


def read_stdin() -> str:
    """All of stdin, read like a file called <stdin>. Raises `InputErrors`."""
    from weft.app.sitefile import text_of

    return text_of(sys.stdin.buffer, "<stdin>")
