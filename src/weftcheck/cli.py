"""The program weft-check."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Callable, NoReturn

from weftcheck import VERSION, bandwidthcli, checks, expected, report, service
from weftcheck.catalog import CODES
from weftcheck.host import Host, Runner, run
from weftcheck.machine import Machine
from weftcheck.parts import parts
from weftcheck.result import Status

EXIT = {Status.OK: 0, Status.FAILED: 1, Status.UNKNOWN: 3}
USAGE = 2
UNREPORTED = 4


def parser() -> argparse.ArgumentParser:
    """The parser of the arguments."""
    made = argparse.ArgumentParser(
        prog="weft-check",
        description="Check this machine as a node of an accelerator pod: PCIe, firmware, kernel, GPUs, ports, clock.",
        epilog="`weft-check bandwidth` measures the bandwidth between nodes: weft-check bandwidth --help. "
        "Exit code: 0 all ok, 1 a check failed, 2 wrong usage, 3 none failed but one is unknown, 4 the result "
        "couldn't be reported.",
    )
    made.add_argument("--version", action="version", version=f"weft-check {VERSION}")
    made.add_argument(
        "--expect",
        type=Path,
        metavar="FILE",
        help="expected values; without it, only what is wrong by itself fails",
    )
    made.add_argument("--json", action="store_true", help="print a JSON document")
    made.add_argument(
        "-v", "--verbose", action="store_true", help="also print what is skipped, and more of what is unknown"
    )
    made.add_argument(
        "--check", action="append", metavar="CODE", help="check this code alone; may be given several times"
    )
    made.add_argument(
        "--expect-from",
        metavar="URL",
        help="take the expected values from weft, at the same URL as --report; needs --token-file",
    )
    made.add_argument(
        "--report",
        metavar="URL",
        help="report the result to weft: https://HOST[:PORT]/v1/nodes/NODE/checks; needs --token-file",
    )
    made.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help="file with the node's token (`weft node check-token NODE`)",
    )
    made.add_argument(
        "--cacert",
        type=Path,
        metavar="FILE",
        help="certificates to verify weft's with; default: the system's",
    )
    made.add_argument("--list", action="store_true", help="list the codes")
    return made


def main(
    arguments: Sequence[str] | None = None,
    root: Path = Path("/"),
    runner: Runner = run,
    sleep: Callable[[float], None] = time.sleep,
) -> int:
    """Run a command line (None: the process's own) and return its exit code. The other arguments are for tests."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    if words[:1] == ["bandwidth"]:
        return bandwidthcli.main(words[1:])
    try:
        given = parser().parse_args(words)
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else USAGE
    unknown = [code for code in given.check or () if code not in CODES]
    if unknown:
        return _usage(f"--check {unknown[0]}: allowed are {', '.join(CODES)}")
    try:
        values, data = expected.load(given.expect) if given.expect else (expected.Expected(), None)
        target = _target(given, given.report, sleep)
        source = _target(given, given.expect_from, sleep)
    except (expected.ExpectedError, service.UsageError) as error:
        return _usage(str(error))
    if given.list:
        return _print("\n".join(f"{code:17} {entry.what}" for code, entry in CODES.items()), 0)
    try:
        if source is not None:
            data = source.expected()
            values = expected.parse(data)
    except (service.ReportError, expected.ExpectedError) as error:
        print(f"weft-check: nothing is checked: expected values from weft: {error}", file=sys.stderr)
        return UNREPORTED
    try:
        host, when = Host(root, runner), datetime.now(timezone.utc)
        machine = Machine(host, values)
        results = checks.check_machine(machine, given.check)
        numbered = parts(machine) if given.json or target is not None else []
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    document = report.document(host, results, data, when, numbered)
    text = json.dumps(document, indent=1) if given.json else report.table(results, given.verbose)
    code = _print(text, EXIT[report.overall(results)])
    return code if target is None else _report(target, document, code)


def _target(
    given: argparse.Namespace, url: str | None, sleep: Callable[[float], None]
) -> service.Weft | None:
    """weft at the address that the arguments give; None without one. Raises UsageError."""
    if given.expect and given.expect_from:
        raise service.UsageError("--expect and --expect-from: give one of them")
    if not given.report and not given.expect_from and (given.token_file or given.cacert):
        raise service.UsageError("--token-file and --cacert are for --report and --expect-from")
    if url is None:
        return None
    if given.token_file is None:
        raise service.UsageError("--report and --expect-from need --token-file")
    if given.check and given.report:
        raise service.UsageError("--check isn't for --report: weft takes whole results alone")
    where = service.address(url)
    return service.Weft(where, service.token(given.token_file), service.trust(given.cacert), sleep)


def _report(target: service.Weft, document: Mapping[str, Any], code: int) -> int:
    """Report a result; returns its exit code, or the one for a result that couldn't be reported."""
    try:
        answer = target.report(document)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except service.ReportError as error:
        print(f"weft-check: the result isn't reported: {error}", file=sys.stderr)
        return UNREPORTED
    node, state = (report.printable(str(answer.get(name))[:100]) for name in ("node", "state"))
    old = (
        ", but was compared with other values than are expected now" if answer.get("outdated") is True else ""
    )
    print(f"weft-check: reported: node {node} is {state}{old}", file=sys.stderr)
    return code


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
