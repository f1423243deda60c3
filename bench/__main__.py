"""`make bench`: every measurement against its alternative in the same run; a table, and build/bench.json.

`python -m bench NAME...` runs only those. Each module `bench.NAME` has `rows()`, a list of `Row`s.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from weftlab.processes import interrupt_on_sigterm

SUITES = {
    "orders": "order of 16 nodes to ACTIVE, against scripts",
    "metal": "order of 4 bare-metal machines to ACTIVE, against a script",
    "replace": "a node of an InfiniBand and of a RoCE pod of 16 replaced, against a script that boots one server",
    "fabric": "partition change of 16 of 800 hosts, against OpenSM's own",
    "ufm": "partition change of 16 of 800 hosts through UFM's REST API, against the stand-in's own",
    "neutron_ports": "200 Neutron ports to the wire, against a stand-in that answers at once",
    "switches": "VLAN of 32 ports on 8 switches by each driver, against the switches' own",
    "roce": "a RoCE pod of 16 nodes to READY, against a script",
    "api": "list, by filters and pages, and show with 1,000 and 10,000 pods; idle cost of weft serve",
    "impact": "outage of a leaf, drain of 400 nodes, search for failing nodes, among 10,000 pods",
    "bandwidth": "certificates of 64 and 128 nodes with 8 rails, with planted faults",
    "links": "tables and counters of 800 hosts and 5,007 nodes, against infiniband-diags; who disturbs a pod",
    "telemetry": "share of a processor of agent and API with telemetry on, 800 hosts",
    "console": "pages at 16,000 nodes with 50 viewers, and 200 event streams",
    "requests": "processor time of one request of each kind",
    "placement": "decisions, quality, traces",
    "loop": "2,000 pods that boot at once, a release among them, claims among 10,000",
    "live": "visits to 10,000 READY pods",
    "audit": "audit and sweep with 10,000 READY pods",
    "visits": "an order of four nodes from claim to receipt: statements and processor time of each step",
    "endtoend": "orders a second from order to receipt",
    "site": "sites of 10,000 and 100,000 nodes: first upload, a change of one node",
    "bringup": "networks, ports and groups of an IPU-POD64 in Neutron, against a sequential script",
    "openvipu": "partitions of 64 IPUs, leaks, start",
    "against": "orders, loop and sites in turns with an earlier build (BASE, ROUNDS, OF)",
    "start": "weft --help and weft pod list, against the build of 93bb7bfa",
}
ALONE = frozenset({"against"})
"""Suites that only run by name: they repeat others, for an hour."""
EARLY = 130
"""Exit code of an interrupted bench."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument(
        "suites", nargs="*", metavar="NAME", help=f"of: {', '.join(SUITES)}; none: all but against"
    )
    parser.add_argument("--output", type=Path, default=Path("build/bench.json"))
    args = parser.parse_args()
    if unknown := set(args.suites) - set(SUITES):
        parser.error(f"NAME: {sorted(unknown)[0]!r} is not one of {', '.join(SUITES)}")
    interrupt_on_sigterm()  # so that a running lab is taken down when the bench is ended
    rows: list[dict[str, Any]] = []
    code = 0
    try:
        for name in args.suites or [one for one in SUITES if one not in ALONE]:
            code = 0 if _measured(name, rows) and not code else 1
    except KeyboardInterrupt:
        print("# ended early", flush=True)
        code = EARLY
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(json.dumps(rows, indent=1) + "\n")
    print(f"{len(rows)} rows in {args.output}; {sum(r['met'] is False for r in rows)} goals not met")
    return code


def _measured(name: str, rows: list[dict[str, Any]]) -> bool:
    """Add a suite's rows to `rows`. False: it couldn't be measured."""
    print(f"# {name}: {SUITES[name]}", flush=True)
    started = time.monotonic()
    try:
        found = importlib.import_module(f"bench.{name}").rows()
    except Exception as error:
        print(f"# {name} could not be measured: {type(error).__name__}: {error}", flush=True)
        return False
    rows += found
    _table(found)
    print(f"# {name}: {time.monotonic() - started:.0f} s", flush=True)
    return True


def _table(rows: list[dict[str, Any]]) -> None:
    cells = [
        (
            r["name"],
            _number(r["value"]),
            r["unit"],
            str(r["goal"] or ""),
            _met(r["met"]),
            str(r["compared_with"] or ""),
        )
        for r in rows
    ]
    head = ("name", "value", "unit", "goal", "met", "compared with")
    widths = [max(len(row[i]) for row in [head, *cells]) for i in range(len(head))]
    for row in [head, *cells]:
        print(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip(), flush=True
        )


def _number(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _met(met: bool | None) -> str:
    return {True: "yes", False: "NO", None: ""}[met]


if __name__ == "__main__":
    code = main()
    if code == EARLY:
        sys.stdout.flush()
        os._exit(code)  # a thread may still wait, for minutes, for something in the lab that is gone
    sys.exit(code)
