"""Partition change of 16 of 800 hosts, until all tables are read back exact: weft against OpenSM alone.

Both change real OpenSM over ibsim with the reference's 800 hosts, 40 leaves and 20 spines, alternating in one run. weft
uses everything: driver, mutual TLS, agents, both managers' files (fsync), SIGHUP, tables of every host and leaf port.
OpenSM alone is a rename and SIGHUP on one manager by a program that reads the same tables directly.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

from bench.partition import ROUNDS, Measured, change, compared, made, members_of, on_a_fabric, partition_of
from weft.drivers.opensm import OpenSmDriver
from weft.model.site import Site
from weft.ports.ledger import NoLedger
from weftlab.fabric import FabricFolder, fabric_jobs
from weftlab.fabric.files import description
from weftlab.site import FABRIC

GOAL = 1.3


def rows() -> list[dict[str, Any]]:
    measured = on_a_fabric(fabric_jobs, lambda layout, site: _measure(FabricFolder(layout, FABRIC), site))
    return compared("partition", "OpenSM's own", measured, GOAL)


def _measure(place: FabricFolder, site: Site) -> Measured:
    members, wanted = members_of(site), partition_of(site)
    driver = OpenSmDriver(site, FABRIC, NoLedger())
    own: list[float] = []
    weft: list[float] = []
    # The tool reads as an uninvolved host, so that neither side shares its slot in the simulator.
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
                took_weft = change(driver, wanted, with_members)
                if round_:  # the first round warms up connections and maps on both sides
                    own.append(took_own)
                    weft.append(took_weft)
                # The tool knows the file without weft's section, so deleting the partition restores it.
                if with_members:
                    made(driver, wanted, False)
        tool.stdin.close()
    return own, weft
