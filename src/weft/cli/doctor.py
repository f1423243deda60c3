"""`weft doctor`: checks what weft needs, without changing anything."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from weft.cli.common import Subparsers
from weft.cli.output import Listing, listed

LIMIT = 20
"""Seconds of each check, unless `--timeout` says otherwise."""
_SETTINGS = ("weft.database", "weft.state", "weft.cloud_profile", "weft.site")


def add_commands(subparsers: Subparsers) -> None:
    """Register `weft doctor`."""
    from weft.config.options import add_file_option, add_option
    from weft.config.table import TABLE

    parser = listed(
        subparsers,
        "doctor",
        examined,
        "look at host, database, clouds and fabrics for what weft needs; exit 1 unless all is ok",
    )
    parser.add_argument(
        "--timeout", metavar="SECONDS", default=str(LIMIT), help=f"limit of each check (default {LIMIT})"
    )
    parser.add_argument("--wrong", action="store_true", help="show only what isn't ok")
    parser.add_argument(
        "--service-version",
        action="append",
        default=[],
        metavar="[CLOUD/]SERVICE=VERSION",
        help="version of a cloud's service, such as nova=29.2.1, to compare with advisories; repeatable",
    )
    parser.add_argument("--advisories", metavar="FILE", help="a newer table of advisories (docs/doctor.md)")
    add_file_option(parser)
    for one in TABLE:
        if one.name in _SETTINGS:
            add_option(parser, one)


def examined(args: argparse.Namespace) -> Listing:
    """A row for each finding; code 1 unless all are ok. Raises `InputErrors` for settings that can't be used."""
    from weft.app.settings import settings_of
    from weft.config.kinds import NotAllowedError, Whole
    from weft.config.options import given_options
    from weft.config.resolve import config_file, resolve
    from weft.model.errors import InputError

    try:
        seconds = Whole(1, 600, "seconds").from_text(args.timeout)
    except NotAllowedError as error:
        raise InputError("--timeout", args.timeout, error.allowed) from None
    found = resolve(config_file(args.config, os.environ), os.environ, given_options(args))
    from weft.app.doctor.advisories import Advisories, read_stated, read_table
    from weft.app.doctor.examination import examine
    from weft.app.doctor.findings import DoctorLevel

    table = read_table(Path(args.advisories) if args.advisories else None)
    advisories = Advisories(table, read_stated(args.service_version))
    findings = examine(settings_of(found), float(seconds), advisories)
    bad = [one for one in findings if one.level is not DoctorLevel.OK]
    rows = [
        {
            "level": str(one.level),
            "code": one.code,
            "of": one.of,
            "what": one.what,
            "page": f"docs/{one.page}",
        }
        for one in (bad if args.wrong else findings)
    ]
    return Listing(("level", "code", "of", "what", "page"), rows, code=1 if bad else 0)
