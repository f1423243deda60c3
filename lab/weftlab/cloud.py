"""OpenStack's processes as services: the APIs under uwsgi, Neutron's RPC server, Nova's fleet, the stand-in agents."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import Any

from weft.model.site import Node, Site
from weft.planning.export.policies import policy
from weftlab import checks, config, ipu, ldap, mlnx, trail
from weftlab.bootstrap import connect
from weftlab.catalog import API_SERVICES, COLLECTOR, REQUEST_LOG, Api
from weftlab.guests import started_folder
from weftlab.hypervisor import config as hypervisor
from weftlab.hypervisor.bridges import bridge_of, guest_hosts
from weftlab.layout import Layout
from weftlab.metal import machines as metal
from weftlab.metal.jobs import has_machines, overlay, with_driver
from weftlab.service import Check, Service
from weftlab.storage.config import has_storage, with_cinder
from weftlab.switches.labsite import lab_ovs

PROGRAMS = Path(__file__).with_name("programs")
QUIET = {"PYTHONWARNINGS": "ignore"}
MEMBER_SEQUENCE = 1000


def write_configuration(layout: Layout, env: Path, site: Site, running: bool = False) -> None:
    """Every service's files, each host's, and the folders that they name. Args: running: servers run as guests."""
    for api in API_SERVICES:
        etc = layout.etc / api.name
        etc.mkdir(parents=True, exist_ok=True)
        (layout.data / api.name / "lock").mkdir(parents=True, exist_ok=True)
        for file, sections in api.files:
            found = sections(layout, env)
            if api.name == "neutron":
                found = trail.with_trail(found, layout)
            if api.name == "neutron" and mlnx.is_served(site):
                found = mlnx.with_driver(found, layout, site)
            if api.name == "keystone" and ldap.is_there(layout):
                found = ldap.with_domains(found, layout)
            if api.name == "neutron" and has_machines(site):
                found = with_driver(found, layout, running)
            if api.name == "nova" and has_storage(site):
                found = with_cinder(found, layout)
            (etc / file).write_text(config.render(found))
    trail.write(layout, env)
    paste = layout.etc / "nova" / "api-paste.ini"
    paste.write_bytes((env / "etc/nova/api-paste.ini").read_bytes())
    run = {n.nova_host for n in guest_hosts(site)} if running else set[str]()
    for node in config.compute_nodes(site):
        host = node.nova_host
        found = config.nova_host(layout, site, node)
        if host in run:
            own = hypervisor.compute(layout, lab_ovs(layout))
            found = {**found, **own, "DEFAULT": found["DEFAULT"] | own["DEFAULT"]}
        (layout.etc / "nova" / f"{host}.conf").write_text(config.render(found))
        (layout.etc / "nova" / f"{host}.devices.json").write_text(json.dumps(config.devices(node)))
        data = layout.data / "nova" / host
        for folder in ("lock", "instances"):
            (data / folder).mkdir(parents=True, exist_ok=True)
        # Without it the compute would create a new identity at each start.
        (data / "compute_id").write_text(config.compute_id(host))
    _write_plan(layout, site, run)
    started_folder(layout).mkdir(parents=True, exist_ok=True)
    hosts = {
        n.nova_host: {
            "devices": _mapped(site, n),
            "bridge": bridge_of(n.nova_host) if n.nova_host in run else None,
        }
        for n in config.compute_nodes(site)
    }
    _hosts_path(layout).write_text(json.dumps(hosts))


def api_service(
    layout: Layout,
    env: Path,
    api: Api,
    site: Site,
    after: tuple[str, ...],
    running: bool = False,
    processes: int = 1,
) -> Service:
    """One process with threads for an API: the lab's limit is the processor, not the number of workers.

    Several processes are set up as in Kolla Ansible's `uwsgi.ini.j2`: without threads, so that the next request goes to
    a free process; each loads the application itself, because its connections can't be shared.
    """
    several = ("--master", "--processes", str(processes), "--lazy-apps", "--thunder-lock", "--no-orphans")
    etc = str(layout.etc / api.name)
    return Service(
        name=api.name,
        argv=(
            str(env / "bin" / "uwsgi"),
            *("--http-socket", f"127.0.0.1:{layout.port(api.name)}"),
            *("--module", f"{api.module}:application", "--home", str(env), *COLLECTOR),
            *("--enable-threads", "--need-app", "--die-on-term"),
            *(several if processes > 1 else ("--threads", "4")),
            *("--buffer-size", "65535", "--add-header", "Connection: close", *REQUEST_LOG),
        ),
        env={
            **QUIET,
            **{name: value.format(etc=etc) for name, value in api.env},
            **(overlays(layout, site, running) if api.name == "neutron" else {}),
            **(ldap.environment(layout) if api.name == "keystone" and ldap.is_there(layout) else {}),
        },
        log=layout.log(f"{api.name}-uwsgi"),
        logs=(layout.log(api.name),),
        cwd=layout.work / api.name,
        ready=checks.answers_http(layout.port(api.name)),
        after=after,
        timeout=180,
        stop=signal.SIGKILL,  # it has no state, and a graceful stop of uwsgi takes seconds
    )


def liar(layout: Layout, after: tuple[str, ...]) -> Service:
    """The liar (`weftlab.liar`) as a service, between weft and every API."""
    words = [w for api in API_SERVICES for w in _led_by(layout, api.name)]
    return Service(
        name="liar",
        argv=(sys.executable, "-m", "weftlab.liar", "--control", str(layout.port("liar")), *words),
        log=layout.log("liar"),
        cwd=layout.work / "liar",
        ready=checks.answers_http(layout.port("liar"), "/rules"),
        after=after,
        timeout=30,
        stop=signal.SIGKILL,  # a hanging lie would block it
    )


def _led_by(layout: Layout, name: str) -> tuple[str, str, str, str]:
    return ("--service", name, str(layout.port(f"liar-{name}")), layout.url(name))


def neutron_rpc(
    layout: Layout, env: Path, site: Site, after: tuple[str, ...], running: bool = False
) -> Service:
    """Neutron's server of RPC for agents, as a service."""
    return Service(
        name="neutron-rpc",
        argv=(
            str(env / "bin" / "neutron-rpc-server"),
            *("--config-file", str(layout.etc / "neutron" / "neutron.conf")),
            *("--log-file", str(layout.log("neutron-rpc"))),
        ),
        env={**QUIET, **overlays(layout, site, running)},
        log=layout.log("neutron-rpc-out"),
        logs=(layout.log("neutron-rpc"),),
        cwd=layout.work / "neutron-rpc",
        after=after,
        stop=signal.SIGKILL,
    )


def fleet(layout: Layout, env: Path, site: Site, after: tuple[str, ...], running: bool = False) -> Service:
    """Nova's conductor, scheduler and computes, and the discovery of the hosts."""
    return Service(
        name="nova-fleet",
        argv=(str(env / "bin" / "python"), str(PROGRAMS / "fleet.py"), str(_plan_path(layout))),
        env={**QUIET, **({"PYTHONPATH": str(hypervisor.overlay(layout))} if running else {})},
        log=layout.log("nova-fleet"),
        cwd=layout.work / "fleet",
        after=after,
        members=("nova-conductor", "nova-scheduler", *(f"nova-compute@{h}" for h in hosts(site))),
        stop=signal.SIGKILL,
    )


def overlays(layout: Layout, site: Site, running: bool = False) -> dict[str, str]:
    """What Neutron's processes find beside their environment. Args: running: machines boot."""
    paths = [*mlnx.environment(layout, site).values()]
    paths += overlay(layout, running) if has_machines(site) else ()
    return {"PYTHONPATH": ":".join(paths)} if paths else {}


def hosts(site: Site) -> tuple[str, ...]:
    """Names of all hosts that Nova's computes have, Ironic's among them."""
    own = tuple(n.nova_host for n in config.compute_nodes(site))
    return (*own, metal.HOST) if metal.novas_machines(site) else own


def _plan_path(layout: Layout) -> Path:
    return layout.etc / "nova" / "fleet.json"


def _write_plan(layout: Layout, site: Site, run: Collection[str]) -> None:
    """What the fleet forks, see `programs/fleet.py`. Args: run: hosts whose servers run."""
    wired = any(f.manager.driver == "switches" for f in site.fabrics.values())
    guests = {n.nova_host for n in config.compute_nodes(site) if n.role != "compute" or wired}
    children = [_child(layout, name, "nova.conf") for name in ("nova-conductor", "nova-scheduler")]
    for host in hosts(site):
        child = _child(layout, f"nova-compute@{host}", "nova-compute.conf", f"{host}.conf")
        children.append(child)
        if host == metal.HOST:
            continue
        child["env"] = {"WEFT_LAB_DEVICES": str(layout.etc / "nova" / f"{host}.devices.json")}
        child["libvirt"] = host in run
        if host in guests:
            child["env"]["WEFT_LAB_GUESTS"] = str(started_folder(layout))
    discover = _child(layout, "nova-discover", "nova.conf")
    discover["env"] = {
        "WEFT_LAB_HOSTS": " ".join(hosts(site)),
        "WEFT_LAB_DONE": str(discovered_path(layout)),
    }
    plan = {
        "work": str((layout.work / "fleet").resolve()),
        "records": str(layout.run),
        "sequence": MEMBER_SEQUENCE,
        "children": [*children, discover],
    }
    _plan_path(layout).write_text(json.dumps(plan, indent=1))


def _mapped(site: Site, node: Node) -> dict[str, list[str]]:
    """Physical network -> devices, as a host's SR-IOV agent has them."""
    if node.role == "poplar":
        return {ipu.PHYSICAL_NETWORK: ["rnic0"]}
    found: dict[str, list[str]] = {}
    for hca in node.hcas:
        found.setdefault(site.fabrics[hca.fabric].physical_network, []).append(hca.name)
    return found


def _child(layout: Layout, name: str, *files: str) -> dict[str, Any]:
    etc = layout.etc / "nova"
    argv = [word for file in files for word in ("--config-file", str(etc / file))]
    return {
        "name": name,
        "main": name.split("@")[0].removeprefix("nova-"),
        "argv": [*argv, "--log-file", str(layout.log(name))],
        "log": str(layout.log(f"{name}-out")),
        "env": {},
    }


def agents(layout: Layout, env: Path, site: Site, after: tuple[str, ...], running: bool = False) -> Service:
    """The stand-in for all hosts' agents, as a service. Args: running: some hosts plug ports into Open vSwitch."""
    ovs = lab_ovs(layout)
    ready = layout.data / "neutron" / "agents-reported"
    return Service(
        name="neutron-agents",
        argv=(
            *(str(env / "bin" / "python"), str(PROGRAMS / "agents.py"), str(_hosts_path(layout)), str(ready)),
            *("--config-file", str(layout.etc / "neutron" / "neutron.conf")),
            *("--log-file", str(layout.log("neutron-agents"))),
        ),
        env={
            **QUIET,
            "OS_CLIENT_CONFIG_FILE": str(layout.etc / "neutron" / "clouds.yaml"),
            **(hypervisor.plugging(layout, ovs) if running else {}),
        },
        log=layout.log("neutron-agents-out"),
        logs=(layout.log("neutron-agents"),),
        cwd=layout.work / "neutron-agents",
        ready=checks.file_is_there(ready, "the agents have not reported to Neutron yet"),
        after=after,
        timeout=600,  # it starts beside Neutron, and waits for the schema of its database
        stop=signal.SIGKILL,
    )


def _hosts_path(layout: Layout) -> Path:
    return layout.etc / "neutron" / "hosts.json"


def discovered_path(layout: Layout) -> Path:
    """Exists once every host is mapped to its cell."""
    return layout.data / "nova" / "discovered"


def computes_ready(layout: Layout, site: Site) -> Check:
    """Ready once every host is up in Nova, and mapped to its cell, so that the scheduler may choose it."""
    connection = cache(lambda: connect(layout))

    def check() -> str | None:
        if not discovered_path(layout).exists():
            return "the hosts are not mapped to their cell yet"
        up = {s.host for s in connection().compute.services(binary="nova-compute") if s.state == "up"}
        if missing := sorted(set(hosts(site)) - up):
            return f"not up in Nova: {', '.join(missing)}"
        # A nova-compute whose driver fails is up all the same, and offers nothing.
        rows = connection().compute.get("/os-hypervisors/detail", microversion="2.53").json()["hypervisors"]
        own = {n.nova_host for n in config.compute_nodes(site)}
        missing = sorted(own - {row["service"]["host"] for row in rows})
        return f"Nova knows nothing of what these hosts have: {', '.join(missing)}" if missing else None

    return check


def _forbid_moves(layout: Layout, connection: Any) -> None:
    """Members may not move the servers of pods, which are identified by the id of weft's user."""
    identity: Any = connection.identity
    user = identity.find_user("weft", ignore_missing=False)
    moves = config.moves_path(layout)
    moves.parent.mkdir(parents=True, exist_ok=True)
    moves.write_text(policy("nova_moves", user.id))


def read_policies(layout: Layout, left_out: Collection[str] = ()) -> None:
    """Send each API, except those left out, one request before anyone sends two concurrently.

    oslo.policy reads its files with the first request, without a lock: a concurrent second request is judged by the
    default rules, and refuses weft what the lab's policies allow.
    """
    connection = connect(layout)
    _forbid_moves(layout, connection)
    next(iter(connection.network.networks(limit=1)), None)
    if "nova" not in left_out:
        next(iter(connection.compute.flavors(limit=1)), None)
    if "glance" not in left_out:
        next(iter(connection.image.images(limit=1)), None)
