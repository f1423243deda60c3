"""How rows follow a changed graph: in place where possible, else removed first; dependencies come first."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from weft.model.fabric import Membership
from weft.model.resources import Graph, Resource
from weft.model.specs import NetworkSpec, SegmentSpec, SubnetSpec
from weft.planning.owners.follow import Follow, ResourceRow, follow


def segment(number: int = 101, ports: Iterable[str] = ("0x1",)) -> Resource:
    members = tuple(Membership(port=p) for p in ports)
    spec = SegmentSpec(number=number, members=members)
    return Resource(key="segment", name="weft-1-segment", where="ib0", spec=spec)


def network(number: int = 101, **more: Any) -> Resource:
    spec = NetworkSpec(physical_network="rail", segment=number, port_security=False)
    return Resource(key="network", name="weft-1-network", where="lab", needs=("segment",), spec=spec, **more)


def subnet(cidr: str = "192.0.2.0/24", gateway: bool = False) -> Resource:
    spec = SubnetSpec(network="network", cidr=cidr, gateway=gateway, dhcp=False)
    return Resource(key="subnet", name="weft-1-subnet", where="lab", needs=("network",), spec=spec)


def graph(*resources: Resource) -> Graph:
    return Graph(resources=resources)


def there(*resources: Resource) -> dict[str, ResourceRow]:
    return {r.key: ResourceRow(r, wanted=True, nowhere=False) for r in resources}


def going(*resources: Resource, nowhere: bool = False) -> dict[str, ResourceRow]:
    """Rows of resources that are being removed; `nowhere`: that are gone."""
    return {r.key: ResourceRow(r, wanted=False, nowhere=nowhere) for r in resources}


WHOLE = graph(segment(), network(), subnet())


def test_matching_rows_need_no_changes() -> None:
    assert not follow(there(*WHOLE.resources), WHOLE)
    assert not follow({}, graph())
    assert not follow(going(segment(), nowhere=True), graph())


def test_first_graph_adds_everything() -> None:
    assert follow({}, WHOLE) == Follow(added=WHOLE.resources)


def test_in_place_change_keeps_the_row() -> None:
    more = segment(ports=("0x1", "0x2"))
    assert follow(there(*WHOLE.resources), graph(more, network(), subnet())) == Follow(changed=(more,))
    gateway = subnet(gateway=True)
    assert follow(there(*WHOLE.resources), graph(segment(), network(), gateway)) == Follow(changed=(gateway,))


def test_immutable_change_removes_resource_and_dependents() -> None:
    other = graph(segment(102), network(102), subnet())
    keys = ("segment", "network", "subnet")
    assert follow(there(*WHOLE.resources), other) == Follow(removed=keys, later=frozenset(keys))
    moved = graph(segment(), network(), subnet("198.51.100.0/24"))
    assert follow(there(*WHOLE.resources), moved) == Follow(removed=("subnet",), later=frozenset({"subnet"}))


def test_removed_resource_is_added_again_once_gone() -> None:
    """Dependents wait for a resource that isn't gone yet."""
    other = graph(segment(102), network(102), subnet())
    gone, left = going(subnet(), network(), nowhere=True), going(segment())
    waits = follow({**gone, **left}, other)
    assert not waits and waits.going == ("segment",) and waits.later == {"segment", "network", "subnet"}
    assert follow(going(*WHOLE.resources, nowhere=True), other) == Follow(again=other.resources)


def test_unchanged_resource_is_restored_without_waiting() -> None:
    """A site was changed and changed back while resources were being removed."""
    assert follow(going(*WHOLE.resources), WHOLE) == Follow(again=WHOLE.resources)


def test_resource_that_was_never_created_is_changed_in_place() -> None:
    rows = {r.key: ResourceRow(r, wanted=True, nowhere=True) for r in WHOLE.resources}
    other = graph(segment(102), network(102), subnet())
    assert follow(rows, other) == Follow(changed=(segment(102), network(102)))


def test_unwanted_resource_is_removed() -> None:
    """A resource that was removed already isn't removed again."""
    assert follow(there(*WHOLE.resources), graph(segment())) == Follow(removed=("network", "subnet"))
    on_its_way = follow({**there(segment()), **going(network(), subnet())}, graph(segment()))
    assert not on_its_way and on_its_way.going == ("network", "subnet")


def test_other_place_or_name_recreates_the_resource() -> None:
    moved = network().model_copy(update={"where": "other"})
    found = follow(there(segment(), network()), graph(segment(), moved))
    assert found == Follow(removed=("network",), later=frozenset({"network"}))


def test_new_resource_waits_for_its_dependencies() -> None:
    """The network is recreated; its second subnet isn't created before."""
    second = subnet("198.51.100.0/24").model_copy(update={"key": "second", "name": "weft-1-second"})
    wanted = graph(segment(102), network(102), subnet(), second)
    found = follow(there(*WHOLE.resources), wanted)
    keys = ("segment", "network", "subnet")
    assert found == Follow(removed=keys, later=frozenset({*keys, "second"}))
