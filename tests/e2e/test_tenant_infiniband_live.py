"""Tenants' own InfiniBand networks on the lab: networking-mlnx's driver in a real Neutron, weft, OpenSM, and the wire.

Whatever is killed on the way: in the end the wire is what Neutron's database says.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import openstack.exceptions
import pytest
from keystoneauth1.exceptions.connection import ConnectFailure
from openstack.connection import Connection

from tests.e2e.people import People, Person, connection
from weft.model.site import Hca, Site
from weftlab.fabric.faults import Faults
from weftlab.lab import Lab

pytestmark = pytest.mark.cloud
PATIENCE = 600.0
"""Seconds that something is waited for: far more than the slowest machine needs."""
LAST = 0x17E
"""Last number of the lab's range; weft gives out the first ones."""


def wait_for(what: Callable[[], bool], seconds: float = PATIENCE) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "it has not come to be"
        time.sleep(0.5)


@dataclass
class Cloud:
    """Networks of team-b on the fabric's physical network, as Neutron has them."""

    lab: Lab
    admin: Connection
    tenant: Connection
    person: Person
    faults: Faults
    networks: list[Any] = field(default_factory=list[Any])

    @property
    def site(self) -> Site:
        return self.lab.site

    def network(self, number: int) -> Any:
        made = self.admin.network.create_network(
            name=f"own-{number}",
            project_id=self.tenant.current_project_id,
            provider_network_type="vlan",
            provider_physical_network="ibnet",
            provider_segmentation_id=number,
            port_security_enabled=False,
        )
        self.networks.append(made)
        self.admin.network.create_subnet(
            network_id=made.id,
            project_id=self.tenant.current_project_id,
            ip_version=4,
            cidr=f"198.18.{(number % 32) * 4}.0/22",
            enable_dhcp=False,
        )
        return made

    def bare_metal(self, network: Any, host: str, hca: Hca) -> Any:
        """As Ironic binds it: host, and a client-id that names the adapter."""
        guid = hca.port_guid.to_bytes(8, "big").hex(":")
        return self.admin.network.create_port(
            network_id=network.id,
            project_id=self.tenant.current_project_id,
            device_owner="baremetal:none",
            binding_vnic_type="baremetal",
            binding_host_id=host,
            extra_dhcp_opts=[
                {"opt_name": "client-id", "opt_value": f"ff:00:00:00:00:00:02:00:00:02:c9:00:{guid}"}
            ],
        )

    def journal(self, *more: str) -> Any:
        """`weft network journal` beside Neutron: its exit code, and the rows that are stuck."""
        config = self.lab.layout.etc / "neutron" / "neutron.conf"
        shown = self.person.weft(
            "network", "journal", "--neutron-config", str(config), "--json", "--older", "20", *more
        )
        return shown.code, shown.json

    def wanted(self, network: Any) -> set[int]:
        """GUIDs by Neutron's database alone: bound ports, by client-id or by host and PCI address."""
        found: set[int] = set()
        for port in self.admin.network.ports(network_id=network.id):
            node = next((n for n in self.site.nodes if n.nova_host == port.binding_host_id), None)
            if node is None or port.binding_vif_type not in ("other", "hostdev_physical"):
                continue
            options = [o["opt_value"] for o in port.extra_dhcp_opts if o["opt_name"] == "client-id"]
            slot = (port.binding_profile or {}).get("pci_slot")
            found |= {int(text.replace(":", "")[-16:], 16) for text in options}
            found |= {h.port_guid for h in node.hcas_on("ib0") if slot and h.pci == slot}
        return found

    def wired(self, number: int) -> set[int]:
        """GUIDs of the host ports that have the P_Key as full members, each with its leaf's, read from the ports."""
        tables = self.faults.read_tables([h.port_guid for n in self.site.nodes for h in n.hcas_on("ib0")])
        for host, leaf in tables.values():
            assert (0x8000 | number in host) == (0x8000 | number in leaf)
        return {guid for guid, (host, _) in tables.items() if 0x8000 | number in host}

    def is_wired(self, network: Any, number: int) -> bool:
        """Whether the wire is what Neutron's database says; a change may be under way just now."""
        try:
            return self.wired(number) == self.wanted(network)
        except AssertionError:
            return False

    def settled(self, network: Any, number: int) -> set[int]:
        """Wait until weft says that exactly Neutron's are in; the wire must be what Neutron's database says."""

        def said() -> bool:
            shown = self.person.weft("network", "show", network.id, "--json")
            if not shown.out or shown.code == 1:
                return False
            members = {int(p["member"], 16) for p in shown.json.get("ports", ()) if p["state"] == "in"}
            return members == self.wanted(network)

        wait_for(said)
        wired = self.wired(number)
        assert wired == self.wanted(network)
        return wired


@pytest.fixture
def cloud(lab: Lab, people: People) -> Iterator[Cloud]:
    assert lab.settings.tenant_networks, "WEFT_TEST_LAB: that lab is without --tenant-networks"
    with closing(connection(lab, "operator")) as admin, closing(connection(lab, "team-b")) as tenant:
        faults = Faults(lab.layout, lab.site, lab.supervisor)
        made = Cloud(lab, admin, tenant, people("operator"), faults)
        yield made
        lab.up()
        for network in made.networks:
            for port in admin.network.ports(network_id=network.id):
                if port.device_id and port.device_owner.startswith("compute:"):
                    tenant.compute.delete_server(port.device_id, ignore_missing=True)
                    tenant.compute.wait_for_delete(tenant.compute.get_server(port.device_id))
                admin.network.delete_port(port.id, ignore_missing=True)
            admin.network.delete_network(network.id, ignore_missing=True)


def adapters(site: Site, first: int, count: int) -> list[tuple[str, Hca]]:
    """Host and adapter, of GPU nodes from the `first` on."""
    nodes = [n for n in site.nodes if n.role == "compute"][first:]
    return [(n.nova_host, h) for n in nodes for h in n.hcas_on("ib0")][:count]


def test_servers_and_bare_metal_are_in_and_nobody_else(cloud: Cloud) -> None:
    """A server that Nova boots with a whole adapter, and bare metal by client-id; both leave when they go."""
    network = cloud.network(LAST)
    metal = [cloud.bare_metal(network, host, hca) for host, hca in adapters(cloud.site, 8, 2)]
    port = cloud.tenant.network.create_port(network_id=network.id, binding_vnic_type="direct-physical")
    image = cloud.tenant.image.find_image("tiny")
    flavor = cloud.tenant.compute.find_flavor("cpu1")
    server = cloud.tenant.compute.create_server(
        name="own", image_id=image.id, flavor_id=flavor.id, networks=[{"port": port.id}]
    )
    cloud.tenant.compute.wait_for_server(server, wait=120)
    assert len(cloud.settled(network, LAST)) == 3
    said = cloud.person.weft("network", "events", network.id).out
    assert f"port {port.id} is in segment {LAST:#x}" in said
    # The server itself is on a node that pods could have, and is in a network of its own there.
    assert cloud.person.weft("audit", "--json").json["findings"] == []
    cloud.tenant.compute.delete_server(server)
    cloud.tenant.compute.wait_for_delete(server)
    cloud.admin.network.update_port(
        metal[0], binding_host_id="", extra_dhcp_opts=[{"opt_name": "client-id", "opt_value": None}]
    )  # nothing is ever sent of this
    wait_for(lambda: len(cloud.wanted(network)) == 1)
    assert len(cloud.settled(network, LAST)) == 1


def test_weft_is_away_while_ports_come_and_go(cloud: Cloud) -> None:
    """Refused connections leave the driver's rows stuck for ever; weft reads Neutron when it is back."""
    network = cloud.network(LAST - 1)
    places = adapters(cloud.site, 8, 8)
    first = [cloud.bare_metal(network, host, hca) for host, hca in places[:4]]
    cloud.settled(network, LAST - 1)
    cloud.lab.supervisor.stop(["weft"], giving_up=False)
    for host, hca in places[4:]:
        cloud.bare_metal(network, host, hca)
    for port in first[:3]:
        cloud.admin.network.delete_port(port.id)
    cloud.lab.up()
    assert len(cloud.settled(network, LAST - 1)) == 5


def test_neutron_is_killed_in_the_middle(cloud: Cloud) -> None:
    network = cloud.network(LAST - 2)
    places = adapters(cloud.site, 8, 12)
    begun = threading.Event()

    def create() -> None:
        for host, hca in places:
            try:
                cloud.bare_metal(network, host, hca)
            except (openstack.exceptions.SDKException, ConnectFailure):
                return
            begun.set()

    creating = threading.Thread(target=create)
    creating.start()
    assert begun.wait(120)
    record = cloud.lab.supervisor.record("neutron")
    assert record is not None
    os.kill(record.pid, signal.SIGKILL)
    creating.join(120)
    cloud.lab.up()
    assert cloud.settled(network, LAST - 2)


@contextmanager
def instead_of_the_front(
    cloud: Cloud, answer: Callable[[BaseHTTPRequestHandler], None]
) -> Generator[list[str]]:
    """Another server at the front's address, which says something else; the requests that it got."""
    cloud.lab.supervisor.stop(["front"], giving_up=False)
    asked: list[str] = []

    class Other(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _any(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            asked.append(f"{self.command} {self.path}")
            answer(self)

        do_GET = do_POST = do_PUT = do_DELETE = _any  # noqa: N815 - their names

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name
            pass

    server = ThreadingHTTPServer(("127.0.0.1", cloud.lab.layout.port("front")), Other)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
        cloud.lab.up()


def at_once(cloud: Cloud, network: Any, places: Sequence[tuple[str, Hca]]) -> list[Any]:
    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(lambda place: cloud.bare_metal(network, *place), places))


@pytest.mark.parametrize(
    "number",
    [
        40,
        # Neutron takes two seconds for each port.
        pytest.param(200, marks=pytest.mark.nightly(reason="forty of them go the same ways")),
    ],
)
def test_many_ports_at_once(cloud: Cloud, number: int) -> None:
    """More ports than the lab has adapters: those of one adapter are one member, and the last of them takes it out."""
    network = cloud.network(LAST - 3)
    places = adapters(cloud.site, 8, number // 2)
    made = at_once(cloud, network, [places[i % len(places)] for i in range(number)])
    assert len(cloud.settled(network, LAST - 3)) == len(places)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(cloud.admin.network.delete_port, made[len(places) // 2 :]))
    wait_for(lambda: len(cloud.wanted(network)) == len(places) // 2)
    wait_for(lambda: cloud.is_wired(network, LAST - 3), PATIENCE)
    cloud.settled(network, LAST - 3)


def test_errors_of_the_front_and_an_answer_that_nobody_understands(cloud: Cloud) -> None:
    """500 to everything, then no JSON: the driver repeats the first and is stuck with the second. The wire is right
    all the while; what is stuck is told, and sent again.
    """
    network = cloud.network(LAST - 4)
    places = adapters(cloud.site, 8, 6)

    def error(request: BaseHTTPRequestHandler) -> None:
        request.send_error(500)

    def empty(request: BaseHTTPRequestHandler) -> None:
        request.send_response(202)
        request.send_header("Content-Length", "0")
        request.end_headers()

    with instead_of_the_front(cloud, error) as asked:
        at_once(cloud, network, places[:3])
        wait_for(lambda: len(asked) > 5)
        assert len(cloud.settled(network, LAST - 4)) == 3
    with instead_of_the_front(cloud, empty) as asked:
        at_once(cloud, network, places[3:])
        wait_for(lambda: sum(a.startswith("POST") for a in asked) >= 3)
        assert len(cloud.settled(network, LAST - 4)) == 6
    wait_for(lambda: cloud.journal()[0] == 1)
    code, told = cloud.journal("--repair")
    assert code == 0 and told["freed"] == len(told["rows"]) > 0
    wait_for(lambda: cloud.journal()[0] == 0)
    assert len(cloud.settled(network, LAST - 4)) == 6


def test_a_user_without_its_role_sees_nothing_and_takes_nothing_away(cloud: Cloud) -> None:
    """The role that shows it other projects is taken away: Neutron lists no tenant's network, and says 404."""
    network = cloud.network(LAST - 5)
    cloud.bare_metal(network, *adapters(cloud.site, 8, 1)[0])
    assert len(cloud.settled(network, LAST - 5)) == 1
    identity: Any = cloud.admin.identity
    role, user = identity.find_role("service"), identity.find_user("weft")
    project = identity.find_project("service")
    before = cloud.person.weft("network", "show", network.id, "--json").json["read_at"]
    identity.unassign_project_role_from_user(project, user, role)
    try:
        # A worker that begins now gets a token without the role.
        cloud.lab.supervisor.stop(["weft"], giving_up=False)
        cloud.lab.up()
        log = cloud.lab.layout.log("weft")
        wait_for(lambda: "default security group of project" in log.read_text()[-20_000:])
        assert len(cloud.wired(LAST - 5)) == 1
    finally:
        identity.assign_project_role_to_user(project, user, role)
        cloud.lab.supervisor.stop(["weft"], giving_up=False)
        cloud.lab.up()

    def read_again() -> bool:
        shown = cloud.person.weft("network", "show", network.id, "--json")
        return shown.code == 0 and shown.json["read_at"] > before

    wait_for(read_again)
    assert len(cloud.settled(network, LAST - 5)) == 1
