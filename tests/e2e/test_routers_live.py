"""Packets through routers that weft has asked for, by Neutron's own L3 agent: those of a site's `nat` and of pods.

A host on the external network says which address it is called from.
"""

from __future__ import annotations

import shlex
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.people import People, Person, assert_clean, connection, wait_for
from tests.helpers.l3agent import ADDRESS, PORT, Routers, l3_agent
from tests.helpers.ownlab import own_lab
from weft.app.sitefile import checked, load_site
from weft.model.site import SiteNetwork
from weftlab.hypervisor.bridges import DOOR, entered
from weftlab.hypervisor.login import OPTIONS, SshClient, guests_of, make_key
from weftlab.lab import Lab
from weftlab.switches.labsite import lab_ovs

pytestmark = [
    pytest.mark.cloud,
    pytest.mark.nightly(reason="a lab of its own with guests, and Neutron's L3 agent"),
]
VLAN = 25
NETWORK: dict[str, Any] = {
    "cloud": "lab",
    "physical_network": "physnet1",
    "vlan": VLAN,
    "subnets": {
        "tenant": {
            "role": "tenant",
            "addresses": "10.225.0.0/24",
            "gateway": "10.225.0.1",
            "nat": True,
            "pool": {"first": "10.225.0.100", "last": "10.225.0.250"},
        }
    },
}
HOST, OTHER = "10.225.0.50/24", "10.225.0.51/24"
POD = """\
name: out
nodes: {{count: 2, flavor: gpu8, image: guest}}
fabric: none
access: {{ssh_key: {key}, floating_ip: first, ssh_from: [203.0.113.0/24]}}
"""


@pytest.fixture(scope="module")
def lab() -> Generator[Lab]:
    with own_lab(nodes=4, leaves=2, ipus=0, guests=True) as lab:
        yield lab


@pytest.fixture
def routers(lab: Lab) -> Iterator[Routers]:
    with l3_agent(lab, connection(lab, "operator")) as found:
        yield found


def good(person: Person, *words: str) -> None:
    answer = person.weft(*words)
    assert answer.code == 0, answer.out + answer.err


def external(router: Any) -> str:
    """The router's address on the external network."""
    (one,) = router.external_gateway_info["external_fixed_ips"]
    return one["ip_address"]


def routed_site(lab: Lab, operator: Person, cloud: Any, routers: Routers) -> Any:
    """The lab's site with a network that has `nat`, applied; its router, which Neutron's agent has made."""
    site = load_site(lab.site_path)
    networks = {"site-tenant": SiteNetwork.model_validate(NETWORK)}
    file = operator.folder / "described.yaml"  # JSON is YAML
    file.write_text(checked(site.model_copy(update={"networks": networks})).model_dump_json())
    good(operator, "site", "activate", str(file))
    good(operator, "site", "apply", "--wait")
    router = next(r for r in cloud.network.routers() if r.name == "lab-site-tenant")
    wait_for(lambda: routers.serve(router.id))
    wait_for(lambda: f"--to-source {external(router)}" in routers.rules(router.id))
    return router


def test_nat_of_a_site_translates_and_ends_with_the_site(lab: Lab, people: People, routers: Routers) -> None:
    operator, cloud = people("operator"), connection(lab, "operator")
    router = routed_site(lab, operator, cloud, routers)
    ovs = lab_ovs(lab.layout)
    for vlan, host, seen in ((VLAN, HOST, external(router)), (VLAN + 1, OTHER, "")):
        with entered(ovs, vlan, host):
            ovs.inside(DOOR, ["ip", "route", "add", "default", "via", "10.225.0.1"])
            if seen:
                wait_for(lambda: routers.called_from(DOOR))
            assert routers.called_from(DOOR) == seen, f"VLAN {vlan}"
    assert_clean(operator)
    outside = {"network_id": router.external_gateway_info["network_id"], "enable_snat": False}
    updated = cloud.network.update_router(router, external_gateway_info=outside)
    assert updated.external_gateway_info["enable_snat"] is False
    good(operator, "site", "apply", "--wait")
    assert cloud.network.get_router(router).external_gateway_info["enable_snat"] is True
    wait_for(lambda: f"--to-source {external(router)}" in routers.rules(router.id))
    good(operator, "site", "destroy", "--wait")
    assert operator.weft("site", "receipt", "--json").json["receipt"]["clean"] is True
    wait_for(lambda: not routers.rules(router.id))
    with entered(ovs, VLAN, HOST):
        ovs.inside(DOOR, ["ip", "route", "add", "default", "via", "10.225.0.1"])
        assert routers.called_from(DOOR) == ""
    good(operator, "site", "activate", str(lab.site_path))


def test_strangers_reach_hosts_behind_a_sites_router_only_as_planned(
    lab: Lab, people: People, routers: Routers
) -> None:
    """Who is on the external network, by a route; and a tenant's host, by a route that any member may set."""
    operator, cloud = people("operator"), connection(lab, "operator")
    router = routed_site(lab, operator, cloud, routers)
    (note,) = (n for n in operator.weft("site", "plan", "--json").json["notes"] if "site-tenant" in n)
    assert "can be reached" in note and "tenants' routers" in note
    ovs, tenant = lab_ovs(lab.layout), connection(lab, "team-a").network
    host, behind = HOST.partition("/")[0], "10.99.7.1"
    with entered(ovs, VLAN, HOST), routers.answering(DOOR):
        ovs.inside(DOOR, ["ip", "route", "add", "default", "via", "10.225.0.1"])
        assert routers.calls(host) == "", "without a route it isn't there"
        routers.outside(["ip", "route", "add", "10.225.0.0/24", "via", external(router)])
        wait_for(lambda: routers.calls(host))
        assert routers.calls(host) == ADDRESS
        network = tenant.create_network(name="strange")
        subnet = tenant.create_subnet(
            network_id=network.id, ip_version=4, cidr="10.99.7.0/24", gateway_ip=behind
        )
        outside = {"network_id": router.external_gateway_info["network_id"]}
        strange = tenant.create_router(name="strange", external_gateway_info=outside)
        tenant.add_interface_to_router(strange, subnet_id=subnet.id)
        try:
            wait_for(lambda: routers.serve(strange.id))
            assert routers.routed(strange.id, host, behind) == ""
            route = {"destination": "10.225.0.0/24", "nexthop": external(router)}
            tenant.update_router(strange, routes=[route])
            wait_for(lambda: routers.routed(strange.id, host, behind))
            assert routers.routed(strange.id, host, behind) == external(strange)
        finally:
            tenant.update_router(strange, routes=[])
            tenant.remove_interface_from_router(strange, subnet_id=subnet.id)
            tenant.delete_router(strange)
            tenant.delete_network(network)
    good(operator, "site", "destroy", "--wait")
    good(operator, "site", "activate", str(lab.site_path))


def test_guests_use_the_pods_router_and_floating_ip(
    lab: Lab, people: People, routers: Routers, tmp_path: Path
) -> None:
    key = make_key(tmp_path)
    tenant, cloud = people("team-a"), connection(lab, "operator")
    public = key.with_suffix(".pub").read_text().strip()
    (tenant.folder / "out.yaml").write_text(POD.format(key=public))
    good(tenant, "pod", "create", "-f", str(tenant.folder / "out.yaml"), "--wait")
    mine = guests_of(tenant.weft("pod", "show", "out", "--json").json, cloud.network)
    (router,) = (r for r in cloud.network.routers() if r.name.startswith("weft-"))
    floating = {ip.fixed_ip_address: ip.floating_ip_address for ip in cloud.network.ips()}
    wait_for(lambda: routers.serve(router.id))
    door, call = SshClient(lab_ovs(lab.layout), key), f"nc -w 5 {ADDRESS} {PORT} < /dev/null || true"
    with door.into(mine):
        seen: dict[str, str] = {}
        for address in mine.addresses.values():
            wait_for(lambda address=address: door.awaited(address, call))
            seen[address] = door.awaited(address, call)
    assert seen == {a: floating.get(a) or external(router) for a in mine.addresses.values()}
    ((inside, outside),) = floating.items()
    words = [word for option in OPTIONS for word in ("-o", option)]
    show = f"ip -o -4 address show dev eth0 | grep -o {shlex.quote(inside)}"
    done = routers.outside(["ssh", "-i", str(key), "-q", *words, f"root@{outside}", show])
    assert done.stdout.strip() == inside, done
    good(tenant, "pod", "release", "out", "--wait")
    assert tenant.weft("pod", "receipt", "out", "--json").json["receipt"]["clean"] is True
    wait_for(lambda: not routers.rules(router.id))
    done = routers.outside(["ssh", "-i", str(key), "-q", *words, f"root@{outside}", "true"])
    assert done.returncode == 255, "no host answers there any more"
    assert_clean(people("operator"))
