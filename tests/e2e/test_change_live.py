"""A pod changes on the lab's real cloud and fabric: it grows, shrinks and opens while its other servers run on."""

from __future__ import annotations

from ipaddress import ip_network

import pytest

from tests.e2e.people import POD, Answer, People, Person, assert_clean, connection
from weftlab.lab import Lab

pytestmark = pytest.mark.cloud


def apply(person: Person, count: int, floating: str = "none", *words: str) -> Answer:
    (person.folder / "train.yaml").write_text(
        POD.format(name="train", count=count, floating=floating, spare=0)
    )
    done = person.weft("pod", "apply", "-f", "train.yaml", "--wait", *words)
    assert done.code == 0, done.err
    return done


def servers(person: Person) -> dict[str, str]:
    """Node -> id of its server, of those that run."""
    pod = person.weft("pod", "show", "train", "--json").json
    assert pod["state"] == "READY", pod["reason"]
    rows = [r for r in pod["resources"] if r["kind"] == "server" and r["state"] == "settled"]
    return {r["key"].split("/")[1]: r["id"] for r in rows}


def set_route(lab: Lab) -> None:
    """Set an extra route of the pod's router, as any member may: it keeps Neutron from detaching the router."""
    cloud = connection(lab, "team-a")
    (router,) = (r for r in cloud.network.routers() if r.name.startswith("weft-"))
    (port,) = cloud.network.ports(device_id=router.id, device_owner="network:router_interface")
    subnet = ip_network(cloud.network.get_subnet(port.fixed_ips[0]["subnet_id"]).cidr)
    route = {"destination": "192.0.2.0/24", "nexthop": str(subnet[-2])}
    assert cloud.network.update_router(router, routes=[route]).routes == [route]


@pytest.mark.nightly(reason="a minute; by day on fakes, and killed at each statement")
def test_pod_grows_opens_and_shrinks_while_others_run(lab: Lab, people: People) -> None:
    """Who stays keeps its server; who leaves is free at once; the receipt covers everything that ever was."""
    tenant, operator = people("team-a"), people("operator")
    apply(tenant, 1)
    first = servers(tenant)
    assert len(first) == 1

    again = apply(tenant, 1)
    assert "nothing to change" in again.out
    generation = tenant.weft("pod", "show", "train", "-f", "value", "-c", "generation").out
    assert servers(tenant) == first and generation == "1\n", again.out

    apply(tenant, 2, "first")
    grown = servers(tenant)
    assert len(grown) == 2 and first.items() <= grown.items()
    pod = tenant.weft("pod", "show", "train", "--json").json
    assert [r for r in pod["resources"] if r["kind"] == "floating_ip" and r["state"] == "settled"]
    set_route(lab)
    assert_clean(operator)

    [leaving] = first
    apply(tenant, 1, "first" if leaving != sorted(grown)[0] else "none", "--remove", leaving)
    left = servers(tenant)
    assert set(left) == set(grown) - {leaving} and left.items() <= grown.items()
    free = operator.weft("node", "list", "--state", "free", "--json").json
    assert leaving in {n["name"] for n in free}
    assert_clean(operator)

    refused = POD.format(name="train", count=1, floating="none", spare=0).replace("tiny", "another")
    (tenant.folder / "other.yaml").write_text(refused)
    other = tenant.weft("pod", "apply", "-f", "other.yaml")
    assert other.code == 2 and "nodes.image" in other.err

    assert tenant.weft("pod", "release", "train", "--wait").code == 0
    receipt = tenant.weft("pod", "receipt", "train", "--json").json["receipt"]
    assert receipt["clean"] and set(grown.values()) <= {
        word for item in receipt["items"] for word in item["subject"].split()
    }
    assert_clean(operator)
