"""The fabric's processes, as jobs of the lab's supervisor: ibsim, then the subnet managers, then the agents."""

from __future__ import annotations

import os
import ssl
import sys
from pathlib import Path

import httpx

from weft.model.agentapi import AgentStatus
from weft.model.fabric import ManagerState
from weft.model.site import FabricAgent, Site
from weftlab.environment import program
from weftlab.fabric.arrival import arrival
from weftlab.fabric.files import FabricFolder, description, manager_port, write_files
from weftlab.layout import Layout
from weftlab.service import Check, Job, Service, Step

_START = (
    'rm -f opensm.log; echo $$ >opensm.pid; exec env LD_PRELOAD="$1" "$0" -F opensm.conf -p "$(cat priority)"'
)


def fabric_jobs(layout: Layout, site: Site, fabric: str | None = None) -> tuple[Job, ...]:
    """Jobs of one fabric of the site (none: its first): `fabric-files`, `ibsim`, `opensm-NAME`, `agent-NAME`."""
    place = FabricFolder(layout, fabric or next(iter(site.fabrics)))
    agents = site.fabrics[place.fabric].manager.agents
    jobs: list[Job] = [Step("fabric-files", run=lambda: write_files(site, place)), _ibsim(place, site)]
    before = "ibsim"
    last = f"opensm-{agents[-1].name}" if agents else ""
    for agent in agents:
        jobs.append(_opensm(site, place, agent, before))
        jobs.append(_agent(site, place, agent, last))
        # One after the other: the first is the master, so that a lab always looks the same.
        before = f"opensm-{agent.name}"
    return tuple(jobs)


def _sizes(site: Site, fabric: str) -> tuple[str, ...]:
    """Room for the fabric: ibsim has 256 switches, and 2,048 nodes, unless it is asked for more."""
    switches = [s for s in site.switches if s.fabric == fabric]
    hosts = sum(len(node.hcas_on(fabric)) for node in site.nodes)
    ports = sum(s.ports + 1 for s in switches) + 2 * hosts
    room = {"-N": hosts + len(switches), "-S": len(switches), "-P": ports}
    return tuple(word for option, number in room.items() for word in (option, str(max(4096, 2 * number))))


def _ibsim(place: FabricFolder, site: Site) -> Service:
    def ready() -> str | None:
        # ibsim says "ready" before its socket is bound, so the socket is what counts.
        if f"@{place.socket}:ctl" in Path("/proc/net/unix").read_text(errors="replace"):
            return None
        return "its control socket is not bound yet"

    return Service(
        name="ibsim",
        argv=(program("ibsim") or "ibsim", "-s", *_sizes(site, place.fabric), str(place.net)),
        log=place.layout.log("ibsim"),
        env={"IBSIM_SOCKNAME": place.socket},
        cwd=place.folder,
        stdin=place.commands,
        ready=ready,
        after=("fabric-files",),
        timeout=60,
        last=True,  # without a simulator its clients try forever, and don't hear SIGTERM
    )


def _opensm(site: Site, place: FabricFolder, agent: FabricAgent, after: str) -> Service:
    folder = place.of(agent.name)
    log = folder / "opensm.log"
    client = place.client(description(*manager_port(site, place.fabric, agent)))
    preload = client.pop("LD_PRELOAD")

    others = [place.of(a.name) for a in site.fabrics[place.fabric].manager.agents if a.name != agent.name]

    def ready() -> str | None:
        try:
            text = log.read_text(errors="replace")
        except OSError:
            return "no log yet"
        return None if "SUBNET UP" in text or "Entering STANDBY" in text else "no sweep has ended yet"

    return Service(
        name=f"opensm-{agent.name}",
        # opensm can write no pid file; the shell becomes it, so the number stays.
        # Only opensm may have the simulator's library: a shell with it would be a client too, and never disconnect.
        argv=("/bin/sh", "-c", _START, program("opensm") or "opensm", preload),
        log=place.layout.log(f"opensm-{agent.name}"),
        logs=(log,),
        env={
            **client,
            "OSM_CACHE_DIR": f"{folder / 'cache'}/",
            "OSM_TMP_DIR": f"{folder / 'tmp'}/",
        },
        cwd=folder,
        ready=ready,
        after=(after,),
        timeout=120,
        around=lambda: arrival(
            program("sminfo") or "sminfo", folder, others, {**client, "LD_PRELOAD": preload}
        ),
    )


def _agent(site: Site, place: FabricFolder, agent: FabricAgent, last: str) -> Service:
    folder = place.of(agent.name)
    return Service(
        name=f"agent-{agent.name}",
        argv=(sys.executable, "-m", "weft.fabricagent", "--config", str(folder / "agent.yaml")),
        log=place.layout.log(f"agent-{agent.name}"),
        env={**place.client(description(*manager_port(site, place.fabric, agent))), "PATH": _path()},
        cwd=folder,
        ready=agent_ready(place.tls, agent.url),
        after=(f"opensm-{agent.name}", last),
    )


def _path() -> str:
    return f"{os.environ.get('PATH', '/usr/bin:/bin')}:/usr/sbin:/sbin"


def agent_ready(tls: Path, url: str) -> Check:
    """Asks the agent itself: ready once its subnet manager is master or standby."""

    def check() -> str | None:
        try:
            with httpx.Client(verify=_context(tls), timeout=5, trust_env=False) as asking:
                answer = asking.get(f"{url}/v1/status")
            status = AgentStatus.model_validate_json(answer.content)
        except (OSError, ValueError, httpx.HTTPError) as error:
            return f"no answer at {url}: {error}"
        if status.state in (ManagerState.MASTER, ManagerState.STANDBY):
            return None
        return f"its subnet manager is {status.state}: {'; '.join(status.every_problem)}"

    return check


def _context(tls: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(tls / "ca.pem"))
    context.load_cert_chain(tls / "weft.pem", tls / "weft.key")
    return context
