"""The program `weft`: every command where weft-pods is installed, the agents alone where only weft-pods-agents is."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import sys
from collections.abc import Sequence

WHOLE = "weft-pods"
"""The distribution with every other command."""
_AGENTS = {"fabric-agent": "weft.fabricagent.cli", "probe-agent": "weft.probeagent.cli"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line (None: the process's own) and return its exit code."""
    if importlib.util.find_spec("weft.cli") is None:
        return agents(argv)
    from weft.cli.main import main as whole

    return whole(argv)


def agents(argv: Sequence[str] | None = None) -> int:
    """Run a command line of an agent; 2 for any other command, with the distribution that has it."""
    import weft

    parser = argparse.ArgumentParser(
        prog="weft", description="weft's agents.", epilog=f"Every other command of weft is in {WHOLE}."
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {weft.__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", title="commands")
    parser.set_defaults(run=lambda _: parser.print_help(sys.stderr) or 2)
    words = list(sys.argv[1:] if argv is None else argv)
    if words and not words[0].startswith("-") and words[0] not in _AGENTS:
        print(f"weft {words[0]}: not among {', '.join(_AGENTS)}: install {WHOLE} for it", file=sys.stderr)
        return 2
    for module in _AGENTS.values():
        importlib.import_module(module).add_commands(commands)
    try:
        args = parser.parse_args(words)
        return args.run(args)
    except SystemExit as error:  # argparse: 0 after --help, 2 after bad arguments
        return error.code if isinstance(error.code, int) else 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
