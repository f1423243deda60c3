"""What a tenant does with its own token and the ordinary OpenStack tools, tried on the lab."""

from __future__ import annotations

import openstack
import pytest

from tests.e2e.people import People, assert_clean, connection
from weft.app.sitefile import load_site
from weft.drivers.opensm import OpenSmDriver
from weft.ports.ledger import NoLedger
from weftlab.lab import Lab

pytestmark = pytest.mark.cloud

ANOTHER = "weft site=lab pod=00000000-1111-2222-3333-444444444444 key=server/gpu01"


def test_tenants_marks_and_locks_do_not_prevent_a_clean_release(lab: Lab, people: People) -> None:
    """Another mark on everything, ports detached, tags off, the server locked: the receipt still tells the truth.

    Moves of a pod's server are refused.
    """
    tenant, operator = people("team-a"), people("operator")
    assert tenant.order("mine", 1, "--wait").code == 0
    pod = tenant.weft("pod", "show", "mine", "--json").json
    name = f"weft-{pod['id'][:8]}-"
    own, cloud = connection(lab, "team-a"), connection(lab, "operator")
    (server,) = [s for s in own.compute.servers() if s.name == pod["servers"][0]["name"]]
    for action in ({"shelve": None}, {"resize": {"flavorRef": own.compute.find_flavor("gpu1").id}}):
        refused = own.compute.post(f"/servers/{server.id}/action", json=action, microversion="2.91")
        assert refused.status_code == 403, action
    _disguise(own, server.id, name)
    key = 0x8000 | int(pod["segment"], 16)

    released = tenant.weft("pod", "release", "mine", "--wait")
    assert released.code == 0, released.err
    receipt = tenant.weft("pod", "receipt", "mine", "--json").json["receipt"]
    assert receipt["clean"]
    (item,) = [i for i in receipt["items"] if i["plane"] == "server"]
    assert server.id in item["subject"] and "404 by its id" in item["seen"]
    assert server.id not in {s.id for s in cloud.compute.servers(all_projects=True)}
    left = [*cloud.network.networks(), *cloud.network.ports(), *cloud.network.security_groups()]
    assert not [thing.name for thing in left if thing.name.startswith(name)]
    assert not any(
        key in t.keys for t in OpenSmDriver(load_site(lab.site_path), "ib0", NoLedger()).tables().values()
    )
    assert_clean(operator)


def _disguise(own: openstack.connection.Connection, server_id: str, name: str) -> None:
    """Change all descriptions, remove the server's ports and tags, and lock it."""
    own.compute.put(f"/servers/{server_id}", json={"server": {"description": ANOTHER}}, microversion="2.74")
    own.compute.delete(f"/servers/{server_id}/tags", microversion="2.74")
    for attached in own.compute.get(f"/servers/{server_id}/os-interface").json()["interfaceAttachments"]:
        own.compute.delete(f"/servers/{server_id}/os-interface/{attached['port_id']}")
    for things, change in (
        (own.network.networks(), own.network.update_network),
        (own.network.subnets(), own.network.update_subnet),
        (own.network.ports(), own.network.update_port),
        (own.network.security_groups(), own.network.update_security_group),
    ):
        for thing in [t for t in things if t.name.startswith(name)]:
            change(thing, description=ANOTHER)
    own.compute.post(f"/servers/{server_id}/action", json={"lock": None})
