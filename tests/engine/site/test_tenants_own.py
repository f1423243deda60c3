"""Networks that tenants created in Neutron: ports are in exactly their segments, whatever Neutron says or omits."""

from __future__ import annotations

import threading
from collections.abc import Generator
from datetime import timedelta

import pytest

from tests.engine.tenanthouse import TenantHouse
from tests.engine.timehouse import make
from weft.engine.base.database import Database
from weft.engine.site.tenantkeeper import HINT, STALE, TenantKeeper, TenantSettings
from weft.generate.receipts import verify
from weft.model.errors import RefusedError, UnknownError
from weft.model.mark import Mark
from weft.model.owner import Owner
from weft.model.pod import PodState
from weft.model.ranges import Range
from weft.model.resources import Kind
from weft.model.site import Site
from weft.model.tenantnetwork import PortState
from weft.testing.cloud import Fault


@pytest.fixture
def house(database: Database, database_url: str) -> Generator[TenantHouse]:
    house = TenantHouse(database, database_url)
    yield house
    house.close()


# -- from Neutron to the wire -----------------------------------------------------------------------------------


def test_tenants_network_is_a_partition_of_exactly_its_bound_ports(house: TenantHouse) -> None:
    """Owned by the network, counted like a pod's, audited, and released with proof."""
    network = house.network()
    house.cloud.add(Kind.PORT, "not-bound", "team-b", None, network=network.id, vnic_type="direct-physical")
    port, number = house.adapter(network), house.free_number()
    served = house.ready(network)
    assert house.ports_in(number) == {house.guid()}
    assert house.port(network, port).state is PortState.IN
    assert [p.state for p in served.ports if p.id != port.id] == [PortState.OUT]
    owner = house.owner(network)
    assert (owner.project_id, owner.name) == ("team-b", network.id)
    assert house.numbers() == {number: owner.owner}
    assert house.events(owner, "port") == [f"port {port.id} is in segment {number:#x}"]
    assert house.service.audits.run(house.operator).findings == ()
    house.cloud.lose(port)
    house.cloud.lose(network)
    house.look()
    house.visit(owner, PodState.RELEASED)
    signed = house.store.records.receipt(owner.id)
    assert signed is not None and verify(signed.model_dump(mode="json"), signed.public_key).valid
    assert signed.receipt.clean and not house.ports_in(number) and house.numbers() == {}
    house.look()
    assert house.owners() == []


def test_network_without_ports_holds_its_number(house: TenantHouse) -> None:
    network = house.network()
    house.ready(network)
    assert house.numbers() == {house.free_number(): house.owner(network).owner}
    house.adapter(network)
    house.ready(network)
    assert house.ports_in(house.free_number()) == {house.guid()}


def test_unbound_port_leaves_without_a_notification(house: TenantHouse) -> None:
    """Host and client-id are cleared in one update, of which the plugin sends no notification."""
    network = house.network()
    port = house.adapter(network)
    house.ready(network)
    port.fields |= {"vif_type": "unbound", "bound_host": "", "pci_slot": None}
    house.ready(network)
    assert not house.ports_in(house.free_number())
    seen = house.port(network, port)
    assert (seen.state, seen.why) == (PortState.OUT, "it is not bound to a host")
    assert house.events(house.owner(network), "port")[-1].endswith(
        f"no longer in segment {house.free_number():#x}: it is not bound to a host"
    )


def test_port_missing_on_the_fabric_is_reported_as_waiting(house: TenantHouse) -> None:
    """Neutron says ACTIVE all the while; weft reports by itself when a port is a member."""
    network = house.network()
    port = house.adapter(network)
    for manager in house.fabric.managers:
        manager.reachable = False
    house.settle(network, 2)
    seen = house.port(network, port)
    assert seen.state is PortState.WAITING and "can't be read" in seen.why
    for manager in house.fabric.managers:
        manager.reachable = True
    assert house.look() is True
    seen = house.port(network, port)
    assert (seen.state, seen.why) == (PortState.WAITING, "the fabric doesn't show it yet")
    house.ready(network)
    assert house.port(network, port).state is PortState.IN and house.look() is False


def test_port_with_a_full_table_is_reported(house: TenantHouse) -> None:
    """OpenSM drops the last new keys and calls the subnet up: the port waits, and names what fills its table."""
    network = house.network()
    port = house.adapter(network)
    others = "".join(f"o{n}=0x{n:x} : 0x{house.guid():016x}=full;\n" for n in range(1, 64))
    for manager in house.fabric.managers:
        manager.text = others + (manager.text or "")
        manager.sweep()
    house.settle(network, 3)
    seen = house.port(network, port)
    assert seen.state is PortState.WAITING
    assert "has no entry left for a P_Key: 64 of 64 are taken" in seen.why and "0x3f" in seen.why
    assert house.ports_in(house.free_number()) == set()
    for manager in house.fabric.managers:
        manager.text = (manager.text or "").removeprefix(others)
        manager.sweep()
    house.ready(network)
    assert house.port(network, port).state is PortState.IN


# -- what Neutron omits -----------------------------------------------------------------------------------------


def test_port_omitted_in_a_listing_stays_until_proved_gone(house: TenantHouse) -> None:
    network = house.network()
    port = house.adapter(network)
    house.ready(network)
    house.cloud.unlisted.add(port.id)
    house.ready(network)
    assert house.ports_in(house.free_number()) == {house.guid()}
    house.cloud.lose(port)
    house.ready(network)
    assert not house.ports_in(house.free_number())


def test_member_that_left_an_omitted_network_does_not_stay(house: TenantHouse) -> None:
    """An administrator gave the network a second segment: Neutron has it, and it is none of those that are served. Its
    other members stay, and its owner reads that it isn't followed."""
    network = house.network()
    port, _ = house.adapter(network), house.adapter(network, "gpu14")
    house.ready(network)
    house.cloud.unlisted.add(network.id)
    house.settle(network)
    assert house.ports_in(house.free_number()) == {house.guid(), house.guid("gpu14")}
    house.cloud.lose(port)
    house.settle(network)
    assert house.ports_in(house.free_number()) == {house.guid("gpu14")}
    house.clock.sleep(STALE + 1)
    house.look()
    owner = house.visit(house.owner(network))
    assert owner.state is PodState.DEGRADED and "it was read last at" in owner.reason


def test_user_without_rights_over_other_projects_releases_nothing(house: TenantHouse) -> None:
    """Without them every listing is empty, and everything else is 404."""
    network = house.network()
    house.adapter(network)
    house.ready(network)
    house.cloud.unseen_projects.add("team-b")
    with pytest.raises(UnknownError, match="team-b"):
        house.look()
    owner = house.visit(house.owner(network))
    assert owner.wanted == "present" and house.ports_in(house.free_number()) == {house.guid()}
    house.clock.sleep(STALE + 1)
    owner = house.visit(house.owner(network))
    assert owner.state is PodState.DEGRADED and "it was read last at" in owner.reason
    assert house.ports_in(house.free_number()) == {house.guid()}
    house.cloud.unseen_projects.clear()
    house.ready(network)


def test_hidden_project_does_not_delay_others(house: TenantHouse) -> None:
    hidden, other = house.network("a", house.free_number(10)), house.network("b", house.free_number(11))
    hidden.project_id = "team-c"
    house.adapter(hidden)
    house.ready(hidden)
    house.cloud.unseen_projects.add("team-c")
    house.adapter(other, "gpu14")
    for _ in range(4):
        with pytest.raises(UnknownError, match="team-c"):
            house.look()
        house.visit(house.owner(other))
    assert house.ports_in(house.free_number(11)) == {house.guid("gpu14")}
    assert house.ports_in(house.free_number(10)) == {house.guid()}


def test_port_with_unproved_absence_leaves_its_network_unchanged(house: TenantHouse) -> None:
    network = house.network()
    port, _ = house.adapter(network), house.adapter(network, "gpu14")
    house.ready(network)
    house.cloud.lose(port)
    with pytest.MonkeyPatch.context() as patch:

        def unproved(port: str, project_id: str) -> None:
            raise UnknownError(f"read port {port}", "network", f"nothing of {project_id} is shown")

        patch.setattr(house.cloud, "port_now", unproved)
        with pytest.raises(UnknownError, match="team-b"):
            house.look()
    house.visit(house.owner(network))
    assert house.ports_in(house.free_number()) == {house.guid(), house.guid("gpu14")}
    house.ready(network)
    assert house.ports_in(house.free_number()) == {house.guid("gpu14")}


def test_network_omitted_in_a_listing_stays(house: TenantHouse, monkeypatch: pytest.MonkeyPatch) -> None:
    network = house.network()
    house.adapter(network)
    house.ready(network)
    monkeypatch.setattr(house.cloud, "networks_on", lambda physical_network: [])
    house.settle(network)
    assert house.owner(network).wanted == "present" and house.ports_in(house.free_number()) == {house.guid()}


def test_silent_cloud_changes_nothing_and_becomes_unknown(
    house: TenantHouse,
) -> None:
    network = house.network()
    house.adapter(network)
    house.ready(network)
    house.cloud.plant(Fault.UNREACHABLE, verb="tenant networks", times=None)
    with pytest.raises(UnknownError):
        house.look()
    assert house.visit(house.owner(network)).state is PodState.READY
    house.clock.sleep(STALE + 1)
    owner = house.visit(house.owner(network))
    assert owner.state is PodState.DEGRADED and "it was read last at" in owner.reason
    assert house.ports_in(house.free_number()) == {house.guid()}
    house.cloud.faults.clear()
    house.ready(network)


def test_silent_place_does_not_hide_other_errors(house: TenantHouse) -> None:
    """A member that can't be read one by one either: the whole look is void, and no member is taken out."""
    network = house.network()
    port = house.adapter(network)
    house.ready(network)
    house.cloud.unlisted.add(port.id)
    house.cloud.lose(port)
    listing = house.cloud.networks_on(house.site.fabrics["ib0"].physical_network)

    def first(physical_network: str) -> object:
        house.cloud.plant(Fault.UNREACHABLE, verb="tenant networks", times=1)
        return listing

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(house.cloud, "networks_on", first)
        with pytest.raises(UnknownError):
            house.look()
    house.visit(house.owner(network))
    assert house.ports_in(house.free_number()) == {house.guid()}


# -- two networks -----------------------------------------------------------------------------------------------


def test_adapter_that_changes_networks_is_never_in_both(house: TenantHouse) -> None:
    """Nova gives it to the next server long before the fabric has removed it."""
    first, second = house.network("a", house.free_number(10)), house.network("b", house.free_number(11))
    port = house.adapter(first)
    house.ready(first)
    house.ready(second)
    house.cloud.lose(port)
    house.adapter(second)
    numbers = (house.free_number(10), house.free_number(11))
    for _ in range(6):
        house.look()
        assert not house.ports_in(numbers[0]) & house.ports_in(numbers[1])
        house.visit(house.owner(second))
        assert not house.ports_in(numbers[0]) & house.ports_in(numbers[1])
        house.visit(house.owner(first))
    assert (house.ports_in(numbers[0]), house.ports_in(numbers[1])) == (set(), {house.guid()})
    assert house.service.audits.run(house.operator).findings == ()


def test_changed_number_makes_another_partition(house: TenantHouse) -> None:
    network = house.network()
    house.adapter(network)
    house.ready(network)
    network.fields["segment"] = house.free_number(20)
    house.settle(network, 10)
    assert house.owner(network).state is PodState.READY
    assert not house.ports_in(house.free_number(10)) and house.ports_in(house.free_number(20)) == {
        house.guid()
    }
    assert set(house.numbers()) == {house.free_number(20)}


# -- pods beside them -------------------------------------------------------------------------------------------


def test_networks_of_pods_are_not_tenants_own(house: TenantHouse) -> None:
    """Neither while they are created (their id is unknown), nor after a tenant changed their description."""
    house.cloud.meanwhile("tenant networks", lambda: None)
    pod = house.order()
    for _ in range(12):
        house.store.wake(pod.id)
        house.worker.run_once()
        house.look()
        assert house.owners() == []
    pod = house.run(pod, PodState.READY)
    for thing in house.cloud.things(Kind.NETWORK):
        thing.mark = None
    house.look()
    assert house.owners() == []


def test_orders_and_tenants_networks_never_share_a_number(house: TenantHouse) -> None:
    fabric = house.site.fabrics["ib0"]
    narrow = fabric.model_copy(
        update={"segments": Range(first=fabric.segments.last - 1, last=fabric.segments.last)}
    )
    house.apply(house.site.model_copy(update={"fabrics": {"ib0": narrow}}))
    network = house.network(number=fabric.segments.last - 1)
    house.ready(network)
    pod = house.run(house.order(make("one", 1)), PodState.READY)
    assert pod.plan.segment == fabric.segments.last
    assert set(house.numbers()) == {fabric.segments.last - 1, fabric.segments.last}
    # Neutron would never give it out twice; what says so all the same is not believed.
    other = house.network("other", fabric.segments.last)
    house.adapter(other)
    before = house.ports_in(fabric.segments.last)
    house.settle(other)
    assert house.ports_in(fabric.segments.last) == before
    assert "pod one has it" in house.owner(other).reason


def test_node_of_a_pod_is_not_given_to_a_network(house: TenantHouse) -> None:
    pod = house.run(house.order(), PodState.READY)
    node = sorted(n.node for n in pod.plan.placement.nodes)[0]
    network = house.network()
    port = house.adapter(network, node)
    house.ready(network)
    assert not house.ports_in(house.free_number())
    assert house.port(network, port).why == f"node {node} is a pod's"


def test_tenants_server_without_an_adapter_is_foreign(house: TenantHouse) -> None:
    """On a free node, in a network of its own, it is what the cloud is for; placement avoids it anyway."""

    def foreign() -> list[str]:
        found = house.service.audits.run(house.operator).findings
        return [f.subject for f in found if f.kind == "node"]

    network = house.network()
    server = house.cloud.add(Kind.SERVER, "own", "team-b", host="gpu15")
    assert foreign() == ["gpu15"]
    port = house.adapter(network)
    house.ready(network)
    assert foreign() == ["gpu15"]  # whose port that is, Neutron doesn't say
    port.fields["device_id"] = server.id
    house.ready(network)
    assert foreign() == [] and house.port(network, port).server == server.id
    with pytest.raises(RefusedError):
        house.order(count=16)
    other = house.cloud.add(Kind.SERVER, "other", "team-c", host="gpu15")
    assert foreign() == ["gpu15"]
    house.cloud.lose(other)
    port.fields |= {"vif_type": "unbound", "bound_host": "", "pci_slot": None}
    house.ready(network)
    assert foreign() == ["gpu15"]


def test_tenants_server_on_a_pods_node_is_foreign(house: TenantHouse) -> None:
    pod = house.run(house.order(make("one", 1)), PodState.READY)
    node = pod.nodes[0]
    network = house.network()
    server = house.cloud.add(Kind.SERVER, "own", "team-b", host=house.site.node_by_name[node].nova_host)
    house.adapter(network, node).fields["device_id"] = server.id
    house.ready(network)
    found = house.service.audits.run(house.operator).findings
    assert [(f.category, f.subject) for f in found if server.id in f.what] == [("foreign", node)]


def test_tenants_mark_on_its_network_changes_nothing(house: TenantHouse) -> None:
    network = house.network()
    house.adapter(network)
    house.ready(network)
    network.mark = Mark("lab", Owner.pod("1f0c9a3b-0000-4000-8000-000000000001"), "network")
    house.ready(network)
    assert house.ports_in(house.free_number()) == {house.guid()}


def test_number_out_of_range_is_reported_and_holds_nothing(house: TenantHouse) -> None:
    network = house.network(number=house.site.fabrics["ib0"].segments.last + 1)
    port = house.adapter(network)
    house.ready(network)
    assert "which weft manages" in house.port(network, port).why and house.numbers() == {}


# -- begun and ended --------------------------------------------------------------------------------------------


def test_site_that_stops_serving_networks_releases_them(house: TenantHouse) -> None:
    network = house.network()
    house.adapter(network)
    house.ready(network)
    owner = house.owner(network)
    house.serve(False)
    house.look()
    assert house.see(owner.id).wanted == "absent"
    house.serve(True)
    house.look()  # it is still on its way out
    assert house.owners() == [owner.owner]
    house.visit(owner, PodState.RELEASED)
    assert not house.ports_in(house.free_number())
    house.look()
    house.ready(network)
    assert house.owner(network).id != owner.id and house.ports_in(house.free_number()) == {house.guid()}


def test_later_reading_is_kept_over_an_older_one_written_after_it(house: TenantHouse) -> None:
    """Two workers look: the slower one has read an older state, and writes last."""
    network = house.network()
    port = house.adapter(network)
    house.ready(network)

    def other() -> None:
        port.fields |= {"vif_type": "unbound", "bound_host": ""}
        house.clock.sleep(1.0)
        house.new_keeper().look()
        port.fields |= {"vif_type": "hostdev_physical", "bound_host": "gpu15"}  # as the slow one has read it
        port.name = "renamed"

    house.clock.sleep(1.0)
    house.cloud.meanwhile("tenant networks", other)
    house.look()
    assert house.port(network, port).state is PortState.OUT


def test_look_by_a_replaced_site_begins_nothing(house: TenantHouse) -> None:
    """Two workers look: while the slower one reads the cloud, the site leaves them to another manager."""
    network = house.network()
    house.adapter(network)
    house.ready(network)
    slow = house.new_keeper()

    def other() -> None:
        house.serve(False, leave=True)
        house.new_keeper().look()
        assert house.owners() == []

    house.cloud.meanwhile("tenant networks", other)
    assert slow.look(), "and looks again soon"
    assert house.owners() == []
    slow.look()
    assert house.owners() == []


def test_replaced_site_removes_nothing(house: TenantHouse) -> None:
    """One worker still has the site without the networks when another has just begun to serve them."""
    network = house.network()
    house.adapter(network)
    house.serve(False)
    old = house.keeper.site()

    def late() -> Site:
        house.serve(True)
        house.ready(network)
        return old

    house.new_keeper(late).look()
    assert [house.see(o.id).wanted for o in house.owners()] == ["present"]
    assert house.ports_in(house.free_number()) == {house.guid()}


def test_hint_ends_the_pause_and_creates_no_owner(house: TenantHouse) -> None:
    looked = threading.Semaphore(0)

    class ObservedKeeper(TenantKeeper):
        def look(self) -> bool:
            found = super().look()
            looked.release()
            return found

    settings = TenantSettings(every=3600.0, soon=3600.0, pause=0.0)
    keeper = ObservedKeeper(house.database, house.keeper.world, house.keeper.site, settings=settings)
    house.listener.add_follower(keeper)
    keeper.start()
    try:
        assert looked.acquire(timeout=30)
        network = house.network()
        house.adapter(network)
        with house.database.transaction() as tx:
            tx.run("notify_tenant_networks")
        assert looked.acquire(timeout=30)
        keeper.came("00000000-0000-4000-8000-000000000000")
        keeper.came(HINT)
        assert looked.acquire(timeout=30)
        assert len(house.owners()) == 1
    finally:
        keeper.stop()


def test_old_records_are_removed_with_the_tombstones(house: TenantHouse) -> None:
    network = house.network()
    house.ready(network)
    owner = house.owner(network)
    house.cloud.lose(network)
    house.look()
    house.visit(owner, PodState.RELEASED)
    with house.database.transaction() as tx:
        assert tx.run("prune_tenant_networks", before=tx.now(), limit=10) == 0
        assert tx.run("prune_tenant_networks", before=tx.now() + timedelta(seconds=1), limit=10) == 1
