"""Partition change of 16 of 800 hosts, asked to read back exact in all tables: weft against OpenSM's own.

Both change real OpenSM over ibsim with the reference's 800 hosts, 40 leaves and 20 spines, in turns, in one run. weft
goes the whole way: driver, mutual TLS, agents, both managers' files (fsync), SIGHUP, tables of every host and leaf
port. OpenSM's own is a rename and SIGHUP on one manager by a program that reads the same tables directly.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from weft.drivers.opensm import OpenSm
from weft.model.owner import Owner
from weft.model.resources import Resource, Status
from weft.ports.ledger import NoLedger
from weft.ports.resources import Scope
from weft.testing.fabric import segment
from weftlab.fabric import Place, fabric_jobs
from weftlab.fabric.files import description
from weftlab.layout import Layout, free_ports
from weftlab.site import FABRIC, make_site, settings
from weftlab.supervisor import Supervisor

ROUNDS = 9
HOSTS, MEMBERS = 800, 16
GOAL = 1.3
SCOPE = Scope("lab", Owner.pod("0000be4c-0000-4000-8000-000000000001"), "bench", "bench")


def rows() -> list[dict[str, Any]]:
    """Medians in milliseconds, making and removing taken together, and their ratio."""
    with tempfile.TemporaryDirectory(prefix="weft-bench-") as folder:
        layout = Layout(Path(folder), Path(folder) / "cache", free_ports())
        site = make_site(settings(nodes=HOSTS, hcas=1), layout)
        supervisor = Supervisor(layout.run)
        try:
            supervisor.run(fabric_jobs(layout, site))
            own, weft = _measure(Place(layout, FABRIC), site)
        finally:
            supervisor.stop()
    ratio = statistics.median(weft) / statistics.median(own)
    what = f"partition of {MEMBERS} of {HOSTS} hosts changed and read back"
    return [
        _row(f"{what}: OpenSM's own", 1000 * statistics.median(own), "ms", "", None, ""),
        _row(f"{what}: weft", 1000 * statistics.median(weft), "ms", "", None, ""),
        _row(f"{what}: ratio", ratio, "x", f"<= {GOAL}", ratio <= GOAL, "OpenSM's own"),
    ]


def _row(name: str, value: float, unit: str, goal: str, met: bool | None, against: str) -> dict[str, Any]:
    return {"name": name, "value": value, "unit": unit, "goal": goal, "met": met, "compared_with": against}


def _measure(place: Place, site: Any) -> tuple[list[float], list[float]]:
    members = [n.hcas[0].port_guid for n in site.nodes[:MEMBERS]]
    spec = segment(0x101, members)
    wanted = Resource(key="partition", name="weft-bench", where=FABRIC, spec=spec)
    driver = OpenSm(site, FABRIC, NoLedger())
    own: list[float] = []
    weft: list[float] = []
    # The tool reads as a host that takes no part, so that neither side shares its place in the simulator.
    bystander = site.nodes[-3]
    environment = {
        **os.environ,
        **place.client(description(bystander, bystander.hcas[0])),
        "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin",
    }
    sm1 = place.of("sm1")
    with subprocess.Popen(
        [
            sys.executable,
            "-m",
            "bench.fabric_direct",
            sm1 / "partitions.conf",
            (sm1 / "opensm.pid").read_text().strip(),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ) as tool:
        assert tool.stdin and tool.stdout
        assert tool.stdout.readline().strip() == "ready"
        for round_ in range(ROUNDS + 1):
            for with_members in (True, False):
                listing = ",".join(f"{m:#x}" for m in members) if with_members else ""
                tool.stdin.write(f"{listing} 0x2001\n")
                tool.stdin.flush()
                took_own = float(tool.stdout.readline())
                took_weft = _weft(driver, wanted, with_members)
                if round_:  # the first warms connections and maps on both sides
                    own.append(took_own)
                    weft.append(took_weft)
                # weft's section is the operator's file as the tool knows it, plus nothing: put back by deletion.
                if with_members:
                    driver.delete(SCOPE, [wanted], {})
        tool.stdin.close()
    return own, weft


def _weft(driver: OpenSm, wanted: Resource, present: bool) -> float:
    if not present:
        driver.create(SCOPE, [wanted], {})
        _check(driver, wanted, True)
    begun = time.perf_counter()
    (driver.create if present else driver.delete)(SCOPE, [wanted], {})
    took = time.perf_counter() - begun
    _check(driver, wanted, present)
    return took


def _check(driver: OpenSm, wanted: Resource, present: bool) -> None:
    """Not timed: the full listing agrees that the change was done when it was said to be."""
    found = driver.find(SCOPE, [wanted], {}).get(wanted.key)
    if (found is not None and found.status is Status.SETTLED) is not present:
        raise RuntimeError(f"{wanted.name} is not as asked: {found}")
