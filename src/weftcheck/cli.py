"""The program weft-check."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import NoReturn

from weftcheck import VERSION, checks, expected, report
from weftcheck.catalog import CODES
from weftcheck.host import Host, Runner, run
from weftcheck.result import Status

EXIT = {Status.OK: 0, Status.FAILED: 1, Status.UNKNOWN: 3}
USAGE = 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="weft-check",
        description="Check this machine as a node of an accelerator pod: PCIe, firmware, kernel, GPUs, ports, clock.",
        epilog="Exit code: 0 all ok, 1 a check failed, 2 wrong usage, 3 none failed but one is unknown.",
    )
    parser.add_argument("--version", action="version", version=f"weft-check {VERSION}")
    parser.add_argument(
        "--expect",
        type=Path,
        metavar="FILE",
        help="expected values; without it, only what is wrong by itself fails",
    )
    parser.add_argument("--json", action="store_true", help="print a JSON document")
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="also print what is skipped, and more of what is unknown"
    )
    parser.add_argument(
        "--check", action="append", metavar="CODE", help="check this code alone; may be given several times"
    )
    parser.add_argument("--list", action="store_true", help="list the codes")
    return parser


def main(arguments: Sequence[str] | None = None, root: Path = Path("/"), runner: Runner = run) -> int:
    """Run a command line (None: the process's own) and return its exit code. Other roots and runners are for tests."""
    parser = _parser()
    try:
        given = parser.parse_args(arguments)
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else USAGE
    unknown = [code for code in given.check or () if code not in CODES]
    if unknown:
        return _usage(f"--check {unknown[0]}: allowed are {', '.join(CODES)}")
    try:
        values, data = expected.load(given.expect) if given.expect else (expected.Expected(), None)
    except expected.ExpectedError as error:
        return _usage(str(error))
    if given.list:
        return _print("\n".join(f"{code:17} {entry.what}" for code, entry in CODES.items()), 0)
    try:
        host, when = Host(root, runner), datetime.now(timezone.utc)
        results = checks.check(host, values, given.check)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    code = EXIT[report.overall(results)]
    if given.json:
        return _print(json.dumps(report.document(host, results, data, when), indent=1), code)
    return _print(report.table(results, given.verbose), code)


def _print(text: str, code: int) -> int:
    try:
        print(text, flush=True)
    except BrokenPipeError:  # `weft-check | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        return _usage(f"can't write the result: {error.strerror}")
    return code


def _usage(sentence: str) -> int:
    print(f"weft-check: {sentence}", file=sys.stderr)
    return USAGE


def program() -> NoReturn:
    """The entry of the one-file program, whose own start drops what `main` returns."""
    sys.exit(main())


if __name__ == "__main__":
    program()
