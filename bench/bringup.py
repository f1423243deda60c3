"""An IPU-POD64's networks, 100 ports and security groups from nothing: `weft site apply` against a sequential script.

The script is what an operator writes with openstacksdk: the same networks, subnets, RBAC policies, groups with their
rules and ports, one request after the other, without checking what exists. weft is timed from the request to the answer
that everything was read back as described, and again for an apply that finds nothing to do. Both use the lab's Neutron,
alternating in their order, and what one created is removed before the next begins. Neutron's API has as many processes
as the machine has processors, as with Kolla Ansible. The lab has Keystone, Neutron and weft and, idle, a small fabric
and Nova's API, where weft keeps its note of the database. One round before those that count warms it up. Each round
prints weft's waves, and the processor time of each service.

A second script can be run twice, as weft can: it looks for each thing before it makes it. The goal is set for both.
Neutron's own processing is nearly all of the time.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from contextlib import closing
from datetime import datetime
from typing import Any

from openstack.config import OpenStackConfig
from openstack.connection import Connection

from bench.onlab import bench_lab, spent
from bench.row import row
from bench.threads import threads
from weft.app.sitefile import checked, load_site
from weft.client import Client, connect
from weft.model.errors import NotFoundError
from weft.model.resources import Graph
from weft.model.site import Device, Interface, Site, SiteNetwork
from weft.model.specs import NetworkSpec, PortSpec, SecurityGroupSpec, SubnetSpec
from weft.planning.site.graph import site_graph
from weft.planning.site.parts import cut
from weftlab.database import golden_path
from weftlab.lab import Lab
from weftlab.layout import default_cache

ROUNDS = 3
GOAL, AGAIN = 0.4, 3.0
LEGS = {"bmc": 201, "gw": 202, "rnic": 205}
Part = tuple[tuple[str, Callable[[], None], list[float]], ...]
"""Name of a part, what is done, and the seconds that it took in each round."""
MACHINES, SERVERS = 16, 26
"""48 ports of IPU-Machines, and 52 of Poplar servers, switches, PDUs and storage on two networks."""


LEFT_OUT = ("glance", "placement", "nova-fleet")


def rows() -> list[dict[str, Any]]:
    settings: dict[str, Any] = {
        "nodes": 4,
        "computes": 1,
        "ipus": 0,
        "neutron_processes": os.cpu_count() or 1,
    }
    if not golden_path(default_cache()).exists():
        with bench_lab(**settings):
            pass  # the databases are filled once, by the whole cloud
    with bench_lab(**settings, left_out=LEFT_OUT) as lab:
        return _measure(lab)


def _measure(lab: Lab) -> list[dict[str, Any]]:
    os.environ["OS_CLIENT_CONFIG_FILE"] = str(lab.clouds_yaml)
    client = connect(cloud="operator", endpoint=None, region=None)
    with closing(_connection(lab, "operator")) as admin, closing(_connection(lab, "weft")) as own:
        identity: Any = admin.identity
        project = identity.find_project("team-a", ignore_missing=False).id
        site = described(load_site(lab.site_path), project)
        made = cut(site)
        client.site.activate(made.document, client.site.generation(), made.parts)
        graph = site_graph(site)
        ours: list[float] = []
        theirs: list[float] = []
        again: list[float] = []
        looked: list[float] = []
        script, careful = Script(own), Careful(own)
        by_weft: Part = (
            ("weft", lambda: _applied(client), ours),
            ("again", lambda: _applied(client), again),
            ("destroyed", lambda: _destroyed(client), []),
        )
        by_script: Part = (
            ("script", lambda: script.make(graph), theirs),
            ("removed", script.remove, []),
            ("careful script", lambda: careful.make(graph), looked),
            ("removed", careful.remove, []),
        )
        for number in range(ROUNDS + 1):
            for what, work, took in by_weft + by_script if number % 2 else by_script + by_weft:
                before, last = spent(lab), _last(client)
                seconds = _took(work)
                used = {name: now - before.get(name, 0.0) for name, now in spent(lab).items()}
                said = ", ".join(f"{name} {used[name]:.1f}" for name in sorted(used) if used[name] >= 0.05)
                print(f"round {number}: {what} {seconds:.1f} s; processor time: {said} s", flush=True)
                if what == "weft":
                    print(_waves(client.site.events(last)), flush=True)
                if number > 0:
                    took.append(seconds)
    weft, alone, twice, finding = (statistics.median(s) for s in (ours, theirs, again, looked))
    ratio, to_finding = (
        statistics.median(a / b for a, b in zip(ours, other, strict=True)) for other in (theirs, looked)
    )
    ports = sum(isinstance(r.spec, PortSpec) for r in graph.resources)
    what = f"a site of {len(graph.resources)} resources, {ports} of them ports, without Nova's computes beside it"
    than = "a sequential script with openstacksdk"
    return [
        row(f"{what}: from nothing", weft, "s", compared_with=than),
        row(f"{what}: the script", alone, "s"),
        row(f"{what}: ratio", ratio, "x", f"<= {GOAL}", ratio <= GOAL, than),
        row(f"{what}: a script that finds before it creates", finding, "s"),
        row(
            f"{what}: ratio to that",
            to_finding,
            "x",
            f"<= {GOAL}",
            to_finding <= GOAL,
            "a script that can be run twice",
        ),
        row(f"{what}: applied again", twice, "s", f"<= {AGAIN:g}", twice <= AGAIN),
    ]


def described(site: Site, project: str) -> Site:
    """The lab's site with the reference's networks, and hardware on them."""

    def network(vlan: int, subnets: dict[str, tuple[str, int]], **more: Any) -> SiteNetwork:
        found = {
            name: {
                "role": role,
                "addresses": f"10.{net}.0.0/16",
                "pool": {"first": f"10.{net}.254.1", "last": f"10.{net}.254.254"},
            }
            for name, (role, net) in subnets.items()
        }
        known = {"cloud": "lab", "physical_network": "sitenet", "vlan": vlan, "subnets": found}
        return SiteNetwork.model_validate({**known, **more})

    networks = {
        "ipu-gw-net": network(13, {"bmc": ("bmc", 201), "gw": ("gateway", 202)}),
        "infrastructure": network(99, {"infrastructure": ("infrastructure", 203)}),
        "ipu-data": network(11, {"data": ("data", 205)}, shared_with=[project], mtu=9000),
        "storage": network(12, {"storage": ("storage", 204)}, shared_with=[project], mtu=9000),
    }
    of = {"bmc": "ipu-gw-net", "gw": "ipu-gw-net", "rnic": "ipu-data"}
    cabled = [(f"m{n}", leg, of[leg], net, n) for n in range(1, MACHINES + 1) for leg, net in LEGS.items()]
    cabled += [(f"h{n}", "mgmt", "infrastructure", 203, n) for n in range(1, SERVERS + 1)]
    cabled += [(f"h{n}", "nas", "storage", 204, n) for n in range(1, SERVERS + 1)]
    rows = [
        Interface.model_validate(
            {"device": device, "name": leg, "network": name, "address": f"10.{net}.1.{n}"}
            | {"mac": f"02:00:00:{net:02x}:00:{n:02x}"}
        )
        for device, leg, name, net, n in cabled
    ]
    devices = tuple(Device(name=name, kind="other") for name in dict.fromkeys(c[0] for c in cabled))
    update = {"networks": networks, "interfaces": tuple(rows), "devices": devices}
    return checked(site.model_copy(update=update))


class Script:
    """The script that an operator would write; it remembers ids to remove what it created."""

    def __init__(self, connection: Connection) -> None:
        self._network: Any = connection.network
        self._ids: dict[str, str] = {}

    def make(self, graph: Graph) -> None:
        for r in graph.resources:
            self._ids[r.key] = self._one(r.name, r.spec).id

    def _one(self, name: str, spec: object) -> Any:
        match spec:
            case NetworkSpec():
                made = self._network.create_network(
                    name=name,
                    provider_network_type="vlan",
                    provider_physical_network=spec.physical_network,
                    provider_segmentation_id=spec.segment,
                    mtu=spec.mtu,
                    is_port_security_enabled=spec.port_security,
                )
                self._share("network", made.id, spec.shared_with)
            case SubnetSpec():
                assert spec.pool is not None
                pools = [{"start": spec.pool[0], "end": spec.pool[1]}]
                made = self._network.create_subnet(
                    name=name,
                    network_id=self._ids[spec.network],
                    ip_version=4,
                    cidr=spec.cidr,
                    gateway_ip=None,
                    allocation_pools=pools,
                )
            case SecurityGroupSpec():
                made = self._group(name, spec)
            case PortSpec():
                fixed = [{"subnet_id": self._ids[spec.subnet], "ip_address": spec.address}]
                made = self._network.create_port(
                    name=name,
                    network_id=self._ids[spec.network],
                    mac_address=spec.mac,
                    fixed_ips=fixed,
                    dns_name=spec.dns_name,
                    is_port_security_enabled=False,
                    security_groups=[],
                )
            case _:
                raise TypeError(type(spec).__name__)
        return made

    def _group(self, name: str, spec: SecurityGroupSpec) -> Any:
        made = self._network.create_security_group(name=name)
        for rule in made.security_group_rules:
            self._network.delete_security_group_rule(rule["id"])
        traffic = [("ingress", r.protocol, r.port, r.source) for r in spec.ingress]
        traffic += [("egress", r.protocol, r.port, r.to) for r in spec.egress or ()]
        for direction, protocol, port, prefix in traffic:
            self._network.create_security_group_rule(
                security_group_id=made.id,
                direction=direction,
                ether_type="IPv4",
                protocol=protocol,
                port_range_min=port,
                port_range_max=port,
                remote_ip_prefix=prefix,
            )
        self._share("security_group", made.id, spec.shared_with)
        return made

    def _share(self, kind: str, thing: str, projects: tuple[str, ...]) -> None:
        for project in projects:
            self._network.create_rbac_policy(
                object_type=kind, object_id=thing, action="access_as_shared", target_project_id=project
            )

    def remove(self) -> None:
        """Delete everything, needed resources last. Several at a time, since this isn't measured."""
        kinds: dict[str, list[str]] = {}
        for key, thing in reversed(self._ids.items()):
            kinds.setdefault(key.partition("/")[0], []).append(thing)
        with threads(4) as pool:
            for kind, things in kinds.items():
                list(pool.map(getattr(self._network, f"delete_{kind}"), things))


class Careful(Script):
    """The same as a script that can be run twice: it first looks for each thing by its name."""

    def _one(self, name: str, spec: object) -> Any:
        match spec:
            case NetworkSpec():
                kind = "network"
            case SubnetSpec():
                kind = "subnet"
            case SecurityGroupSpec():
                kind = "security_group"
            case _:
                kind = "port"
        found = getattr(self._network, f"find_{kind}")(name, ignore_missing=True)
        return found or super()._one(name, spec)


def _last(client: Client) -> int:
    try:
        return max((e["sequence"] for e in client.site.events(0)), default=0)
    except NotFoundError:
        return 0


def _waves(events: list[dict[str, Any]]) -> str:
    """When the first and last resource of each kind was created, in seconds since the request, and other events."""
    if not events:
        return "  no events"
    began = datetime.fromisoformat(events[0]["at"])
    lines: dict[str, list[float]] = {}
    for event in events:
        kind = (event.get("key") or "").partition("/")[0]
        what = f"{event['type']} {kind}" if kind else f"{event['type']}: {event['message'][:60]}"
        lines.setdefault(what, []).append((datetime.fromisoformat(event["at"]) - began).total_seconds())
    return "\n".join(
        f"  {min(at):5.2f} to {max(at):5.2f} s  {what} ({len(at)})" for what, at in lines.items()
    )


def _connection(lab: Lab, cloud: str) -> Connection:
    return Connection(config=OpenStackConfig(config_files=[str(lab.clouds_yaml)]).get_one(cloud))


def _applied(client: Client) -> None:
    after = _last(client)
    if client.site.apply()["steps"]:
        _until(client, after, lambda view: view["done"])


def _destroyed(client: Client) -> None:
    after = _last(client)
    client.site.destroy()
    _until(client, after, lambda view: view["state"] == "RELEASED")


def _took(work: Callable[[], None]) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began


def _until(
    client: Client, after: int, over: Callable[[dict[str, Any]], bool], longest: float = 300.0
) -> None:
    """Wait as `weft site apply --wait` does: for events; changes without one are read a little later."""
    deadline = time.monotonic() + longest
    while not over(view := client.site.resources()):
        if time.monotonic() > deadline:
            raise TimeoutError("the site doesn't settle")
        events = client.site.events(after, 0.2 if view["state"] == "READY" else 5.0)
        after = max((e["sequence"] for e in events), default=after)
