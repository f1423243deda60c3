"""`weft site enroll`: enrolls the site's bare-metal machines in Ironic."""

from __future__ import annotations

import argparse
import os

from weft.cli.common import Subparsers, exit_code, leaf, say, seconds, table, write_json


def add_site_commands(commands: Subparsers) -> None:
    """Register `weft site enroll`."""
    what = "enroll the site's machines in Ironic, and compare its inspection with the site"
    enroll = leaf(commands, "enroll", _enroll, what, api=False)
    enroll.add_argument("file", metavar="FILE", help="site file (YAML)")
    enroll.add_argument("machines", metavar="LIST", help="hardware list (YAML): BMCs, accounts, ports")
    enroll.add_argument(
        "--os-cloud",
        metavar="NAME",
        default=argparse.SUPPRESS,  # else it would replace what stands before the command
        help="name in clouds.yaml, of an account with role admin and system scope (OS_CLOUD)",
    )
    enroll.add_argument("--check", action="store_true", help="change nothing, compare only")
    enroll.add_argument(
        "--inspect-again",
        action="store_true",
        help="inspect machines that are `manageable` again, for example after recabling",
    )
    enroll.add_argument(
        "--lldp",
        metavar="JSON",
        nargs="+",
        default=[],
        help="what switches heard, as for `weft site check --lldp`, each file named after its switch (tor1.json): for "
        "machines whose adapters' firmware keeps LLDP frames to itself",
    )
    enroll.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=seconds,
        default=3600.0,
        help="how long to wait for inspections and cleanings (default 3600); the next run continues",
    )


def _enroll(args: argparse.Namespace) -> int:
    """`weft site enroll`: 0 if all machines match site and list and can be assigned, else 1. Raises `InputErrors`."""
    from weft.app.enroll import enroll, read_input
    from weft.model.errors import InputError

    given = read_input(args.file, args.machines, args.lldp)
    cloud = getattr(args, "os_cloud", None) or os.environ.get("OS_CLOUD")
    if not cloud:
        raise InputError("--os-cloud", None, "a name in clouds.yaml, or OS_CLOUD")
    report = (lambda line: None) if args.json else say
    enrolled = enroll(given, cloud, args.inspect_again, args.check, args.timeout, report)
    code = exit_code(args, not enrolled.good)
    if args.json:
        write_json(enrolled.model_dump(mode="json"))
        return code
    rows = [
        {"machine": m.machine, "state": m.state or "-", "differences": len(m.differences)}
        for m in enrolled.machines
    ]
    for line in table(("machine", "state", "differences"), rows):
        say(line)
    for one in enrolled.machines:
        for difference in one.differences:
            say(f"{one.machine}: {difference}")
        for note in one.notes:
            say(f"{one.machine}: note: {note}")
    return code
