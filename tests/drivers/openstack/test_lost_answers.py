"""Answers that get lost between a real cloud and the driver."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tests.drivers.openstack.wired import Wired, connect
from weft.drivers.openstack import KeystoneIdentity, Sessions, neutron
from weft.model.errors import TemporaryError, UnknownError
from weft.model.kindrow import Home
from weft.model.kinds import kinds_at
from weft.model.mark import outside_name
from weft.model.resources import Resource
from weft.model.specs import NetworkSpec, PortSpec, SecurityGroupSpec, Spec, SubnetSpec
from weft.testing.seen import there
from weftlab.lab import Lab

pytestmark = [pytest.mark.cloud, pytest.mark.landing]

SEGMENT = 930


def resource(wired: Wired, key: str, spec: Spec) -> Resource:
    return Resource(key=key, name=outside_name(wired.scope.owner.id, key), where="lab", spec=spec)


def networks(wired: Wired) -> list[Resource]:
    spec = NetworkSpec(physical_network="ibnet", segment=SEGMENT, port_security=False)
    other = NetworkSpec(physical_network="physnet1", segment=SEGMENT, port_security=True)
    return [resource(wired, "network/rdma", spec), resource(wired, "network/management", other)]


def ports(wired: Wired, count: int) -> tuple[list[Resource], dict[str, str]]:
    """Ports that don't exist yet, and the ids of the network and subnet that they need."""
    network = networks(wired)[0]
    ids = {network.key: str(wired.driver.create(wired.scope, [network], {})[network.key].id)}
    spec = SubnetSpec(network="network/rdma", cidr="10.78.0.0/24", gateway=False, dhcp=False)
    subnet = resource(wired, "subnet/rdma", spec)
    ids[subnet.key] = str(wired.driver.create(wired.scope, [subnet], ids)[subnet.key].id)
    made = [
        resource(
            wired,
            f"port/gpu{n:02d}/hca",
            PortSpec(
                network="network/rdma",
                subnet="subnet/rdma",
                address=f"10.78.0.{n + 10}",
                vnic_type="direct-physical",
                host=f"gpu{n:02d}",
            ),
        )
        for n in range(count)
    ]
    return made, ids


def test_networks_whose_answer_was_lost_are_found_again(wired: Wired) -> None:
    """The bulk creation raises, `find` finds both, and a second creation succeeds with them."""
    wired.neutron.lose("POST", "/networks")
    with pytest.raises(TemporaryError):
        wired.driver.create(wired.scope, networks(wired), {})
    seen = wired.driver.find(wired.scope, networks(wired), {})
    assert set(seen) == {"network/rdma", "network/management"}
    again = wired.driver.create(wired.scope, networks(wired), {})
    assert {key: o.id for key, o in again.items()} == {key: o.id for key, o in seen.items()}


def test_ports_whose_answer_was_lost_are_found_and_the_rest_created(wired: Wired) -> None:
    """A request for three of five ports lost its answer: creating all five makes only two, in bulk."""
    wanted, ids = ports(wired, 5)
    wired.neutron.lose("POST", "/ports")
    with pytest.raises(TemporaryError):
        wired.driver.create(wired.scope, wanted[:3], ids)
    wired.neutron.seen.clear()
    outcomes = wired.driver.create(wired.scope, wanted, ids)
    assert all(o.id and o.error is None for o in outcomes.values())
    assert [path for method, path in wired.neutron.seen if method == "POST"] == ["/ports", "/ports"]
    assert len(wired.driver.marked(wired.scope.site, [])) == 7


def test_one_lost_answer_of_several_bulk_requests_is_recovered(
    wired: Wired, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ports of the other requests are known; those without an answer are found the next time, and none is created
    twice.
    """
    monkeypatch.setattr(neutron, "BATCH", 3)
    wanted, ids = ports(wired, 8)
    wired.neutron.lose("POST", "/ports")
    outcomes = wired.driver.create(wired.scope, wanted, ids)
    lost = [key for key, o in outcomes.items() if isinstance(o.error, TemporaryError)]
    assert outcomes.keys() == {r.key for r in wanted} and len(lost) in (3, 2)
    assert all(o.id for key, o in outcomes.items() if key not in lost)
    again = wired.driver.create(wired.scope, [r for r in wanted if r.key in lost], ids)
    assert all(o.id and o.error is None for o in again.values())
    assert [m.kind for m in wired.driver.marked(wired.scope.site, [])].count(wanted[0].kind) == len(wanted)


def test_repeated_deletion_after_a_lost_answer_succeeds(wired: Wired) -> None:
    """The loop finds the resource absent, and deleting again is no error."""
    wanted = networks(wired)
    wired.driver.create(wired.scope, wanted, {})
    for network in wired.driver.find(wired.scope, wanted, {}).values():
        wired.neutron.lose("DELETE", f"/networks/{network.id}")
    outcomes = wired.driver.delete(wired.scope, wanted, {})
    assert all(isinstance(o.error, TemporaryError) for o in outcomes.values())
    assert there(wired.driver.find(wired.scope, wanted, {})) == {}
    assert all(o.error is None for o in wired.driver.delete(wired.scope, wanted, {}).values())


def test_listing_that_fails_is_unknown_not_absent(wired: Wired) -> None:
    """A 503 or a broken connection in `find` raises."""
    wired.neutron.lose("GET", "/networks")
    with pytest.raises(UnknownError):
        wired.driver.find(wired.scope, networks(wired), {})
    wired.neutron.refusals.append(503)
    with pytest.raises(UnknownError) as error:
        wired.driver.find(wired.scope, networks(wired), {})
    assert "HTTP 503" in str(error.value)


def test_mark_removed_by_the_tenant_is_restored(wired: Wired) -> None:
    """A resource with a known id is weft's: the missing mark is a difference, update repairs it, delete removes it."""
    wanted = networks(wired)[:1]
    made = str(wired.driver.create(wired.scope, wanted, {})["network/rdma"].id)
    ids = {"network/rdma": made}
    wired.tenant.network.update_network(made, description="mine, all mine")
    assert there(wired.driver.find(wired.scope, wanted, {})) == {}
    seen = wired.driver.find(wired.scope, wanted, ids)["network/rdma"]
    assert [d.field for d in seen.differences] == ["mark"]
    assert wired.driver.update(wired.scope, wanted, ids)["network/rdma"].error is None
    assert wired.driver.find(wired.scope, wanted, {})["network/rdma"].differences == ()
    wired.tenant.network.update_network(made, description="mine again")
    wired.driver.delete(wired.scope, wanted, ids)
    assert wired.tenant.network.find_network(made) is None


def test_externally_added_rules_are_removed(wired: Wired) -> None:
    """A tenant's rule in the pod's group is a difference, and update makes the rules exact."""
    wanted = [resource(wired, "security_group", SecurityGroupSpec(ssh_from=("192.0.2.0/24",)))]
    made = str(wired.driver.create(wired.scope, wanted, {})["security_group"].id)
    wired.tenant.network.create_security_group_rule(
        security_group_id=made, direction="ingress", protocol="udp", port_range_min=53, port_range_max=53
    )
    (difference,) = wired.driver.find(wired.scope, wanted, {})["security_group"].differences
    assert difference.field == "rules"
    assert "udp" in difference.observed
    assert wired.driver.update(wired.scope, wanted, {})["security_group"].error is None
    assert wired.driver.find(wired.scope, wanted, {})["security_group"].differences == ()


def test_hindrance_to_a_deletion_is_named(wired: Wired) -> None:
    """A tenant's own port on the pod's network stays; the error names it and its owner."""
    wanted, ids = ports(wired, 1)
    foreign = wired.tenant.network.create_port(
        network_id=ids["network/rdma"], name="my-own", device_owner="me:too"
    )
    outcome = wired.driver.delete(wired.scope, networks(wired)[:1], ids)["network/rdma"]
    assert isinstance(outcome.error, TemporaryError)
    assert "port my-own of me:too" in str(outcome.error)
    assert wired.driver.delete(wired.scope, wanted, ids)[wanted[0].key].error is None
    wired.tenant.network.delete_port(foreign)
    assert wired.driver.delete(wired.scope, networks(wired)[:1], ids)["network/rdma"].error is None


def test_listing_reads_all_pages(lab: Lab) -> None:
    """With one row on a page the listing has the same rows."""
    own = Sessions("weft", [lab.clouds_yaml]).own()
    whole = own.compute.listing("list flavors", "/flavors", "flavors")
    assert len(whole) > 1
    assert own.compute.listing("list flavors", "/flavors", "flavors", {"limit": 1}) == whole


def test_resources_in_another_project_are_neither_found_nor_removed(wired: Wired, lab: Lab) -> None:
    """The same pod in another project finds nothing there and removes nothing here."""
    wanted = networks(wired)
    wired.driver.create(wired.scope, wanted, {})
    other = replace(wired.scope, project_id=str(connect(lab.clouds_yaml, "team-b").current_project_id))
    assert there(wired.driver.find(other, wanted, {})) == {}
    assert all(o.id is None and o.error is None for o in wired.driver.delete(other, wanted, {}).values())
    assert len(wired.driver.find(wired.scope, wanted, {})) == 2


def test_threads_share_one_token_per_project(lab: Lab) -> None:
    """Sixteen calls at once sign in once."""
    sessions = Sessions("weft", [lab.clouds_yaml])
    project = str(connect_project(lab))

    def token(_: int) -> str:
        service = sessions.project(project).network
        service.listing("list networks", "/networks", "networks")
        return str(service._connected().get_token())

    with ThreadPoolExecutor(16) as pool:
        assert len(set(pool.map(token, range(16)))) == 1


def connect_project(lab: Lab) -> str:
    return str(connect(lab.clouds_yaml, "team-a").current_project_id)


def test_validated_token_is_cached_for_a_limited_time(lab: Lab) -> None:
    """A second check makes no request; one after the time does; a revoked token is refused then."""
    sessions = Sessions("weft", [lab.clouds_yaml])
    now = datetime.now(UTC)
    clock = [now]
    identity = KeystoneIdentity(sessions, remembered=30.0, now=lambda: clock[0])
    token = str(connect(lab.clouds_yaml, "team-a").auth_token)
    assert identity.check(token) == identity.check(token)
    assert sessions.counter.take() == {"GET identity /auth/tokens": 1}
    clock[0] = now + timedelta(seconds=31)
    identity.check(token)
    assert sessions.counter.take() == {"GET identity /auth/tokens": 1}


def test_every_role_of_the_lab_is_distinguished(lab: Lab) -> None:
    """Member, reader and operator have their own roles and projects."""
    identity = KeystoneIdentity(Sessions("weft", [lab.clouds_yaml]))
    found = {
        name: identity.check(str(connect(lab.clouds_yaml, name).auth_token))
        for name in ("team-a", "team-b-reader", "operator")
    }
    assert found["team-a"].project_name == "team-a"
    assert "member" in found["team-a"].roles
    assert found["team-b-reader"].roles == {"reader"}
    assert "admin" in found["operator"].roles


def test_driver_serves_every_kind(wired: Wired) -> None:
    """Except the fabric's partition and the kinds of V-IPU."""
    assert wired.driver.kinds == kinds_at(Home.CLOUD)
