"""The contract of a cloud driver: the fake in memory and the real OpenStack pass the same tests."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from tests.drivers.openstack.bench import Bench, fake_bench, pod, real_bench
from weft.model.errors import InputError, PermanentError, UnauthenticatedError
from weft.model.mark import Mark
from weft.model.order import NodesOrder, Order
from weft.model.resources import Graph, Kind, Resource, Status
from weft.model.specs import NetworkSpec, PortSpec, SecurityGroupSpec, SubnetSpec
from weft.model.uses import InUseError
from weft.ports.occupants import Ended

REAL = [pytest.mark.cloud, pytest.mark.lab, pytest.mark.landing]
NIGHTLY = pytest.mark.nightly(
    reason="20 to 30 s of processor; by day a pod from nothing and back, and this on the fake"
)
REAL_AT_NIGHT = pytest.mark.parametrize(
    "bench", ["fake", pytest.param("real", marks=[*REAL, NIGHTLY])], indirect=True
)


@pytest.fixture(params=["fake", pytest.param("real", marks=REAL)])
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    """A cloud with two free hosts and a pod's graph for them; everything left is removed afterwards."""
    made = fake_bench() if request.param == "fake" else real_bench(request)
    try:
        yield made
    finally:
        made.sweep()


def test_pod_is_created_settled_and_deleted(bench: Bench) -> None:
    """Everything of a graph is created, settled without differences, deleted, and absent.

    Meanwhile each host has its server and nothing else, by Nova and by Placement; at the end it has nothing.
    """
    assert bench.find() == {}
    assert not any(one.occupants or one.unknown for one in bench.facts.on_hosts(bench.hosts).values())
    began = datetime.now(UTC) - timedelta(seconds=5)
    bench.create_all()
    seen = bench.wait_settled()
    servers = {seen[f"server/{host}"].id for host in bench.hosts}
    assert servers <= set(bench.facts.built(began, lambda: servers))
    assert set(seen) == {r.key for r in bench.graph.resources}
    assert [(key, o.differences) for key, o in seen.items() if o.differences] == []
    for number, host in enumerate(bench.hosts):
        assert seen[f"server/{host}"].facts["host"] == host
        rdma = seen[f"port/{host}/hca"].facts
        assert (rdma["vif_type"], rdma["bound_host"]) == ("hostdev_physical", host)
        assert rdma["address"] == f"10.77.1.{10 + number}"
    assert seen["network/rdma"].facts["segment"] == bench.segment
    assert seen["floating_ip/first"].facts["address"]
    servers = {host: seen[f"server/{host}"].id for host in bench.hosts}
    now, listed = bench.facts.on_hosts(bench.hosts), bench.facts.servers_on_hosts()
    for host, server in servers.items():
        assert [(o.id, o.nova, o.placement) for o in now[host].occupants] == [(server, True, True)]
        assert (now[host].unknown, now[host].down) == ("", "")
        assert [(o.id, o.nova, o.placement) for o in listed[host].occupants] == [(server, True, False)]
    project, rdma_network = bench.scope.project_id, seen["network/rdma"].id
    listed_now = bench.facts.networks_on(bench.offer.rdma_physical_network)
    (network,) = [n for n in listed_now if n.id == rdma_network]
    mark = bench.scope.mark("network/rdma")
    assert (network.project_id, network.number, network.mark) == (project, bench.segment, mark)
    ports = {p.id: p for p in network.ports}
    for host, server in servers.items():
        port = ports[seen[f"port/{host}/hca"].id]
        assert (port.vnic_type, port.vif_type) == ("direct-physical", "hostdev_physical")
        assert (port.host, port.server) == (host, server)
        assert bench.facts.port_now(port.id, project) == port
    assert not bench.facts.is_gone(rdma_network, project)
    bench.delete_all()
    assert bench.find() == {}
    assert bench.marked() == []
    assert bench.facts.is_gone(rdma_network, project)
    assert all(bench.facts.port_now(p, project) is None for p in ports)
    assert not any(one.occupants or one.unknown for one in bench.facts.on_hosts(bench.hosts).values())
    assert {e.how for e in bench.facts.endings(project, servers.values()).values()} == {Ended.DESTROYED}


def test_host_that_nova_does_not_list_is_unknown(bench: Bench) -> None:
    """It isn't free, since its cell may not answer; and a server without a record in Nova hasn't ended."""
    seen = bench.facts.on_hosts(["no-such-host", bench.hosts[0]])
    assert seen["no-such-host"].unknown and not seen[bench.hosts[0]].unknown
    assert "no-such-host" not in bench.facts.servers_on_hosts()
    unknown = "00000000-0000-4000-8000-000000000000"
    assert bench.facts.endings(bench.scope.project_id, [unknown])[unknown].how is Ended.NO_RECORD


def test_create_is_idempotent(bench: Bench) -> None:
    """A creation that is repeated after a lost answer makes nothing twice."""
    wanted = bench.of(Kind.NETWORK, Kind.KEY_PAIR)
    first = bench.create(wanted)
    second = bench.create(wanted)
    assert {k: o.id for k, o in first.items()} == {k: o.id for k, o in second.items()}
    assert all(o.error is None for o in second.values())
    assert len(bench.marked()) == len(wanted)


def test_oldest_of_two_resources_with_one_mark_counts(bench: Bench) -> None:
    """Of two security groups with the same name and mark the older one is found; the audit lists both."""
    wanted = bench.of(Kind.SECURITY_GROUP)
    first = bench.create(wanted)["security_group"].id
    second = bench.duplicate_security_group(wanted[0])
    assert first != second
    assert bench.find(wanted)["security_group"].id == first
    assert {m.id for m in bench.marked()} == {first, second}


def test_delete_removes_duplicates_too(bench: Bench) -> None:
    """Delete removes every resource with the mark."""
    wanted = bench.of(Kind.SECURITY_GROUP)
    bench.create(wanted)
    bench.duplicate_security_group(wanted[0])
    bench.delete(wanted)
    bench.wait_absent(wanted)
    assert bench.marked() == []


def test_resource_without_the_mark_is_not_wefts(bench: Bench) -> None:
    """One with weft's name and another description is neither found nor deleted."""
    wanted = bench.of(Kind.SECURITY_GROUP)
    stranger = bench.stranger_security_group(wanted[0].name)
    assert bench.find(wanted) == {}
    outcome = bench.delete(wanted)["security_group"]
    assert outcome.error is None
    assert bench.is_there(stranger)


def test_delete_of_an_absent_resource_succeeds(bench: Bench) -> None:
    """After a deletion, or before anything was created."""
    for _ in range(2):
        assert [o.error for o in bench.delete(bench.graph.resources).values() if o.error] == []


def test_others_port_in_a_group_is_named_and_removed_from_it(bench: Bench) -> None:
    """It keeps the group from being deleted. On a pod's network it is named too, and stays."""
    wanted = bench.of(Kind.SECURITY_GROUP, Kind.NETWORK, Kind.SUBNET)
    ids = {key: str(o.id) for key, o in bench.create(wanted).items()}
    group, network, project = ids["security_group"], ids["network/management"], bench.scope.project_id
    port = bench.stranger_port(network, group)
    refused = bench.delete(bench.of(Kind.SECURITY_GROUP))["security_group"].error
    assert isinstance(refused, InUseError) and [use.id for use in refused.uses] == [port]
    assert [use.id for use in bench.facts.on_networks(project, [network]) if use.kind == "port"] == [port]
    (use,) = bench.facts.uses(project, {Kind.SECURITY_GROUP: [group]})
    assert (use.kind, use.id, use.name, use.project_id) == ("port", port, "own", project)
    bench.facts.take_off(project, use)
    assert bench.facts.uses(project, {Kind.SECURITY_GROUP: [group]}) == []
    assert bench.delete(bench.of(Kind.SECURITY_GROUP))["security_group"].error is None
    bench.lose_port(port)


def test_trunk_of_a_port_is_named_and_deleted(bench: Bench) -> None:
    """Neutron doesn't delete its parent port before."""
    wanted = bench.of(Kind.SECURITY_GROUP, Kind.NETWORK, Kind.SUBNET, Kind.PORT)
    ids = {key: str(o.id) for key, o in bench.create(wanted).items()}
    key, project = f"port/{bench.hosts[0]}/management", bench.scope.project_id
    trunk = bench.stranger_trunk(ids[key])
    refused = bench.delete([r for r in wanted if r.key == key])[key].error
    assert isinstance(refused, InUseError) and [use.id for use in refused.uses] == [trunk]
    uses = bench.facts.uses(project, {Kind.PORT: [ids[key]]})
    assert [(use.kind, use.id, use.on) for use in uses] == [("trunk", trunk, ids[key])]
    bench.facts.take_off(project, uses[0])
    assert bench.facts.uses(project, {Kind.PORT: [ids[key]]}) == []
    assert bench.delete([r for r in wanted if r.key == key])[key].error is None


def test_changed_security_group_is_detected_and_repaired(bench: Bench) -> None:
    """Other rules are a difference of `ssh_from`, and update makes them exact."""
    wanted = bench.of(Kind.SECURITY_GROUP)
    bench.create(wanted)
    changed = [
        wanted[0].model_copy(update={"spec": SecurityGroupSpec(ssh_from=("192.0.2.0/24", "198.51.100.0/24"))})
    ]
    difference = bench.find(changed)["security_group"].differences
    assert [d.field for d in difference] == ["ssh_from"]
    assert "198.51.100.0/24" in difference[0].wanted
    assert bench.update(changed)["security_group"].error is None
    assert bench.find(changed)["security_group"].differences == ()


def test_changed_subnet_is_detected_and_repaired(bench: Bench) -> None:
    """DHCP that was switched from outside is a difference, and is switched back."""
    wanted = bench.of(Kind.NETWORK, Kind.SUBNET)
    bench.create(wanted)
    subnet = next(r for r in wanted if r.key == "subnet/management")
    assert isinstance(subnet.spec, SubnetSpec)
    changed = [subnet.model_copy(update={"spec": subnet.spec.model_copy(update={"dhcp": False})})]
    assert [d.field for d in bench.find(changed)[subnet.key].differences] == ["dhcp"]
    assert bench.update(changed)[subnet.key].error is None
    assert bench.find(changed)[subnet.key].differences == ()


def test_network_has_the_desired_mtu(bench: Bench) -> None:
    """Its owner may change it at any time, which is a difference that is repaired."""
    network = next(r for r in bench.of(Kind.NETWORK) if r.key == "network/rdma")

    def with_mtu(mtu: int) -> Resource:
        return network.model_copy(update={"spec": network.spec.model_copy(update={"mtu": mtu})})

    bench.create([with_mtu(4000)])
    assert bench.find([with_mtu(4000)])[network.key].differences == ()
    [found] = bench.find([with_mtu(4500)])[network.key].differences
    assert (found.field, found.observed, found.wanted) == ("mtu", "4000", "4500")
    assert bench.update([with_mtu(4500)])[network.key].error is None
    assert bench.find([with_mtu(4500)])[network.key].differences == ()


def test_unrepairable_difference_is_a_permanent_error(bench: Bench) -> None:
    """A network's segment can't be changed in place: a person must act, or the graph must change."""
    wanted = bench.of(Kind.NETWORK)
    bench.create(wanted)
    changed = [
        r.model_copy(update={"spec": r.spec.model_copy(update={"segment": bench.segment + 1})})
        for r in wanted
    ]
    seen = bench.find(changed)
    assert "segment" in [d.field for d in seen["network/rdma"].differences]
    assert isinstance(bench.update(changed)["network/rdma"].error, PermanentError)


@REAL_AT_NIGHT
def test_self_service_network_has_the_segment_the_cloud_picks(bench: Bench) -> None:
    """No number is asked for: type and number are facts without a difference, and servers are on it as on any other.

    Two pods have one each, and neither blocks numbers that weft assigns.
    """
    bench.on_one_host()
    bench.graph = self_service(bench.graph)
    bench.create_all()
    seen = bench.wait_settled()
    assert [(key, o.differences) for key, o in seen.items() if o.differences] == []
    network = seen["network/management"].facts
    assert network["type"] in ("geneve", "vxlan", "vlan") and isinstance(network["segment"], int)
    for host in bench.hosts:
        assert seen[f"port/{host}/management"].facts["vif_type"] == "ovs"
    other = bench.other_pod()
    other.graph = self_service(other.graph)
    wanted = [r for r in other.graph.resources if r.key == "network/management"]
    assert other.create(wanted)["network/management"].error is None
    assert other.find(wanted)["network/management"].facts["segment"] != network["segment"]
    bench.delete_all()
    assert bench.find() == {} and bench.marked() == []


def self_service(graph: Graph) -> Graph:
    """The graph with a management network whose segment the cloud picks."""
    spec = NetworkSpec(port_security=True)
    return Graph(
        resources=tuple(
            r.model_copy(update={"spec": spec}) if r.key == "network/management" else r
            for r in graph.resources
        )
    )


def test_taken_segment_is_refused_with_the_reason(bench: Bench) -> None:
    """Another pod's network on the same segment gives a permanent error that names the segment."""
    bench.create(bench.of(Kind.NETWORK))
    other = bench.other_pod()
    outcome = other.create(other.of(Kind.NETWORK))["network/rdma"]
    assert isinstance(outcome.error, PermanentError)
    assert str(bench.segment) in str(outcome.error)


def test_refused_port_of_a_batch_has_its_own_outcome(bench: Bench) -> None:
    """A taken address refuses only its own port."""
    bench.create(bench.of(Kind.NETWORK, Kind.SUBNET, Kind.SECURITY_GROUP))
    ports = bench.of(Kind.PORT)
    bench.create(ports[:1])
    spec = ports[0].spec
    assert isinstance(spec, PortSpec)
    clash = ports[0].model_copy(update={"key": "port/clash", "name": f"{ports[0].name}-clash"})
    outcomes = bench.create([clash, *ports[1:]])
    assert spec.address in str(outcomes["port/clash"].error)
    assert all(outcomes[p.key].id and outcomes[p.key].error is None for p in ports[1:])


def test_server_on_a_missing_host_is_refused(bench: Bench) -> None:
    """At creation, or the server is broken with Nova's sentence."""
    bench.on_one_host()
    bench.create([r for r in bench.graph.resources if r.kind is not Kind.SERVER])
    server = bench.of(Kind.SERVER)[0]
    wanted = [server.model_copy(update={"spec": server.spec.model_copy(update={"host": "no-such-host"})})]
    outcome = bench.create(wanted)[server.key]
    assert isinstance(outcome.error, PermanentError)
    assert "no-such-host" in str(outcome.error)


@REAL_AT_NIGHT
def test_server_without_capacity_is_broken_with_the_reason(bench: Bench) -> None:
    """A second pod on a host whose adapters are in use is broken with Nova's sentence."""
    bench.on_one_host()
    bench.create_all()
    bench.wait_settled()
    other = bench.other_pod(segment=bench.segment + 1)
    other.on_one_host()
    other.create_all()
    seen = other.wait(
        lambda all_seen: all(o.status is Status.BROKEN for o in all_seen), other.of(Kind.SERVER)
    )
    assert all("No valid host" in o.reason for o in seen.values())
    other.delete(other.of(Kind.SERVER))
    other.wait_absent(other.of(Kind.SERVER))


def test_marked_resources_of_every_kind_are_listed_and_removed(bench: Bench) -> None:
    """The audit lists them by kind and project. Removal is repeated, since what is in use gives a temporary error."""
    bench.on_one_host()
    bench.create_all()
    bench.wait_settled()
    marked = bench.marked()
    assert sorted((m.kind, m.name) for m in marked) == sorted((r.kind, r.name) for r in bench.graph.resources)
    assert {m.owner for m in marked} == {bench.scope.owner}
    assert {m.project_id for m in marked if m.kind is not Kind.KEY_PAIR} == {bench.scope.project_id}
    assert bench.driver.marked("another-site", [bench.scope.project_id]) == []
    bench.sweep()
    assert bench.marked() == []


def test_remove_marked_leaves_unmarked_resources(bench: Bench) -> None:
    """The mark is checked again at removal."""
    wanted = bench.of(Kind.SECURITY_GROUP)
    bench.create(wanted)
    found = bench.marked()
    bench.unmark_security_group(found[0].id)
    outcome = bench.driver.remove_marked(found)[found[0].id]
    assert isinstance(outcome.error, PermanentError)
    assert bench.is_there(found[0].id)


def test_removed_mark_is_restored(bench: Bench) -> None:
    """A resource whose id is known is weft's without its mark: a difference that update repairs."""
    wanted = bench.of(Kind.SECURITY_GROUP)
    ids = {"security_group": str(bench.create(wanted)["security_group"].id)}
    bench.unmark_security_group(ids["security_group"])
    assert not bench.driver.find(bench.scope, wanted, {})["security_group"].there
    (difference,) = bench.driver.find(bench.scope, wanted, ids)["security_group"].differences
    assert difference.field == "mark"
    assert bench.driver.update(bench.scope, wanted, ids)["security_group"].error is None
    assert bench.driver.find(bench.scope, wanted, {})["security_group"].differences == ()


def test_resource_without_its_mark_is_still_deleted_by_id(bench: Bench) -> None:
    """A tenant can't keep a resource of a released pod by removing its mark."""
    wanted = bench.of(Kind.SECURITY_GROUP)
    ids = {"security_group": str(bench.create(wanted)["security_group"].id)}
    bench.unmark_security_group(ids["security_group"])
    assert bench.driver.delete(bench.scope, wanted, ids)["security_group"].error is None
    bench.wait(lambda all_seen: not all_seen, wanted)
    assert not bench.is_there(ids["security_group"])


def test_token_is_validated(bench: Bench) -> None:
    """A valid token gives its user, project and roles; nonsense and a revoked token give `UnauthenticatedError`."""
    token = bench.token()
    caller = bench.identity.check(token)
    assert caller.project_id == bench.scope.project_id
    assert "member" in caller.roles
    with pytest.raises(UnauthenticatedError):
        bench.identity.check("nonsense")
    bench.revoke(token)
    with pytest.raises(UnauthenticatedError):
        bench.identity.check(token)


def test_order_naming_missing_offers_is_refused(bench: Bench) -> None:
    """An unknown image, flavor or key pair is refused with the order's field."""
    project = bench.scope.project_id
    good = Order(name="train", nodes=NodesOrder(count=1, flavor=bench.flavor, image=bench.image))
    bench.facts.check_order(project, good, bench.flavor)
    bad = good.model_copy(update={"nodes": good.nodes.model_copy(update={"image": "no-such-image"})})
    with pytest.raises(InputError) as image:
        bench.facts.check_order(project, bad, bench.flavor)
    assert image.value.field == "nodes.image"
    with pytest.raises(InputError) as flavor:
        bench.facts.check_order(project, good, "no-such-flavor")
    assert flavor.value.field == "nodes.flavor"
    with pytest.raises(InputError) as key:
        bench.facts.public_key(bench.identity.check(bench.token()).user_id, "no-such-key")
    assert key.value.field == "access.key_pair"


def test_image_requiring_a_trait_fits_only_hosts_with_it(bench: Bench) -> None:
    """Unfit hosts are reported before anything is created, and the scheduler agrees."""
    project, (good, bad) = bench.scope.project_id, bench.hosts
    assert bench.facts.unfit(project, bench.image, bench.flavor) == {}
    with bench.trait(good) as trait, bench.another_image(**{f"trait__{trait}": "required"}) as image:
        unfit = bench.facts.unfit(project, image, bench.flavor)
        assert good not in unfit and trait in unfit[bad]
        assert set(unfit) <= set(bench.facts.hosts())
        # only the unfit host's server and what it needs, since each boot takes a cloud seconds
        (server,) = [r for r in bench.of(Kind.SERVER) if r.key == f"server/{bad}"]
        others = bench.of(Kind.NETWORK, Kind.SUBNET, Kind.SECURITY_GROUP, Kind.KEY_PAIR, Kind.PORT)
        booted = server.model_copy(update={"spec": server.spec.model_copy(update={"image": image})})
        bench.create([*(r for r in others if good not in r.key), booted])
        (seen,) = bench.wait(
            lambda all_seen: all(o.status is Status.BROKEN for o in all_seen) and bool(all_seen), [booted]
        ).values()
        assert "No valid host" in seen.reason


def test_hosts_are_filtered_by_forbidden_traits_and_architecture(bench: Bench) -> None:
    """A forbidden trait, a required trait that no host has, and a processor architecture that no host has."""
    project, (first, second) = bench.scope.project_id, bench.hosts
    with bench.trait(first) as trait, bench.another_flavor(**{f"trait__{trait}": "forbidden"}) as flavor:
        unfit = bench.facts.unfit(project, bench.image, flavor)
        assert trait in unfit[first] and second not in unfit
    with bench.another_image(trait__CUSTOM_NOBODY_HAS_IT="required") as image:
        assert set(bench.hosts) <= set(bench.facts.unfit(project, image, bench.flavor))
    with bench.another_image(hw_architecture="aarch64") as image:
        unfit = bench.facts.unfit(project, image, bench.flavor)
        assert "its host is x86_64, but the image is for aarch64" in {unfit[h] for h in bench.hosts}
    with bench.another_image(hw_architecture="x86_64") as image:
        assert bench.facts.unfit(project, image, bench.flavor) == {}


def test_image_too_large_for_the_flavor_is_refused(bench: Bench) -> None:
    """At the order; Nova would answer 400."""
    order = Order(name="train", nodes=NodesOrder(count=1, flavor=bench.flavor, image=bench.image))
    with bench.another_image(min_ram=1 << 30) as image:
        large = order.model_copy(update={"nodes": order.nodes.model_copy(update={"image": image})})
        with pytest.raises(InputError) as refused:
            bench.facts.check_order(bench.scope.project_id, large, bench.flavor)
    assert refused.value.field == "nodes.image"
    assert "needs 1073741824 MiB of RAM (min_ram)" in str(refused.value)


def test_users_key_pair_is_read(bench: Bench) -> None:
    """The text of the ordering user's own key pair."""
    user_id, name, text = bench.users_key_pair()
    assert bench.facts.public_key(user_id, name).split()[:2] == text.split()[:2]


def test_quotas_have_the_exact_numbers(bench: Bench) -> None:
    """A quota that is too small by one is reported with limit, use and need; a larger one isn't."""
    assert bench.facts.exceeded_quotas(bench.scope.project_id, bench.graph, bench.flavor) == []
    with bench.quota("ports", 4):
        rows = bench.facts.exceeded_quotas(bench.scope.project_id, bench.graph, bench.flavor)
    wanted = len(bench.of(Kind.PORT)) + 1
    assert [(r.resource, r.limit, r.used, r.wanted) for r in rows] == [("ports", 4, 0, wanted)]


def test_served_projects_are_listed(bench: Bench) -> None:
    """The pod's own project is among them with id and name; an unknown one isn't."""
    caller = bench.identity.check(bench.token())
    projects = bench.facts.projects()
    assert caller.project_id is not None
    assert projects[caller.project_id] == caller.project_name
    assert "no-such-project" not in {*projects, *projects.values()}


def test_hosts_are_reported_up(bench: Bench) -> None:
    """Every host of the bench; an unknown host isn't listed."""
    hosts = bench.facts.hosts()
    assert {hosts[h] for h in bench.hosts} == {"up"}
    assert "no-such-host" not in hosts


def test_contract_graph_has_every_kind_of_a_pods_graph(bench: Bench) -> None:
    """So that no kind is untested. Machines and storage aren't Nova's or Neutron's (`test_machines`,
    `test_storage_contract`); flavors, images and aggregates are only the site's (`tests/e2e/test_nova_things.py`).
    """
    others = {Kind.MACHINE, Kind.SHARE, Kind.SHARE_ACCESS, Kind.VOLUME, Kind.VOLUME_ATTACHMENT}
    others |= {Kind.FLAVOR, Kind.IMAGE_PROPERTIES, Kind.AGGREGATE}
    assert {r.kind for r in bench.graph.resources} == bench.driver.kinds - others
    assert isinstance(bench.graph, Graph)
    assert Mark.parse(bench.scope.mark("server/x").text()) == bench.scope.mark("server/x")
    assert pod(bench.scope.owner.id, bench.hosts, bench.offer, bench.segment) == bench.graph
