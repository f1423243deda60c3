"""Partition change of 16 of 800 hosts by the UFM driver, against the stand-in's own time for the same.

Both change real OpenSM over ibsim with the reference's 800 hosts through the same stand-in for UFM, in turns, in one
run, and are done when the members' own tables show it, read by the same agent. weft goes the whole way: it reads the
partitions, checks whose the P_Key is, sends the change, reads it back and reads the tables. UFM's own is a bare client:
one request, then the tables until they show it.
"""

from __future__ import annotations

import ssl
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx
import yaml

from weft.drivers.ufm import Ufm
from weft.drivers.wire.agents import HttpAgent
from weft.model.agentapi import TablesQuery
from weft.model.owner import Owner
from weft.model.resources import Resource, Status
from weft.model.site import Site
from weft.ports.ledger import NoLedger
from weft.ports.resources import Scope
from weft.testing.fabric import segment
from weftlab.fabric import fabric_jobs
from weftlab.layout import Layout, free_ports
from weftlab.site import FABRIC, make_site, settings
from weftlab.supervisor import Supervisor
from weftlab.ufm.service import credentials_path, ufm_jobs

ROUNDS = 9
HOSTS, MEMBERS, KEY = 800, 16, 0x101
GOAL = 1.2
SCOPE = Scope("lab", Owner.pod("0000be4c-0000-4000-8000-000000000002"), "bench", "bench")


def rows() -> list[dict[str, Any]]:
    """Medians in milliseconds, making and removing taken together, and their ratio."""
    with tempfile.TemporaryDirectory(prefix="weft-bench-") as folder:
        layout = Layout(Path(folder), Path(folder) / "cache", free_ports())
        site = make_site(settings(nodes=HOSTS, hcas=1, fabric_manager="ufm"), layout)
        supervisor = Supervisor(layout.run)
        try:
            supervisor.run((*fabric_jobs(layout, site), *ufm_jobs(layout, site, FABRIC)))
            own, weft = _measure(layout, site)
        finally:
            supervisor.stop()
    ratio = statistics.median(weft) / statistics.median(own)
    what = f"UFM: partition of {MEMBERS} of {HOSTS} hosts changed and read back"
    return [
        _row(f"{what}: the stand-in's own", 1000 * statistics.median(own), "ms", "", None, ""),
        _row(f"{what}: weft", 1000 * statistics.median(weft), "ms", "", None, ""),
        _row(f"{what}: ratio", ratio, "x", f"<= {GOAL}", ratio <= GOAL, "the stand-in's own"),
    ]


def _row(name: str, value: float, unit: str, goal: str, met: bool | None, against: str) -> dict[str, Any]:
    return {"name": name, "value": value, "unit": unit, "goal": goal, "met": met, "compared_with": against}


def _measure(layout: Layout, site: Site) -> tuple[list[float], list[float]]:
    members = [n.hcas[0].port_guid for n in site.nodes[:MEMBERS]]
    wanted = Resource(key="partition", name="weft-bench", where=FABRIC, spec=segment(KEY, members))
    driver = Ufm(site, FABRIC, NoLedger())
    bare = _Bare(layout, site, members)
    own: list[float] = []
    weft: list[float] = []
    for round_ in range(ROUNDS + 1):
        for present in (True, False):
            took_own = bare.change(present)
            if present:
                bare.change(False)  # each begins with nothing, and ends with what it made
            else:
                driver.create(SCOPE, [wanted], {})
                _check(driver, wanted, True)
            begun = time.perf_counter()
            (driver.create if present else driver.delete)(SCOPE, [wanted], {})
            took_weft = time.perf_counter() - begun
            _check(driver, wanted, present)
            if present:
                driver.delete(SCOPE, [wanted], {})
                _check(driver, wanted, False)
                bare.change(True)  # what the next half of the round takes away
            if round_:  # the first warms connections and maps on both sides
                own.append(took_own)
                weft.append(took_weft)
    driver.close()
    return own, weft


def _check(driver: Ufm, wanted: Resource, present: bool) -> None:
    """Not timed: the full reading agrees that the change was done when it was said to be."""
    found = driver.find(SCOPE, [wanted], {})[wanted.key]
    if (found.status is Status.SETTLED) is not present:
        raise RuntimeError(f"{wanted.name} is not as asked: {found}")


class _Bare:
    """A client that asks, and looks at the members' tables until they show it."""

    def __init__(self, layout: Layout, site: Site, members: list[int]) -> None:
        manager = site.fabrics[FABRIC].manager
        self._members = tuple(sorted(members))
        self._agent = HttpAgent(manager.agents[0], manager)
        found = yaml.safe_load(credentials_path(layout).read_text())
        self._client = httpx.Client(
            base_url=manager.addresses[0],
            verify=ssl.create_default_context(cafile=manager.ca),
            auth=(found["username"], found["password"]),
            trust_env=False,
        )

    def change(self, present: bool) -> float:
        """Seconds."""
        guids = [f"{g:016x}" for g in self._members]
        body = {
            "pkey": f"{KEY:#x}",
            "guids": guids,
            "membership": "full",
            "ip_over_ib": True,
            "index0": False,
        }
        begun = time.perf_counter()
        if present:
            self._client.put("/ufmRest/resources/pkeys/", json=body).raise_for_status()
        else:
            self._client.delete(f"/ufmRest/resources/pkeys/{KEY:#x}").raise_for_status()
        while not self._shown(present):
            time.sleep(0.001)
        return time.perf_counter() - begun

    def _shown(self, present: bool) -> bool:
        tables = self._agent.tables(TablesQuery(port_guids=self._members))
        return all(
            (KEY | 0x8000 in keys) is present for p in tables.ports for keys in (p.keys, p.leaf_keys or ())
        )
