"""Servers that move, and a nova-compute that is down, on the lab: what Nova refuses, and what weft notices."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from tests.e2e.people import People, connection, wait_for
from tests.e2e.pod_watch import PodWatch
from weft.app.sitefile import load_site
from weft.drivers.opensm import OpenSmDriver
from weft.ports.ledger import NoLedger
from weftlab.lab import Lab

pytestmark = [
    pytest.mark.cloud,
    pytest.mark.nightly(
        reason="half a minute of processor each; by day on fakes, and on the lab a tenant can't move its server do"
    ),
]


def act(cloud: Any, server: str, action: dict[str, Any], version: str = "2.91") -> int:
    """Ask Nova for an action; the status of its answer."""
    answer = cloud.compute.post(f"/servers/{server}/action", json=action, microversion=version)
    return int(answer.status_code)


def with_key(lab: Lab, pkey: str) -> set[str]:
    """Nodes of which any port has the P_Key, read from the wire."""
    site, key = load_site(lab.site_path), int(pkey, 16)
    found = {
        g for g, t in OpenSmDriver(site, "ib0", NoLedger()).tables().items() if {key, 0x8000 | key} & t.keys
    }
    return {site.hca_by_port_guid[g][0].name for g in found}


def actions(cloud: Any, server: str) -> list[dict[str, Any]]:
    """Nova's record of what was done with a server, also once it is deleted; nothing before it has a cell."""
    answer = cloud.compute.get(f"/servers/{server}/os-instance-actions", microversion="2.62")
    return answer.json()["instanceActions"] if answer.status_code == 200 else []


def server_of(lab: Lab, pod: dict[str, Any], node: str) -> str:
    return next(r["id"] for r in pod["resources"] if r["key"] == f"server/{node}")


@contextmanager
def compute_down(cloud: Any, host: str) -> Generator[None]:
    """Meanwhile Nova takes the host's nova-compute for dead."""
    service = next(s for s in cloud.compute.services(binary="nova-compute") if s.host == host)

    def force(down: bool) -> None:
        path = f"/os-services/{service.id}"
        answer = cloud.compute.put(path, json={"forced_down": down}, microversion="2.53")
        assert answer.status_code == 200, answer.text

    force(True)
    try:
        yield
    finally:
        force(False)


def test_moved_server_loses_its_p_key_on_both_nodes(lab: Lab, people: People) -> None:
    """Nova refuses a member to move a pod's server; an operator can, and then the node that it left has no key, the
    node that it is on isn't assigned, and the pod says why."""
    tenant, rival, operator = people("team-a"), people("team-b"), people("operator")
    made = tenant.order("moves", 1, "--wait", "--json")
    assert made.code == 0, made.err
    pod = tenant.weft("pod", "show", "moves", "--json").json
    home = pod["placed"][0]["node"]
    server = server_of(lab, pod, home)
    assert with_key(lab, pod["segment"]) == {home}

    member, admin = connection(lab, "team-a"), connection(lab, "operator")
    flavor = member.compute.find_flavor("gpu1").id
    for action in ({"shelve": None}, {"resize": {"flavorRef": flavor}}):
        assert act(member, server, action) == 403, action
    assert act(member, server, {"reboot": {"type": "HARD"}}) == 202
    wait_for(lambda: admin.compute.get_server(server).status == "ACTIVE")

    away = next(f"gpu{n:02d}" for n in range(16, 0, -1) if f"gpu{n:02d}" != home)
    assert act(admin, server, {"shelve": None}) == 202
    wait_for(lambda: admin.compute.get_server(server).status == "SHELVED_OFFLOADED")
    assert act(admin, server, {"unshelve": {"host": away}}) == 202
    wait_for(lambda: admin.compute.get_server(server).compute_host == away)
    # No need to wait for weft's next reading: the claim itself reads.
    others = [f"gpu{n:02d}" for n in range(1, 17) if f"gpu{n:02d}" not in (home, away)]
    aside = [word for node in others for word in ("--node", node)]
    assert operator.weft("reservation", "create", "moves", "--project", "team-a", *aside).code == 0
    try:
        refused = rival.order("others", 1)
        assert refused.code == 1 and "What would fit" in refused.err, refused.err
    finally:
        assert operator.weft("reservation", "delete", "moves").code == 0
    with closing(PodWatch(lab, pod["id"])) as watch:
        watch.visits_until(lambda: watch.state == "DEGRADED", "the server isn't where it was")
        watch.visits_until(lambda: with_key(lab, pod["segment"]) == set(), "the node's key is gone")
    assert "isn't on its host" in tenant.weft("pod", "show", "moves", "--json").json["reason"]
    assert tenant.weft("pod", "release", "moves", "--wait").code == 0


def test_release_waits_for_a_guest_whose_nova_compute_is_down(lab: Lab, people: People) -> None:
    """Nova deletes such a server from its database alone; that it is in no listing any more proves nothing.

    Nor does the end of another one that weft has asked for in its place since.
    """
    tenant, operator = people("team-a"), people("operator")
    assert tenant.order("dark", 1, "--wait").code == 0
    pod = tenant.weft("pod", "show", "dark", "--json").json
    node = pod["placed"][0]["node"]
    first, member = server_of(lab, pod, node), connection(lab, "team-a")
    with compute_down(connection(lab, "operator"), node), closing(PodWatch(lab, pod["id"])) as watch:
        member.compute.delete_server(first)
        wait_for(lambda: first not in {s.id for s in member.compute.servers()})
        watch.repair()
        watch.visits_until(lambda: ("server", first) not in watch.ids(), "another server was asked for")
        tenant.weft("pod", "release", "dark")

        def is_reported() -> bool:
            shown = operator.weft("pod", "show", pod["id"], "--json").json
            assert shown["state"] != "RELEASED"
            return shown["state"] == "RELEASING" and "guest" in shown["reason"] and first in shown["reason"]

        watch.visits_until(is_reported, "the reason names the guest")
    assert tenant.weft("pod", "receipt", "dark").code != 0
    abandoned = operator.weft("pod", "abandon", pod["id"], "--reason", "the host was looked at", "--wait")
    assert abandoned.code == 0, abandoned.err
    assert node in {n["name"] for n in operator.weft("node", "list", "--state", "quarantined", "--json").json}
    # It stays there: this nova-compute looks at its own devices every five minutes, and until then has the guest's.


def test_pod_cancelled_while_its_server_is_scheduled_leaves_its_node_free(lab: Lab, people: People) -> None:
    """Nova deletes such a server by itself, and its host's event says later that the build was a success."""
    tenant, operator = people("team-a"), people("operator")
    made = tenant.order("hasty", 1, "--json")
    assert made.code == 0, made.err
    pod_id, admin = made.json["id"], connection(lab, "operator")
    node = tenant.weft("pod", "show", "hasty", "--json").json["placed"][0]["node"]
    record = lab.supervisor.record(f"nova-compute@{node}")
    assert record is not None

    def mine() -> list[Any]:
        servers = admin.compute.servers(all_projects=True)
        return [s for s in servers if s.name.startswith(f"weft-{pod_id[:8]}-")]

    os.kill(record.pid, signal.SIGSTOP)  # it gets Nova's request later, as a busy one does
    try:
        (server,) = wait_for(lambda: [s for s in mine() if actions(admin, s.id)], pause=0.2)
        assert (server.status, server.compute_host) == ("BUILD", None)
        assert tenant.weft("pod", "release", "hasty").code == 0
        wait_for(lambda: not mine())
    finally:
        os.kill(record.pid, signal.SIGCONT)
    assert tenant.weft("pod", "wait", "hasty", "--until", "RELEASED", "--timeout", "120").code == 0
    (action,) = actions(admin, server.id)
    assert action["action"] == "create"
    receipt = tenant.weft("pod", "receipt", "hasty", "--json").json["receipt"]
    assert receipt["clean"], receipt
    assert "no host had it" in next(i["seen"] for i in receipt["items"] if i["plane"] == "guest")
    assert node in {n["name"] for n in operator.weft("node", "list", "--state", "free", "--json").json}
