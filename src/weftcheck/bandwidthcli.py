"""`weft-check bandwidth`."""

from __future__ import annotations

import argparse
import json
import shlex
import signal
import sys
import threading
import time
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

from weftcheck import bandwidthplan, ratetext
from weftcheck.bandwidth import Test, document, summary
from weftcheck.remote import sessions

USAGE = 2
_LARGEST = 4 * 1024 * 1024


def parser() -> argparse.ArgumentParser:
    """The parser of the arguments."""
    made = argparse.ArgumentParser(
        prog="weft-check bandwidth",
        description="Measure the bandwidth between all pairs of nodes, rail by rail, over SSH. Runs anywhere that "
        "reaches the nodes; they need sshd and perftest.",
        epilog="Exit code: 0 all pairs at their floor or above, 1 slow pairs, 2 wrong usage, 3 none slow, but some "
        "weren't measured or have no floor.",
    )
    made.add_argument("plan", type=Path, metavar="PLAN", help="`weft pod bandwidth-plan NAME` writes it")
    made.add_argument(
        "--output", type=Path, metavar="FILE", help="write the document there; default: standard output"
    )
    made.add_argument(
        "--ssh", default="ssh", metavar="COMMAND", help="ssh with options of your own, such as 'ssh -J jump'"
    )
    made.add_argument(
        "--within", type=float, default=7200.0, metavar="SECONDS", help="no pair begins later; default: 7200"
    )
    made.add_argument(
        "--nccl", type=Path, metavar="FILE", help="output of a run of nccl-tests, to be reported with it"
    )
    made.add_argument("-q", "--quiet", action="store_true", help="say nothing of the progress")
    return made


def main(arguments: Sequence[str]) -> int:
    """Run a command line; returns the exit code."""
    try:
        given = parser().parse_args(arguments)
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else USAGE
    try:
        source = _read(given.plan)
        plan = bandwidthplan.parse(source)
        nccl = None if given.nccl is None else ratetext.of_nccl(_read(given.nccl).decode("utf-8", "replace"))
        command = shlex.split(given.ssh)
        if given.nccl is not None and nccl is None:
            raise bandwidthplan.PlanError(f"--nccl {given.nccl}: isn't one whole table of nccl-tests")
        if not command or not 0 < given.within <= 86400:
            raise bandwidthplan.PlanError("--ssh needs a command, --within 1 to 86400 seconds")
    except (bandwidthplan.PlanError, ValueError) as error:
        print(f"weft-check: {error}", file=sys.stderr)
        return USAGE
    say = (
        (lambda text: None)
        if given.quiet
        else (lambda text: print(f"weft-check: {text}", file=sys.stderr, flush=True))
    )
    began = datetime.now(timezone.utc)
    with sessions(plan.nodes, command) as opened:
        test = Test(plan, opened, time.monotonic() + given.within, say)
        _until_stopped(test)
    times = (began, datetime.now(timezone.utc))
    text = json.dumps(document(plan, source, test, times, nccl), separators=(",", ":"))
    lines, code = summary(plan, test)
    print("\n".join(f"weft-check: {line}" for line in lines), file=sys.stderr)
    try:
        if given.output is None:
            print(text, flush=True)
        else:
            given.output.write_text(text + "\n")
    except OSError as error:
        print(f"weft-check: can't write the result: {error.strerror}", file=sys.stderr)
        if given.output is not None:  # it may have taken an hour
            print(text, flush=True)
        return USAGE
    return code


def _until_stopped(test: Test) -> None:
    """Run a test in a thread; on the first SIGINT or SIGTERM measurements in progress end, and no others begin."""

    def run() -> None:
        try:
            test.run()
        except (
            OSError,
            RuntimeError,
        ) as error:  # no process or thread can be started: what is left is not tried
            print(f"weft-check: the test ended early: {error}", file=sys.stderr)

    thread = threading.Thread(target=run)
    if threading.current_thread() is threading.main_thread():
        for one in (signal.SIGINT, signal.SIGTERM):
            signal.signal(one, lambda *_: test.stop.set())
    thread.start()
    thread.join()


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST + 1)
    except OSError as error:
        raise bandwidthplan.PlanError(f"{path}: can't be read: {error.strerror}") from None
    if len(data) > _LARGEST:
        raise bandwidthplan.PlanError(f"{path}: is larger than {_LARGEST} bytes")
    return data
