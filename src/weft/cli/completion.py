"""`weft completion`: a shell completion script, generated from the parsers by shtab."""

from __future__ import annotations

import argparse

from weft.cli.common import Subparsers, leaf


def add_commands(subparsers: Subparsers) -> None:
    """Register `weft completion`."""
    parser = leaf(
        subparsers, "completion", completion, "print a shell completion script", api=False, json_=False
    )
    parser.add_argument(
        "shell", choices=("bash", "zsh", "tcsh"), help='for bash: eval "$(weft completion bash)"'
    )


def completion(args: argparse.Namespace) -> int:
    """Print the completion script of a shell."""
    import shtab

    from weft.cli.main import build_parser

    print(shtab.complete(build_parser(), shell=args.shell))
    return 0
