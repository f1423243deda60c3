"""An IPU-POD64's networks, 100 ports and security groups from nothing: `weft site apply` against a sequential script.

The script is what an operator writes with openstacksdk: the same networks, subnets, RBAC policies, groups with their
rules and ports, one request after the other, with no look at what is there. weft is timed from the request to the
answer that everything was read back as described, and again for an apply that finds nothing to do. Both are on the
lab's Neutron in turn, first the one, then the other, and each is removed before the next begins. Neutron's API has as
many processes as the machine has processors, as Kolla Ansible gives it. A round before those that count warms it up.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

from openstack.config import OpenStackConfig
from openstack.connection import Connection

from bench.onlab import bench_lab
from bench.row import row
from weft.app.sitefile import checked, load_site
from weft.client import Client, connect
from weft.model.resources import Graph, NetworkSpec, PortSpec, SecurityGroupSpec, SubnetSpec
from weft.model.site import Device, Interface, Site, SiteNetwork
from weft.planning.site.graph import site_graph
from weft.planning.site.parts import cut
from weftlab.lab import Lab

ROUNDS = 3
GOAL, AGAIN = 0.4, 3.0
LEGS = {"bmc": 201, "gw": 202, "rnic": 205}
Part = tuple[tuple[str, Callable[[], None], list[float]], ...]
"""What it is, what is done, and the seconds that it took in each round."""
MACHINES, SERVERS = 16, 26
"""48 ports of IPU-Machines, and 52 of Poplar servers, switches, PDUs and storage on two networks."""


def rows() -> list[dict[str, Any]]:
    with bench_lab(nodes=4, computes=1, ipus=0, neutron_processes=os.cpu_count() or 1) as lab:
        return _measure(lab)


def _measure(lab: Lab) -> list[dict[str, Any]]:
    os.environ["OS_CLIENT_CONFIG_FILE"] = str(lab.clouds_yaml)
    client = connect(cloud="operator", endpoint=None, region=None)
    with closing(_connection(lab, "operator")) as admin, closing(_connection(lab, "weft")) as own:
        identity: Any = admin.identity
        project = identity.find_project("team-a", ignore_missing=False).id
        site = described(load_site(lab.site_path), project)
        made = cut(site)
        client.activate_site(made.document, client.site_generation(), made.parts)
        graph = site_graph(site)
        ours: list[float] = []
        theirs: list[float] = []
        again: list[float] = []
        script = Script(own)
        by_weft: Part = (
            ("weft", lambda: _applied(client), ours),
            ("again", lambda: _applied(client), again),
            ("destroyed", lambda: _destroyed(client), []),
        )
        by_script: Part = (("script", lambda: script.make(graph), theirs), ("removed", script.remove, []))
        for number in range(ROUNDS + 1):
            for what, work, took in by_weft + by_script if number % 2 else by_script + by_weft:
                seconds = _took(work)
                print(f"round {number}: {what} {seconds:.1f} s", flush=True)
                if number > 0:
                    took.append(seconds)
    weft, alone, twice = (statistics.median(s) for s in (ours, theirs, again))
    ratio = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
    ports = sum(isinstance(r.spec, PortSpec) for r in graph.resources)
    what = f"a site of {len(graph.resources)} resources, {ports} of them ports"
    than = "a sequential script with openstacksdk"
    return [
        row(f"{what}: from nothing", weft, "s", compared_with=than),
        row(f"{what}: the script", alone, "s"),
        row(f"{what}: ratio", ratio, "x", f"<= {GOAL}", ratio <= GOAL, than),
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
    """What an operator writes; it remembers ids, to remove what it made."""

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
        """Needs last. Several at a time: nobody measures it."""
        kinds: dict[str, list[str]] = {}
        for key, thing in reversed(self._ids.items()):
            kinds.setdefault(key.partition("/")[0], []).append(thing)
        with ThreadPoolExecutor(4) as pool:
            for kind, things in kinds.items():
                list(pool.map(getattr(self._network, f"delete_{kind}"), things))


def _connection(lab: Lab, cloud: str) -> Connection:
    return Connection(config=OpenStackConfig(config_files=[str(lab.clouds_yaml)]).get_one(cloud))


def _applied(client: Client) -> None:
    plan = client.apply_site()
    if plan["steps"]:
        _until(lambda: bool(client.site_resources()["done"]))


def _destroyed(client: Client) -> None:
    client.destroy_site()
    _until(lambda: client.site_resources()["state"] == "RELEASED")


def _took(work: Callable[[], None]) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began


def _until(true: Callable[[], bool], longest: float = 300.0) -> None:
    deadline = time.monotonic() + longest
    while not true():
        if time.monotonic() > deadline:
            raise TimeoutError("the site doesn't come to rest")
        time.sleep(0.5)
