"""The results of one run: as a document, and as lines for people."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from weftcheck import VERSION
from weftcheck.catalog import CODES
from weftcheck.host import Host, UnreadableError
from weftcheck.result import Result, Status

FORMAT = 1
"""Version of the document."""
_IDENTITY = {
    "hostname": "proc/sys/kernel/hostname",
    "machine_id": "etc/machine-id",
    "boot_id": "proc/sys/kernel/random/boot_id",
    "kernel": "proc/sys/kernel/osrelease",
    "product": "sys/class/dmi/id/product_name",
    "product_uuid": "sys/class/dmi/id/product_uuid",
    "serial": "sys/class/dmi/id/product_serial",
    "bios": "sys/class/dmi/id/bios_version",
}


def overall(results: Sequence[Result]) -> Status:
    """Failed if one failed, else unknown if one is unknown, or nothing was judged; else ok."""
    there = {result.status for result in results}
    for status in (Status.FAILED, Status.UNKNOWN, Status.OK):
        if status in there:
            return status
    return Status.UNKNOWN


def identity(host: Host) -> Mapping[str, str | None]:
    """Which machine this is; None: can't be read, as DMI's numbers without root."""
    found: dict[str, str | None] = {}
    for name, path in _IDENTITY.items():
        try:
            found[name] = host.text(path)[:200] or None
        except UnreadableError:
            found[name] = None
    return found


def document(
    host: Host,
    results: Sequence[Result],
    expected: bytes | None,
    when: datetime,
    parts: Sequence[Mapping[str, str]] = (),
) -> Mapping[str, Any]:
    """The document of `--json`; `expected` is the file of expected values, of which the digest is in it."""
    return {
        "version": FORMAT,
        "program": f"weft-check {VERSION}",
        "when": when.astimezone(timezone.utc).isoformat(timespec="microseconds"),
        "host": identity(host),
        "expected": None if expected is None else "sha256:" + hashlib.sha256(expected).hexdigest(),
        "status": overall(results).value,
        "results": [_member(result) for result in results],
        "parts": list(parts),
    }


def _member(result: Result) -> Mapping[str, Any]:
    entry = CODES[result.code]
    members = {**result._asdict(), "status": result.status.value}
    if result.nothing_expected is None:
        del members["nothing_expected"]
    if result.status in (Status.FAILED, Status.UNKNOWN):
        members.update(cost=entry.cost, mend=entry.mend)
    return members


_MARKS = {Status.OK: "ok", Status.FAILED: "FAILED", Status.UNKNOWN: "unknown", Status.SKIPPED: "skipped"}


def table(results: Sequence[Result], verbose: bool) -> str:
    """A line for each result, with source, cost and mending below what isn't ok; a count at the end."""
    lines: list[str] = []
    for result in results:
        if result.status is Status.SKIPPED and not verbose:
            continue
        lines.append(f"{_MARKS[result.status]:8}{result.code:17} {result.subject}: {result.reason}")
        if result.status is Status.FAILED or (result.status is Status.UNKNOWN and verbose):
            entry = CODES[result.code]
            lines += [f"{'':8}read from {result.source}", f"{'':8}{entry.cost} {entry.mend}"]
    counts = [(status, sum(r.status is status for r in results)) for status in Status]
    skipped = "" if verbose or not counts[-1][1] else " (--verbose shows them)"
    lines.append(", ".join(f"{count} {status.value}" for status, count in counts) + skipped)
    return "\n".join(printable(line) for line in lines)


def printable(line: str) -> str:
    """A line without control characters."""
    return "".join(letter if letter.isprintable() else "?" for letter in line)
