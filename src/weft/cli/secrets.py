"""`weft secrets`: which secrets of the database are encrypted, and encrypting them with another key."""

from __future__ import annotations

import argparse

from weft.cli.backup import add_settings_options, local_settings
from weft.cli.common import Subparsers, group, leaf, say, warn
from weft.cli.output import Listing, listed

_SETTINGS = ("weft.database", "weft.state", "weft.secrets_key")


def add_commands(subparsers: Subparsers) -> None:
    """Register `weft secrets`."""
    commands = group(subparsers, "secrets", "encrypt the secrets in weft's database, with keys outside of it")
    parser = listed(
        commands, "list", shown, "list the secrets, and which key opens each; exit 1 if one can't be opened"
    )
    add_settings_options(parser, _SETTINGS)
    parser = leaf(
        commands,
        "rotate",
        rotate,
        "encrypt all secrets with the first key of the file, while weft runs",
        api=False,
        json_=False,
    )
    parser.add_argument("--unseal", action="store_true", help="store them without encryption instead")
    add_settings_options(parser, _SETTINGS)


def shown(args: argparse.Namespace) -> Listing:
    """A row for each secret, without its value; code 1 if an encrypted one can't be opened."""
    from weft.app import sealedsecrets

    rows = [
        {"name": one.name, "encrypted": one.sealed, "key": one.key}
        for one in sealedsecrets.listed(local_settings(args))
    ]
    locked = any(row["encrypted"] and row["key"] is None for row in rows)
    return Listing(("name", "encrypted", "key"), rows, code=1 if locked else 0)


def rotate(args: argparse.Namespace) -> int:
    """`weft secrets rotate`: encrypt all secrets with the first key, or store them plain; returns 0."""
    from weft.app import sealedsecrets

    done = sealedsecrets.rotated(local_settings(args), args.unseal)
    how = "not encrypted any more" if args.unseal else "encrypted with the first key of the file"
    say(f"{done.number} secrets: {how}")
    if done.left:
        warn(f"weft: values from before may still be in the table's file ({done.left}): VACUUM (FULL) secret")
    return 0
