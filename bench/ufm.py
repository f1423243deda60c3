"""Partition change of 16 of 800 hosts by the UFM driver, against the stand-in's own time for the same.

Both change real OpenSM over ibsim with the reference's 800 hosts through the same stand-in for UFM, alternating in one
run, and are done when the members' own tables show it and all other ports' tables were read, by the same agent. weft
reads the partitions, checks who owns the P_Key, sends the change, reads it back and reads the tables. The stand-in's
own is a bare client: one request, then the members' tables until they show it, then all tables once.
"""

from __future__ import annotations

import ssl
import time
from typing import Any

import httpx
import yaml

from bench.partition import (
    KEY,
    ROUNDS,
    Measured,
    change,
    compared,
    made,
    members_of,
    on_a_fabric,
    partition_of,
)
from weft.drivers.ufm import Ufm
from weft.drivers.wire.agents import HttpAgent
from weft.model.agentapi import TablesQuery
from weft.model.site import Site
from weft.ports.ledger import NoLedger
from weftlab.fabric import fabric_jobs
from weftlab.layout import Layout
from weftlab.site import FABRIC
from weftlab.ufm.service import credentials_path, ufm_jobs

GOAL = 1.2


def rows() -> list[dict[str, Any]]:
    measured = on_a_fabric(
        lambda layout, site: (*fabric_jobs(layout, site), *ufm_jobs(layout, site, FABRIC)),
        _measure,
        fabric_manager="ufm",
    )
    return compared("UFM: partition", "the stand-in's own", measured, GOAL)


def _measure(layout: Layout, site: Site) -> Measured:
    wanted, driver = partition_of(site), Ufm(site, FABRIC, NoLedger())
    bare = _Bare(layout, site, members_of(site))
    own: list[float] = []
    weft: list[float] = []
    for round_ in range(ROUNDS + 1):
        for present in (True, False):
            took_own = bare.change(present)
            if present:
                bare.change(False)  # each half begins with nothing, and ends with what it created
            took_weft = change(driver, wanted, present)
            if present:
                made(driver, wanted, False)
                bare.change(True)  # what the next half of the round deletes
            if round_:  # the first round warms up connections and maps on both sides
                own.append(took_own)
                weft.append(took_weft)
    driver.close()
    return own, weft


class _Bare:
    """A client that requests a change, reads the members' tables until they show it, and then all tables once."""

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
        """Make or undo the change; returns its seconds."""
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
        self._agent.tables(TablesQuery())
        return time.perf_counter() - begun

    def _shown(self, present: bool) -> bool:
        tables = self._agent.tables(TablesQuery(port_guids=self._members))
        return all(
            (KEY | 0x8000 in keys) is present for p in tables.ports for keys in (p.keys, p.leaf_keys or ())
        )
