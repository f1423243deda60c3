"""Scripts as written by hand with openstacksdk: the same resources as a weft pod, pinned with `host=`.

`sequential` does one thing after the other and waits for each server; `parallel` is the fastest known: ports in one
bulk request, servers eight at a time, one listing per poll (16 at a time are no faster on a small cloud, whose
processors are the limit). Neither knows about partitions, placement, marks, lost answers or proof.

    with contextlib.closing(parallel(connection, ["gpu01", "gpu02"])) as made:
        print(made.seconds)
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from openstack.connection import Connection

from bench.threads import threads

AT_A_TIME = 8
POLL = 1.0
"""Seconds between two listings of the servers."""
PATIENCE = 900.0


@dataclass(frozen=True, slots=True)
class Shape:
    """What a pod consists of."""

    flavor: str = "gpu8"
    image: str = "tiny"
    adapters: int = 2
    rdma_physical_network: str = "ibnet"
    management_physical_network: str = "physnet1"
    segment: int = 901
    key: str | None = None
    bare_metal: bool = False
    """Whether hosts are bare-metal machines, named by their ids in Ironic."""


@dataclass(slots=True)
class Made:
    """What a script has created; `close` deletes it all.

    Attributes:
        seconds: from the first request until all servers were ACTIVE.
        phases: name of a phase -> seconds.
    """

    connection: Connection
    servers: list[str] = field(default_factory=list[str])
    ports: list[str] = field(default_factory=list[str])
    networks: list[str] = field(default_factory=list[str])
    groups: list[str] = field(default_factory=list[str])
    seconds: float = 0.0
    phases: dict[str, float] = field(default_factory=dict[str, float])

    def remove(self) -> None:
        """Delete the servers and, once they are gone, their ports, with eight requests at a time."""
        compute, network = self.connection.compute, self.connection.network
        with threads(AT_A_TIME) as pool:
            _all(pool, compute.delete_server, self.servers)
            end = time.monotonic() + PATIENCE
            while {s.id for s in compute.servers(details=False)} & set(self.servers):
                _in_time(end, "servers are still there")
                time.sleep(POLL)
            _all(pool, network.delete_port, self.ports)
        self.servers, self.ports = [], []

    def close(self) -> None:
        """Servers and ports, then networks and groups."""
        network = self.connection.network
        if self.servers or self.ports:
            self.remove()
        for each in self.networks:
            network.delete_network(each)
        for each in self.groups:
            network.delete_security_group(each)


def sequential(connection: Connection, hosts: Sequence[str], shape: Shape | None = None) -> Made:
    """One request after the other, waiting for each server before requesting the next."""
    shape = shape or Shape()

    def ports(bodies: list[dict[str, Any]]) -> list[Any]:
        return [connection.network.create_port(**body) for body in bodies]

    def servers(made: Made, bodies: list[dict[str, Any]]) -> None:
        for body in bodies:
            server = connection.compute.create_server(**body)
            made.servers.append(server.id)
            connection.compute.wait_for_server(server, interval=POLL, wait=PATIENCE)

    return _script(connection, hosts, shape, ports, servers)


def parallel(
    connection: Connection, hosts: Sequence[str], shape: Shape | None = None, at_a_time: int = AT_A_TIME
) -> Made:
    """Bulk and parallel requests wherever they are faster."""
    shape = shape or Shape()

    def ports(bodies: list[dict[str, Any]]) -> list[Any]:
        return list(connection.network.create_ports(bodies))

    def servers(made: Made, bodies: list[dict[str, Any]]) -> None:
        with threads(at_a_time) as pool:
            asked = list(pool.map(lambda body: connection.compute.create_server(**body), bodies))
        made.servers.extend(server.id for server in asked)
        # `byhand-…-HOST`: a machine's id may contain dashes.
        names = "^" + "-".join(bodies[0]["name"].split("-")[:2]) + "-"
        end = time.monotonic() + PATIENCE
        while True:
            seen = {s.id: s for s in connection.compute.servers(name=names)}
            states = {seen[s].status for s in made.servers if s in seen}
            if "ERROR" in states:
                raise RuntimeError(next(str(s.fault) for s in seen.values() if s.status == "ERROR"))
            if states == {"ACTIVE"} and len(seen) == len(bodies):
                return
            _in_time(end, f"servers are {states}")
            time.sleep(POLL)

    return _script(connection, hosts, shape, ports, servers)


def _script(
    connection: Connection,
    hosts: Sequence[str],
    shape: Shape,
    make_ports: Callable[[list[dict[str, Any]]], list[Any]],
    make_servers: Callable[[Made, list[dict[str, Any]]], None],
) -> Made:
    made = Made(connection)
    name = f"byhand-{uuid.uuid4().hex[:8]}"
    began = last = time.monotonic()

    def phase(what: str) -> None:
        nonlocal last
        now = time.monotonic()
        made.phases[what] = now - last
        last = now

    try:
        image = connection.image.find_image(shape.image, ignore_missing=False)
        flavor = connection.compute.find_flavor(shape.flavor, ignore_missing=False)
        rdma, management, group = _networks(made, name, shape)
        phase("networks")
        bodies = {
            host: _ports(f"{name}-{host}", n, shape, rdma, management, group) for n, host in enumerate(hosts)
        }
        ports = {p.name: p.id for p in make_ports([body for of in bodies.values() for body in of])}
        made.ports.extend(ports.values())
        phase("ports")
        common = {"image_id": image.id, "flavor_id": flavor.id, "config_drive": True}
        common |= {"key_name": shape.key} if shape.key else {}
        wanted = [
            {
                "name": f"{name}-{host}",
                ("hypervisor_hostname" if shape.bare_metal else "host"): host,
                "networks": [{"port": ports[body["name"]]} for body in bodies[host]],
                **common,
            }
            for host in hosts
        ]
        make_servers(made, wanted)
        phase("servers")
    except Exception:  # not on an interruption: the lab is taken down then, and nothing in it is waited for
        made.close()
        raise
    made.seconds = time.monotonic() - began
    return made


def _networks(made: Made, name: str, shape: Shape) -> tuple[tuple[str, str], tuple[str, str], str]:
    """(RDMA, management) as (network, subnet), and the security group."""
    rdma = _network(made, f"{name}-rdma", shape.rdma_physical_network, shape.segment, "10.250.0.0/16", False)
    management = _network(
        made, f"{name}-mgmt", shape.management_physical_network, shape.segment, "10.251.0.0/16", True
    )
    network = made.connection.network
    group = network.create_security_group(name=name).id
    made.groups.append(group)
    network.create_security_group_rule(security_group_id=group, direction="ingress", remote_group_id=group)
    return rdma, management, group


def _ports(
    server: str, number: int, shape: Shape, rdma: tuple[str, str], management: tuple[str, str], group: str
) -> list[dict[str, Any]]:
    """Request bodies for the ports of one server: management first, then an RDMA port for each adapter."""
    vnic = {"binding_vnic_type": "baremetal"} if shape.bare_metal else {}
    return [
        {**_port(f"{server}-mgmt", management, f"10.251.1.{number + 10}", group), **vnic},
        *(
            {**_port(f"{server}-hca{rail}", rdma, f"10.250.{rail + 1}.{number + 10}", None), **vnic}
            for rail in range(shape.adapters)
        ),
    ]


def _network(
    made: Made, name: str, physical_network: str, segment: int, cidr: str, dhcp: bool
) -> tuple[str, str]:
    network = made.connection.network.create_network(
        name=name,
        provider_network_type="vlan",
        provider_physical_network=physical_network,
        provider_segmentation_id=segment,
        is_port_security_enabled=dhcp,
    )
    made.networks.append(network.id)
    subnet = made.connection.network.create_subnet(
        network_id=network.id, ip_version=4, cidr=cidr, gateway_ip=None, is_dhcp_enabled=dhcp
    )
    return network.id, subnet.id


def _port(name: str, network: tuple[str, str], address: str, group: str | None) -> dict[str, Any]:
    body: dict[str, Any] = {
        "name": name,
        "network_id": network[0],
        "fixed_ips": [{"subnet_id": network[1], "ip_address": address}],
    }
    if group is None:
        return {**body, "binding_vnic_type": "direct-physical", "is_port_security_enabled": False}
    return {**body, "security_group_ids": [group]}


def _all(pool: ThreadPoolExecutor, call: Callable[[str], Any], ids: Sequence[str]) -> None:
    for future in [pool.submit(call, each) for each in ids]:
        future.result()


def _in_time(end: float, what: str) -> None:
    if time.monotonic() > end:
        raise RuntimeError(f"gave up: {what}")
