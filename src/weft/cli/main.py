"""`weft`: one command tree. Only the provider of the given command is imported, for a fast start."""

from __future__ import annotations

import argparse
import errno
import importlib
import logging
import os
import sys
from collections.abc import Sequence
from typing import Any

from weft.cli.common import Subparsers, connection, warn, write_json
from weft.model.errors import RefusedError, WeftError
from weft.model.logtext import SafeFormatter

PROVIDERS: dict[str, tuple[str, str]] = {
    "pod": ("weft.cli.pod", "order, show and release pods"),
    "events": ("weft.cli.events", "show what happened to all pods of the project, the last 100 events"),
    "webhook": ("weft.cli.webhook", "have events of the project's pods sent to a URL, signed"),
    "capacity": ("weft.cli.capacity", "show what can be ordered now, and when more will be available"),
    "reservation": ("weft.cli.capacity", "reserve nodes for a project (operators)"),
    "site": ("weft.cli.site", "the site: machines, switches, cables, ranges"),
    "node": ("weft.cli.node", "list nodes; quarantine, hold, check and drain them"),
    "part": ("weft.cli.part", "show where parts of nodes were, and what failed of them (operators)"),
    "fabric": ("weft.cli.operator", "show fabrics"),
    "link": ("weft.cli.links", "show which pods use a link of a fabric (operators)"),
    "network": ("weft.cli.network", "show networks that tenants created on a fabric"),
    "search": ("weft.cli.search", "find by name, id, GUID, MAC or IP address, P_Key or VLAN"),
    "place": ("weft.cli.place", "simulate a trace of orders"),
    "audit": (
        "weft.cli.operator",
        "compare cloud and fabric with what pods own; exit 1 on findings",
    ),
    "audit-log": (
        "weft.cli.operator",
        "show who did what, when, from where, with what result; newest first",
    ),
    "receipt": ("weft.cli.receipt", "check receipts, and get the key to check them by"),
    "serve": ("weft.cli.serve", "run the HTTP API and a worker process"),
    "worker": ("weft.cli.serve", "run only workers, on the same database as `weft serve`"),
    "config": ("weft.cli.config", "check and show the settings of weft's processes (weft.toml)"),
    "doctor": (
        "weft.cli.doctor",
        "look at host, database, clouds and fabrics for what weft needs; exit 1 unless all is ok",
    ),
    "backup": (
        "weft.cli.backup",
        "write weft's database into a file, while weft runs; `weft backup verify FILE` reads one as a restore would",
    ),
    "restore": (
        "weft.cli.backup",
        "fill an empty database from a backup; nothing is changed outside before `weft audit --accept`",
    ),
    "upgrade": (
        "weft.cli.upgrade",
        "show which versions of weft work with the database, and what of an upgrade isn't made yet; --finish makes it",
    ),
    "secrets": ("weft.cli.secrets", "encrypt the secrets in weft's database, with keys outside of it"),
    "fabric-agent": ("weft.fabricagent.cli", "run the agent next to a subnet manager (OpenSM)"),
    "probe-agent": ("weft.probeagent.cli", "run the agent that sends frames from a host's adapters"),
    "completion": ("weft.cli.completion", "print a shell completion script"),
}
"""Command -> module with `add_commands`, and its help line, so that the help imports no provider."""
_SIGN_IN = ("--os-", "--insecure", "--verify")
"""Prefixes of the options that `weft.cli.signin` handles."""
ENTRY_POINTS = "weft.commands"
"""Entry points of further commands: the name is the command, the value a module with `add_commands`."""

_FULL = (errno.ENOSPC, errno.EDQUOT)
"""Errors of a device without room, such as /dev/full."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line; the exit code: 0 success, 1 failed, refused or with findings, 2 invalid request."""
    words = list(sys.argv[1:] if argv is None else argv)
    debug = bool(os.environ.get("WEFT_DEBUG"))
    args: argparse.Namespace | None = None
    if logging.lastResort is not None:  # libraries' warnings, where a command keeps no log
        logging.lastResort.setFormatter(SafeFormatter())
    try:
        given: dict[str, Any] = {}
        if any(word.startswith(_SIGN_IN) for word in words):
            from weft.cli.signin import taken

            given, words = taken(words)
        args = build_parser(words).parse_args(words)
        args.sign_in = given
        if sys.stdout is None:
            warn("weft: standard output is closed: nothing can be shown")
            return 1
        args.exit_code = args.run(args)
        sys.stdout.flush()
        return args.exit_code
    except SystemExit as error:  # argparse: 0 after --help, 2 after bad arguments
        return error.code if isinstance(error.code, int) else 2
    except KeyboardInterrupt:
        warn("interrupted")
        return 130
    except BrokenPipeError:
        _leave_stdout()
        return getattr(args, "exit_code", 0)
    except WeftError as error:
        if debug:
            raise
        return report(error, bool(getattr(args, "json", False)))
    except OSError as error:
        if error.errno not in _FULL or error.filename is not None:
            return _internal(error, debug)
        _leave_stdout()
        warn(f"weft: what is shown can't be written: {error.strerror}")
        return 1
    except Exception as error:
        return _internal(error, debug)


def _internal(error: Exception, debug: bool) -> int:
    if debug:
        raise error
    warn(
        f"weft: internal error: {type(error).__name__}: {error}; WEFT_DEBUG=1 shows the traceback; please report it"
    )
    return 1


def report(error: WeftError, as_json: bool = False) -> int:
    """Report an error to the user; with `--json` also its problem document on stdout. Returns the exit code."""
    from weft.cli.text import error_lines, refusal
    from weft.model.errortable import exit_code, to_problem

    for line in error_lines(error, refused=False):
        warn(f"weft: {line}")
    if isinstance(error, RefusedError) and not as_json:
        warn(refusal(error.detail))
    if as_json:
        try:
            write_json(to_problem(error))
            sys.stdout.flush()
        except BrokenPipeError:
            _leave_stdout()
    return exit_code(error)


def _leave_stdout() -> None:
    """The reader of the output has closed it, like `head`: no error, but nothing more may be written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def build_parser(words: Sequence[str] | None = None) -> argparse.ArgumentParser:
    """The parser for a command line; None: the whole tree, for completion and docs."""
    parser = argparse.ArgumentParser(
        prog="weft", description="Order accelerators with an isolated RDMA network from an OpenStack cloud."
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {_version()}")
    connection(parser)
    parser.set_defaults(run=lambda _: parser.print_help(sys.stderr) or 2)
    subparsers: Subparsers = parser.add_subparsers(metavar="COMMAND", title="commands")
    command = _command(words)
    if words is None:
        wanted = list(dict.fromkeys(module for module, _ in PROVIDERS.values()))
    else:
        wanted = [PROVIDERS[command][0]] if command in PROVIDERS else []
    for module in wanted:
        _provide(module, subparsers)
    for name, (_, help_) in PROVIDERS.items():
        if words is not None and name not in subparsers.choices:
            subparsers.add_parser(name, help=help_)
    if command not in PROVIDERS:
        _provide_plugins(subparsers, command)
    return parser


def _command(words: Sequence[str] | None) -> str | None:
    """The first word that isn't an option or an option's value."""
    rest = iter(words or ())
    for word in rest:
        if not word.startswith("-"):
            return word
        if word.startswith("--") and "=" not in word and word not in ("--help", "--version"):
            next(rest, None)
    return None


def _provide(module: str, subparsers: Subparsers) -> None:
    try:
        provider: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        return
    provider.add_commands(subparsers)


def _provide_plugins(subparsers: Subparsers, command: str | None) -> None:
    """Commands from entry points; one that can't be loaded is reported and must not break the others."""
    from importlib.metadata import entry_points

    found = entry_points(group=ENTRY_POINTS)
    named = [point for point in found if point.name == command]
    for point in named or sorted(found, key=lambda p: p.name):
        try:
            point.load().add_commands(subparsers)
        except Exception as error:
            warn(f"weft: the command {point.name} of {point.value} can't be loaded: {error}")


def _version() -> str:
    import weft

    return weft.__version__


if __name__ == "__main__":
    sys.exit(main())
