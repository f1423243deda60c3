"""`weft backup`, `weft restore`: weft's database, into a file and back."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from weft.cli.common import Subparsers, say, warn
from weft.cli.output import Record, acting, write
from weft.ending import interrupted_by_signals
from weft.model.errors import InputError

if TYPE_CHECKING:
    from weft.app.backups import ShownBackup
    from weft.app.settings import ServeSettings

_SETTINGS = ("weft.database", "weft.state")
VERIFY = "verify"


def add_commands(subparsers: Subparsers) -> None:
    """Register `weft backup` and `weft restore`."""
    parser = acting(
        subparsers,
        "backup",
        backup,
        "write weft's database into a file, while weft runs; `weft backup verify FILE` reads one as a restore would",
    )
    parser.add_argument(
        "words",
        metavar="FILE",
        nargs="*",
        help="new file, or a folder, in which its name has site and time (default: the current one); after the word "
        "verify: the file to read",
    )
    add_settings_options(parser)
    parser = acting(
        subparsers,
        "restore",
        restore,
        "fill an empty database from a backup; nothing is changed outside before `weft audit --accept`",
    )
    parser.add_argument("file", metavar="FILE", type=Path, help="made by weft backup")
    parser.add_argument(
        "--replace", action="store_true", help="remove what is in the database, if it is of the same site"
    )
    parser.add_argument(
        "--older",
        action="store_true",
        help="also a backup with an older schema, which weft serve then migrates",
    )
    add_settings_options(parser)


def add_settings_options(parser: argparse.ArgumentParser, names: Sequence[str] = _SETTINGS) -> None:
    """`--config`, and the options of some settings."""
    from weft.config.options import add_file_option, add_option
    from weft.config.table import TABLE

    add_file_option(parser)
    for one in TABLE:
        if one.name in names:
            add_option(parser, one)


def backup(args: argparse.Namespace) -> int:
    """`weft backup`: write a backup, or verify one; returns 0."""
    from weft.app import backups

    words: list[str] = args.words
    if words[:1] == [VERIFY]:
        if len(words) != 2:
            raise InputError("FILE", None if len(words) < 2 else words[1:], "one file to verify")
        found = backups.verify(Path(words[1]))
        notes = ["an older schema: weft restore takes it with --older"] if found.pending else []
        notes += [f"it must be {found.open}"] if found.open else []
        return _done(args, found, f"{found.path}: whole; {_of(found)}", notes)
    if len(words) > 1:
        raise InputError("FILE", words, f"one file or folder, or {VERIFY} and a file")
    with interrupted_by_signals():
        found = backups.make(local_settings(args), Path(words[0]) if words else None)
    return _done(args, found, f"{found.path}: {found.size} bytes; {_of(found)}", [backups.SECRETS])


def restore(args: argparse.Namespace) -> int:
    """`weft restore`: fill the database from a backup; returns 0."""
    from weft.app import backups

    with interrupted_by_signals():
        found = backups.put_back(local_settings(args), args.file, args.replace, args.older)
    notes = [
        "weft changes nothing outside until an operator has reviewed weft audit and run weft audit --accept"
    ]
    notes += (
        [f"weft serve migrates it when it starts, from {found.manifest.schema_name}"] if found.pending else []
    )
    return _done(args, found, f"restored {found.path}: {_of(found)}", notes)


def _done(args: argparse.Namespace, found: ShownBackup, said: str, notes: list[str]) -> int:
    if args.formatter is not None or args.json:
        fields = _fields(found)
        code = write(Record(fields, fields), args)
    else:
        say(said)
        code = 0
    for note in notes:
        warn(f"weft: {note}")
    return code


def _of(found: ShownBackup) -> str:
    manifest = found.manifest
    of = f"site {manifest.site}, {manifest.pods} pods" if manifest.site else "no site yet"
    return f"{of}, of {manifest.taken_at:%Y-%m-%d %H:%M:%S}Z, weft {manifest.weft}, schema {_number(found)}"


def _number(found: ShownBackup) -> str:
    return found.manifest.schema_name.partition("_")[0]


def _fields(found: ShownBackup) -> dict[str, object]:
    manifest = found.manifest
    return {
        "file": str(found.path),
        "size": found.size,
        "site": manifest.site,
        "taken_at": manifest.taken_at.isoformat(),
        "pods": manifest.pods,
        "epochs": dict(manifest.epochs),
        "weft": manifest.weft,
        "schema": manifest.schema_name,
        "pending": list(found.pending),
        "postgresql": manifest.postgresql,
        "sha256": manifest.sha256,
    }


def local_settings(args: argparse.Namespace) -> ServeSettings:
    """The settings of a command that works without the API. Raises `InputErrors`."""
    from weft.app.settings import settings_of
    from weft.config.options import given_options
    from weft.config.resolve import config_file, resolve

    return settings_of(resolve(config_file(args.config, os.environ), os.environ, given_options(args)))
