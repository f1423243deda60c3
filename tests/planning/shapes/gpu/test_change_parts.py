"""More or fewer servers on shared nodes: who stays keeps part, name and address; which go, and where new ones come."""

from __future__ import annotations

import random
from collections import Counter
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.amounts import examples
from tests.helpers.offers import offers
from tests.helpers.smallsite import POD_ID, order, small_site
from weft.app.drivers import static_capabilities
from weft.model.errors import InputError
from weft.model.order import Order
from weft.model.placement import Occupancy, Part, Refusal, by_server
from weft.model.plan import Plan, UsedNumbers
from weft.model.site import AcceleratorCount, Site
from weft.model.specs import PortSpec
from weft.planning.shapes.change import make_change
from weft.planning.shapes.changetext import change_text
from weft.planning.shapes.plan import make_plan

EMPTY = Occupancy()


@cache
def site() -> Site:
    """The small site, with a flavor of one accelerator."""
    small = small_site()
    main = small.clouds["main"]
    one = main.flavors["h100.4"].model_copy(update={"accelerators": AcceleratorCount(type="h100", count=1)})
    flavors = {**main.flavors, "h100.1": one}
    return small.model_copy(update={"clouds": {"main": main.model_copy(update={"flavors": flavors})}})


def parts(count: int, **more: Any) -> Order:
    nodes = {"flavor": "h100.1", "sharing": "shared"}
    return order(count, nodes=nodes, fabric="none", **more)


def others(**free: int) -> Occupancy:
    """Nodes that other pods share, with this many accelerators left on each."""
    taken = {
        name: (Part(devices=tuple(a.pci for a in site().node_by_name[name].accelerators[left:])),)
        for name, left in free.items()
    }
    return Occupancy(busy=dict.fromkeys(taken, "other"), parts=taken)


def made(ordered: Order, occupancy: Occupancy = EMPTY) -> Plan:
    can = static_capabilities(site())
    found = make_plan(POD_ID, "team-a", ordered, site(), occupancy, UsedNumbers(), can)
    assert isinstance(found, Plan), found
    return found


def refused(plan: Plan, ordered: Order, occupancy: Occupancy = EMPTY, **more: Any) -> Plan | Refusal:
    """Change the plan as the engine does, where the pod's own parts are taken too."""
    mine: dict[str, tuple[Part, ...]] = dict(occupancy.parts)
    for one in (*plan.placement.nodes, *more.pop("also", ())):
        assert one.part is not None
        mine[one.node] = (*mine.get(one.node, ()), one.part)
    busy = {**dict.fromkeys(mine, "p"), **occupancy.busy}
    seen = occupancy.model_copy(update={"busy": busy, "parts": mine})
    return make_change(plan, ordered, site(), seen, **more)


def changed(plan: Plan, ordered: Order, occupancy: Occupancy = EMPTY, **more: Any) -> Plan:
    found = refused(plan, ordered, occupancy, **more)
    assert isinstance(found, Plan), found
    return found


def servers(plan: Plan) -> list[str]:
    return list(by_server(plan.placement.nodes))


def keys(plan: Plan) -> set[str]:
    return {r.key.removeprefix("server/") for r in plan.graph.resources if r.kind == "server"}


def addresses(plan: Plan) -> dict[str, str]:
    return {r.key: r.spec.address for r in plan.graph.resources if isinstance(r.spec, PortSpec)}


def test_growth_moves_no_server() -> None:
    first = made(parts(2))
    (node,) = first.placement.held
    more = changed(first, parts(4))
    assert servers(more) == [f"{node}/{i}" for i in range(4)] and keys(more) == set(servers(more))
    before, after = first.graph.by_key(), more.graph.by_key()
    assert all(after[key] == before[key] for key in before)
    devices = [d for n in more.placement.nodes if n.part for d in n.part.devices]
    assert len(set(devices)) == len(devices) == 4
    assert more.change is not None and more.change.nodes_added == (node, node)
    assert set(more.change.added) == {
        f"{k}" for i in (2, 3) for k in (f"server/{node}/{i}", f"port/{node}/{i}/management")
    }


def test_removed_middle_server_leaves_others_unchanged() -> None:
    """Its name and number are used again only once it is gone."""
    first = made(parts(3))
    (node,) = first.placement.held
    gone = first.placement.nodes[1]
    fewer = changed(first, parts(2), remove=[first.graph.by_key()[f"server/{node}/1"].name])
    assert servers(fewer) == [f"{node}/0", f"{node}/2"] == sorted(keys(fewer))
    assert addresses(fewer).items() < addresses(first).items()
    assert fewer.change is not None and fewer.change.nodes_removed == (node,) and not fewer.change.added
    assert {r.key for r in fewer.change.removed} == {f"server/{node}/1", f"port/{node}/1/management"}
    leaving = changed(fewer, parts(3), leaving=[f"{node}/1"], also=[gone])
    assert servers(leaving) == [f"{node}/0", f"{node}/2", f"{node}/3"]
    back = changed(fewer, parts(3))
    assert servers(back) == [f"{node}/0", f"{node}/2", f"{node}/1"]
    for plan in (leaving, back):
        assert len(set(addresses(plan).values())) == 3 and addresses(fewer).items() < addresses(plan).items()
    assert addresses(leaving)[f"port/{node}/3/management"] not in addresses(first).values()


def test_shrinking_leaves_fewest_nodes_and_most_whole_ones() -> None:
    """Of ten, three are on a node that others share: three to stay are those, seven are those on the other node."""
    first = made(parts(10), others(gpu05=3))
    assert Counter(n.node for n in first.placement.nodes) == {"gpu05": 3, "gpu06": 7}
    assert set(changed(first, parts(3), others(gpu05=3)).placement.held) == {"gpu05"}
    assert set(changed(first, parts(7), others(gpu05=3)).placement.held) == {"gpu06"}
    assert Counter(n.node for n in changed(first, parts(8), others(gpu05=3)).placement.nodes) == {
        "gpu05": 3,
        "gpu06": 5,
    }


@pytest.mark.parametrize(
    ("number", "remove", "says"),
    [
        (2, ("gpu99",), "nodes of the pod: "),
        (2, ("{node}",), "1 server, since nodes.count goes from 3 to 2"),
        (3, ("{server}",), "0 servers, since nodes.count goes from 3 to 3"),
        (4, ("{server}",), "0 servers, since nodes.count goes from 3 to 4"),
        (3, ("gpu99",), None),
    ],
)
def test_names_to_remove_must_match_the_count(number: int, remove: tuple[str, ...], says: str | None) -> None:
    first = made(parts(3))
    (node,) = first.placement.held
    names = [r.format(node=node, server=first.graph.by_key()[f"server/{node}/0"].name) for r in remove]
    if says is None:
        same = changed(first, parts(number), remove=names)
        assert same.change is not None and same.change.nothing
        return
    with pytest.raises(InputError) as error:
        changed(first, parts(number), remove=names)
    assert says in error.value.allowed


def test_named_node_is_removed_with_all_its_servers() -> None:
    first = made(parts(10))
    alone, full = (
        n for n, _ in sorted(Counter(n.node for n in first.placement.nodes).items(), key=lambda c: c[1])
    )
    assert set(changed(first, parts(2), remove=[full]).placement.held) == {alone}


def test_growth_prefers_the_pods_nodes_over_fuller_ones() -> None:
    """Then nodes that others share; whole nodes stay whole."""
    state = others(gpu09=1)
    first = made(parts(2))
    (node,) = first.placement.held
    assert set(changed(first, parts(3), state).placement.held) == {node}
    nine = changed(first, parts(9), state)
    assert Counter(n.node for n in nine.placement.nodes) == {node: 8, "gpu09": 1}


def test_growth_stays_inside_the_required_level() -> None:
    """On the pod's host or leaf; else it is refused, with the size that would fit."""
    for level, most in (("node", 8), ("leaf", 32)):
        first = made(parts(2, locality={"required": level}))
        full = changed(first, parts(most, locality={"required": level}))
        assert len({n.leaf for n in full.placement.nodes}) == 1 and full.placement.level == level
        found = refused(first, parts(most + 1, locality={"required": level}))
        assert isinstance(found, Refusal)
        assert found.reason.startswith(f"{most - 1} additional servers for the 2 of the pod: ")
        assert offers(found)[0] == f"nodes.count: {most} instead of {most + 1}"


def test_same_order_changes_nothing() -> None:
    first = made(parts(3))
    again = changed(first, parts(3))
    assert again.change is not None and again.change.nothing
    assert again.model_copy(update={"change": None}) == first


def test_difference_text_lists_servers() -> None:
    first = made(parts(3))
    (node,) = first.placement.held
    text = change_text(changed(first, parts(5)))
    assert "Servers: 3 stay, with their addresses; all within one node." in text
    assert text.count(f"  +  {node} ") == 2
    assert f"Why: 2 servers on 1 node: {node} in part use already" in text
    text = change_text(changed(first, parts(1)))
    assert "Servers: 1 stay" in text and text.count(f"  −  {node}\n") == 2
    assert f"Why: 1 server stays on 1 node ({node})" in text


@settings(max_examples=examples(60), deadline=None)
@given(st.randoms(use_true_random=False), st.lists(st.integers(1, 24), min_size=2, max_size=6))
def test_resizes_keep_staying_servers_unchanged(chance: random.Random, sizes: list[int]) -> None:
    """They keep names, addresses and devices, which are unique."""
    plan, left = made(parts(sizes[0])), list[str]()
    also = list[Any]()
    for size in sizes[1:]:
        if chance.random() < 0.5:  # removed servers were released
            left, also = [], []
        found = refused(plan, parts(size), leaving=left, also=also)
        assert isinstance(found, Plan), found
        before, after = by_server(plan.placement.nodes), by_server(found.placement.nodes)
        gone = {s: n for s, n in before.items() if s not in after}
        left += list(gone)
        also += list(gone.values())
        assert len(after) == size == len(keys(found)) and keys(found) == set(after)
        assert len(set(addresses(found).values())) == len(addresses(found))
        taken = [(n.node, d) for n in (*after.values(), *also) if n.part for d in n.part.devices]
        assert len(set(taken)) == len(taken)
        for name in before.keys() & after.keys():
            assert before[name].part == after[name].part
            for key in (f"server/{name}", f"port/{name}/management"):
                assert plan.graph.by_key()[key] == found.graph.by_key()[key]
        plan = found
