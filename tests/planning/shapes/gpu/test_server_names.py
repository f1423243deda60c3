"""Servers' names in plans: servers that stay keep theirs, and a server can be removed by its name."""

from __future__ import annotations

import pytest

from tests.helpers.smallsite import POD_ID, order, small_site
from tests.planning.shapes.gpu import test_change_parts as parts
from tests.planning.shapes.test_change import changed, count, made, with_
from weft.model.errors import InputError
from weft.model.plan import Plan
from weft.model.resources import Kind


def called(plan: Plan) -> dict[str, str]:
    """The node of each server, by name."""
    return {r.name: r.node for r in plan.graph.resources if r.kind is Kind.SERVER}


def test_names_stay_when_servers_come_and_go() -> None:
    """The middle server is removed by name; an added one gets the lowest free number, and no other changes."""
    first = made(order(3))
    assert list(called(first)) == ["p-0", "p-1", "p-2"]
    fewer = changed(first, count(order(3), 2), remove=["p-1"])
    assert called(fewer).items() < called(first).items() and list(called(fewer)) == ["p-0", "p-2"]
    again = changed(fewer, count(order(3), 2), remove=["p-1"])
    assert again.change is not None and again.change.nothing
    more = changed(fewer, count(order(3), 4))
    assert set(called(more)) == {"p-0", "p-1", "p-2", "p-3"} and called(fewer).items() < called(more).items()


def test_replacement_keeps_the_replaced_servers_name() -> None:
    """A spare gets the name of the server that it replaces once that is gone."""
    spared = with_(order(2), "nodes", spare=1)
    first = made(spared)
    gone = called(first)["p-0"]
    fewer = changed(first, count(spared, 1), remove=["p-0"])
    (spare,) = fewer.placement.spares
    assert "p-2" in called(changed(fewer, count(spared, 2, spare=0), leaving=[gone]))
    replaced = changed(fewer, count(spared, 2, spare=0))
    assert called(replaced) == {"p-1": called(first)["p-1"], "p-0": spare.node}


def test_names_of_servers_on_shared_nodes_are_numbered_in_the_pod() -> None:
    """Whatever node they are on."""
    plan = parts.made(parts.parts(10), parts.others(gpu05=3))
    assert list(called(plan)) == [f"p-{n}" for n in range(10)] and len(set(called(plan).values())) == 2


def test_name_pattern_can_not_be_changed() -> None:
    """The change is refused, since servers aren't renamed; added servers use the same pattern."""
    named = with_(order(2), "nodes", names="node{index:02}")
    first = made(named)
    assert list(called(first)) == ["node00", "node01"]
    other = changed(first, order(2)).change
    assert other is not None and [i.field for i in other.impossible] == ["nodes.names"]
    assert "release the pod and order it again" in other.impossible[0].allowed
    assert "node02" in called(changed(first, count(named, 3)))


def test_ambiguous_server_and_node_name_is_refused() -> None:
    """Neither is removed."""
    named = with_(order(2), "nodes", names="gpu{index:02}")
    first = made(named)
    clash = next(
        name for name, node in called(first).items() if name != node and name in called(first).values()
    )
    with pytest.raises(InputError, match="remove"):
        changed(first, count(named, 1), remove=[clash])


def test_servers_of_an_earlier_version_keep_their_names() -> None:
    """Rows from before name patterns: existing servers keep their names and are removed by them; new ones follow the
    pattern.
    """
    first = made(order(2))
    old = tuple(
        r.model_copy(update={"name": f"weft-{POD_ID[:8]}-{r.key.replace('/', '-')}"})
        if r.kind is Kind.SERVER
        else r
        for r in first.graph.resources
    )
    plan = first.model_copy(update={"graph": first.graph.model_copy(update={"resources": old})})
    more = changed(plan, count(order(2), 3))
    assert called(plan).items() < called(more).items() and "p-2" in called(more)
    name = next(iter(called(plan)))
    assert called(plan)[name] not in called(changed(plan, count(order(2), 1), remove=[name])).values()
    assert small_site().node_by_name[called(more)["p-2"]]
