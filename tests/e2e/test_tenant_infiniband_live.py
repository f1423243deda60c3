"""Tenants' own InfiniBand networks on the lab: networking-mlnx's driver in a real Neutron, weft, OpenSM, and the wire.

Whatever is killed on the way: in the end the wire is what Neutron's database says.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import openstack.exceptions
import pytest
from keystoneauth1.exceptions.connection import ConnectFailure

from tests.e2e.ownnetworks import LAST, Cloud, adapters, cloud_of
from tests.e2e.people import PATIENCE, POD, People, servers_of, wait_for
from weft.model.site import Hca
from weftlab.lab import Lab

pytestmark = pytest.mark.cloud


@pytest.fixture
def cloud(lab: Lab, people: People) -> Iterator[Cloud]:
    yield from cloud_of(lab, people)


def test_only_ports_of_the_network_are_in_its_partition(cloud: Cloud) -> None:
    """A server that Nova boots with a whole adapter, and bare metal by client-id; both leave when they go."""
    network = cloud.network(LAST)
    server, port = cloud.server(network, "direct-physical")
    its = cloud.admin.network.get_port(port).binding_host_id
    others = [place for place in adapters(cloud.site, 8, 6) if place[0] != its]  # of any node that is free
    metal = [cloud.bare_metal(network, *place) for place in others[:2]]
    assert len(cloud.settled(network, LAST)) == 3
    said = cloud.person.weft("network", "events", network.id).out
    assert f"port {port.id} is in segment {LAST:#x}" in said
    # The server itself is on a node that pods could have, and is in a network of its own there.
    assert cloud.person.weft("audit", "--json").json["findings"] == []
    cloud.end(server)
    cloud.admin.network.update_port(
        metal[0], binding_host_id="", extra_dhcp_opts=[{"opt_name": "client-id", "opt_value": None}]
    )  # nothing is ever sent of this
    wait_for(lambda: len(cloud.wanted(network)) == 1)
    assert len(cloud.settled(network, LAST)) == 1


@pytest.mark.nightly(reason="a minute; by day Neutron ends, and weft for a moment")
@pytest.mark.parametrize("seconds", [0.0, 75.0])
def test_ports_changed_while_weft_is_down_are_reconciled(cloud: Cloud, seconds: float) -> None:
    """The front answers 503, which the driver repeats: refused connections would leave its rows stuck forever."""
    network = cloud.network(LAST - 1)
    places = adapters(cloud.site, 8, 4)
    first = [cloud.bare_metal(network, host, hca) for host, hca in places[:2]]
    cloud.settled(network, LAST - 1)
    cloud.lab.supervisor.stop(["weft"], giving_up=False)
    for host, hca in places[2:]:
        cloud.bare_metal(network, host, hca)
    cloud.admin.network.delete_port(first[0].id)
    front = f"{cloud.lab.layout.url('front')}/mlnx/app/jobs/1"
    wait_for(lambda: httpx.get(front).status_code == 503)
    threading.Event().wait(seconds)
    assert cloud.journal()[0] == 0, "nothing is stuck"
    cloud.lab.up()
    assert len(cloud.settled(network, LAST - 1)) == 3
    assert cloud.journal()[0] == 0, "nothing is stuck"


@pytest.mark.nightly(reason="by day it is killed while it tells weft of a port")
def test_ports_are_reconciled_after_neutron_is_killed(cloud: Cloud) -> None:
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


@pytest.mark.nightly(reason="by day the row that it leaves is freed on the journal's own database")
def test_neutron_killed_during_a_notice_is_reconciled(cloud: Cloud) -> None:
    """Its driver never repeats what it was sending then. The wire is right nevertheless, and the row is freed."""
    network = cloud.network(LAST - 6)
    places = adapters(cloud.site, 8, 2)
    killed = threading.Event()

    def hold(request: BaseHTTPRequestHandler) -> None:
        assert killed.wait(120)
        request.close_connection = True

    with instead_of_the_front(cloud, hold) as asked:
        cloud.bare_metal(network, *places[0])
        wait_for(lambda: any(a.startswith("POST") for a in asked))
        for name in ("neutron", "neutron-rpc"):  # whichever of both sends it
            record = cloud.lab.supervisor.record(name)
            assert record is not None
            os.kill(record.pid, signal.SIGKILL)
        killed.set()
    assert len(cloud.settled(network, LAST - 6)) == 1
    cloud.bare_metal(network, *places[1])
    assert len(cloud.settled(network, LAST - 6)) == 2
    wait_for(lambda: cloud.journal()[0] == 1, pause=5.0)
    code, journal = cloud.journal("--repair")
    assert code == 0 and journal["freed"] == len(journal["rows"]) > 0
    wait_for(lambda: cloud.journal()[0] == 0)
    assert len(cloud.settled(network, LAST - 6)) == 2


@contextmanager
def instead_of_the_front(
    cloud: Cloud, answer: Callable[[BaseHTTPRequestHandler], None]
) -> Generator[list[str]]:
    """Meanwhile another server at the front's address answers; the requests that it got."""
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


@pytest.mark.nightly(reason="Neutron takes two seconds for each port; by day a few, and many on fakes")
@pytest.mark.parametrize("number", [12, 200])
def test_many_concurrent_ports_are_reconciled(cloud: Cloud, number: int) -> None:
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


@pytest.mark.nightly(reason="by day a killed Neutron leaves a row that is stuck, which is freed the same way")
def test_front_errors_and_malformed_answers_are_survived(cloud: Cloud) -> None:
    """500 to everything, then no JSON: the driver repeats the first and is stuck with the second. The wire is right
    all the while; what is stuck is reported, and sent again.
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
    code, journal = cloud.journal("--repair")
    assert code == 0 and journal["freed"] == len(journal["rows"]) > 0
    wait_for(lambda: cloud.journal()[0] == 0)
    assert len(cloud.settled(network, LAST - 4)) == 6


@pytest.mark.nightly(reason="half a minute of processor; by day on a fake Neutron that answers so")
def test_user_without_its_role_removes_nothing(cloud: Cloud) -> None:
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


@pytest.mark.nightly(
    reason="two minutes; by day a stranger stays in its own network, and pods live beside others' pods"
)
def test_server_of_a_stranger_is_untouched_through_a_pods_life(cloud: Cloud, people: People) -> None:
    """Order, growth, a server lost and repaired, release: what Nova and Neutron have of a server that isn't weft's,
    and which ports have its P_Key, stays as it was."""
    tenant, number = people("team-a"), LAST - 9
    network = cloud.network(number)
    server, port = cloud.server(network, "direct-physical")
    cloud.settled(network, number)

    def strangers() -> tuple[object, ...]:
        compute, neutron = cloud.admin.compute, cloud.admin.network
        return (
            compute.get_server(server.id).to_dict(),
            neutron.get_port(port.id).to_dict(),
            cloud.wired(number),
        )

    before = strangers()
    assert tenant.order("beside", 2, "--wait").code == 0
    assert strangers() == before
    (tenant.folder / "beside.yaml").write_text(POD.format(name="beside", count=3, floating="none", spare=0))
    assert tenant.weft("pod", "apply", "-f", "beside.yaml", "--wait").code == 0
    assert strangers() == before
    pod = tenant.weft("pod", "show", "beside", "--json").json
    lost = servers_of(cloud.admin, pod["id"])[0]
    cloud.admin.compute.delete_server(lost)
    cloud.admin.compute.wait_for_delete(lost)
    repaired = cloud.person.weft("audit", "--repair", "--json")
    assert repaired.json["findings"] and all(f["repaired"] for f in repaired.json["findings"]), repaired.out
    wait_for(lambda: len(servers_of(cloud.admin, pod["id"])) == 3)
    assert strangers() == before
    assert tenant.weft("pod", "release", "beside", "--wait").code == 0
    assert tenant.weft("pod", "receipt", "beside", "--json").json["receipt"]["clean"]
    assert strangers() == before
    assert cloud.person.weft("audit", "--json").json["findings"] == []
