"""What bandwidth programs print: perftest from 4.5 on, `ucx_perftest`, and nccl-tests.

A unit or a form that isn't known is refused: a wrong figure is worse than none. Real outputs: `tests/data/bandwidth`.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

_MIB = 8 * 2**20 / 1e9
_UNITS = {"Gb/sec": 1.0, "MB/sec": _MIB, "MiB/sec": _MIB}
"""Factors to Gb/s. perftest's MB are 2^20 bytes; newer versions say so (perftest_resources.h, RESULT_FMT)."""
_HEADER = re.compile(
    r"#bytes\s+#iterations\s+BW peak\[([^\]]*)\]\s+BW average\[([^\]]*)\]\s+MsgRate\[Mpps\]\s*"
)
_LIMIT = 1e6
"""Gb/s that no adapter has: a larger figure is refused."""

REASONS = {
    "BUSY": "another bandwidth test runs on the node",
    "FAILED": "the program ended with an error that isn't known",
    "NODE_LOST": "the node's SSH session ended during the test",
    "NOT_TRIED": "the test ended before",
    "NOT_UNDERSTOOD": "the program printed no table, or one in a unit or form that isn't known",
    "NO_ADAPTER": "the node has no such adapter",
    "NO_DEVICE": "the program doesn't find the RDMA device",
    "NO_GID": "the port has no RoCE v2 GID",
    "NO_LOGIN": "no login by SSH",
    "NO_MEMORY": "memory couldn't be registered (memlock limit)",
    "NO_PATH": "the adapters don't reach each other: partition, GID or path",
    "NO_PEER": "the other side didn't listen",
    "NO_PKEY": "the pod's P_Key isn't in the port's table",
    "NO_PROGRAM": "the program isn't installed on the node",
    "PORT_DOWN": "the port isn't active",
    "TIMED_OUT": "no end within the limit",
}
"""Why a pair has no figure. weft has the same codes (`weft.model.bandwidth`)."""

_SAID = (
    (
        "NO_DEVICE",
        r"Unable to find the Infiniband/RoCE device|IB device \S+ not found|Did not detect devices",
    ),
    ("NO_DEVICE", r"network device '[^']*' is not available"),
    (
        "NO_MEMORY",
        r"Couldn't allocate MR|Couldn't allocate memory|Cannot allocate memory|failed to register memory",
    ),
    ("NO_PEER", r"Couldn't connect to|Connection refused"),
    ("NO_PATH", r"Failed to modify QP|Unable to Connect the HCA|Completion with error|Failed status"),
    ("NO_PATH", r"Incompatibility issue with GID types"),
    ("NO_PATH", r"Destination is unreachable|Endpoint timeout|Endpoint is not connected"),
)
"""What perftest and UCX say when they end with an error; the first one that fits."""


class Rate(NamedTuple):
    """Average of one run. Attributes: gbps: Gb/s."""

    gbps: float


class NoRate(NamedTuple):
    """A run without a figure. Attributes: reason: one of `REASONS`; said: the program's last words."""

    reason: str
    said: str = ""


class Collective(NamedTuple):
    """A table of nccl-tests.

    Attributes:
        gbps: average bus bandwidth of all sizes, in Gb/s; best: that of the best row.
        wrong: wrong elements in all rows; None: not checked.
    """

    gbps: float
    best: float
    wrong: int | None


def of_run(program: str, code: int, text: str) -> Rate | NoRate:
    """The rate that a run printed.

    Args:
        program: `perftest` or `ucx`.
        code: its exit code; 124 and 137 are `timeout`'s.
    """
    if code in (124, 137):
        return NoRate("TIMED_OUT", _last(text))
    if code != 0:
        return NoRate("NO_PROGRAM" if code in (126, 127) else _why(text), _last(text))
    gbps = _perftest(text) if program == "perftest" else _ucx(text)
    return NoRate("NOT_UNDERSTOOD", _last(text)) if gbps is None else Rate(gbps)


def _why(text: str) -> str:
    return next((reason for reason, pattern in _SAID if re.search(pattern, text, re.I)), "FAILED")


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip(" \t-*")]
    return "".join(c if c.isprintable() else " " for c in lines[-1][:200]) if lines else ""


def _perftest(text: str) -> float | None:
    """The average of the one row below the one header."""
    lines = text.splitlines()
    heads = [
        (i, match) for i, line in enumerate(lines) for match in [_HEADER.fullmatch(line.strip())] if match
    ]
    if len(heads) != 1:
        return None
    start, match = heads[0]
    if match[1] != match[2] or match[1] not in _UNITS:
        return None
    rows = [line.split() for line in lines[start + 1 :] if re.match(r"\s*\d+\s", line)]
    if len(rows) != 1 or len(rows[0]) != 5:
        return None
    return _scaled(rows[0][3], _UNITS[match[1]])


def _ucx(text: str) -> float | None:
    """The overall bandwidth of the last row: iterations, three overheads, two bandwidths in 2^20 bytes, two rates."""
    if not re.search(r"\|\s*bandwidth \(MB/s\)\s*\|", text):
        return None
    rows = [
        line.split()
        for line in text.splitlines()
        if re.match(r"\s*(Final:\s+|\[thread \d+\]\s+)?\d+\s+[\d.]", line)
    ]
    row = [word for word in rows[-1] if re.fullmatch(r"[\d.]+(e[+-]?\d+)?|nan|inf", word)] if rows else []
    return _scaled(row[5], _MIB) if len(row) == 8 else None


def _scaled(word: str, factor: float) -> float | None:
    try:
        value = float(word) * factor
    except ValueError:
        return None
    return value if math.isfinite(value) and 0 <= value < _LIMIT else None


def of_nccl(text: str) -> Collective | None:
    """What nccl-tests printed; None: not one whole table of it."""
    averages = re.findall(r"^#\s*Avg bus bandwidth\s*:\s*(\S+)\s*$", text, re.M)
    bounds = re.search(r"^#\s*Out of bounds values\s*:\s*(\d+)\s+(OK|FAILED)\s*$", text, re.M)
    heads = re.findall(r"^#\s+size\s+count\s+type\s+.*busbw\s+(?:#wrong|error)", text, re.M)
    unit = re.search(r"^#\s+\(B\)\s+\(elements\)\s+.*\(GB/s\)\s+\(GB/s\)", text, re.M)
    rows = [line.split() for line in text.splitlines() if re.match(r"\s*\d+\s+\d+\s+[a-z]", line)]
    # Several tables are several runs, or processes of a build without MPI, each of which measures itself.
    if len(averages) != 1 or bounds is None or len(heads) != 1 or unit is None or not rows:
        return None
    wrong: int | None = 0
    best = 0.0
    for row in rows:
        if len(row) not in (9, 13):
            return None
        for column in range(len(row) - 4, 4, -4):
            rate = _scaled(row[column + 2], 8.0)
            if rate is None or not re.fullmatch(r"\d+|N/A", row[column + 3]):
                return None
            best = max(best, rate)
            wrong = None if wrong is None or row[column + 3] == "N/A" else wrong + int(row[column + 3])
    gbps = _scaled(averages[0], 8.0)
    if gbps is None:
        return None
    if bounds[2] == "FAILED":
        wrong = max(1, wrong or 0, int(bounds[1]))
    return Collective(gbps, best, wrong)
