"""`python -m weft.probeagent`: the agent without the rest of weft's command line."""

from __future__ import annotations

import argparse
import sys

from weft.probeagent.cli import add_commands


def main() -> int:
    """Run the agent; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m weft.probeagent")
    add_commands(parser.add_subparsers(required=True))
    args = parser.parse_args(["probe-agent", *sys.argv[1:]])
    return args.run(args)


if __name__ == "__main__":
    sys.exit(main())
