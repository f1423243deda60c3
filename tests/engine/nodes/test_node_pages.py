"""Lists of nodes in parts: the same nodes, states and order as in the whole list."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.engine.house import House
from weft.model.errors import ForbiddenError
from weft.model.site import Site
from weft.model.views import DrainRequest, NodeSearch, NodeView


@pytest.fixture
def busy(house: House) -> House:
    """A house with a node in each state that is possible here, and some in several at once."""
    pod = house.ready()
    service, operator = house.service, house.operator
    mine = pod.plan.placement.nodes[0].node
    free = [n.name for n in house.site.nodes if n.role == "compute" and n.name != mine][-6:]
    service.nodes.quarantine(operator, free[0], "fan")
    service.nodes.hold(operator, free[1], "burn-in")
    service.nodes.drain(operator, DrainRequest(target=free[2]))
    service.nodes.hold(operator, mine, "burn-in")
    for name in (free[3], mine):
        service.nodes.drain(operator, DrainRequest(target=name, break_promises=True))
    service.nodes.hold(operator, free[3], "burn-in")
    service.nodes.quarantine(operator, free[3], "leak")
    nodes = tuple(
        n.model_copy(update={"maintenance": "disks"}) if n.name in (free[4], free[0]) else n
        for n in house.site.nodes
    )
    house.store.activate_site(
        Site.model_validate(house.site.model_copy(update={"nodes": nodes}).model_dump()), "test"
    )
    return house


def key(node: NodeView, sort: str) -> tuple[bool, str, str]:
    value = getattr(node, sort)
    text = value.isoformat() if sort == "since" and value else value or ""
    return (not text, text, node.name)


def test_pages_of_nodes_put_together_are_the_whole_list(busy: House) -> None:
    """In each order and with each filter; counts and states are those of the whole list."""
    service, operator = busy.service, busy.operator
    every = service.nodes.list(operator)
    states = {node.name: node.state for node in every}
    assert len(set(states.values())) >= 5
    marks = [(n.name, n.rack, n.leaf, n.state, n.pod, n.project_id) for n in every]
    assert list(service.nodes.marks(operator)) == marks
    chosen = ("quarantined", "held")
    found, views = service.nodes.marks_and_views(operator, chosen)
    assert (list(found), views) == (marks, [n for n in every if n.state in chosen])
    for sort in ("site", "name", "rack", "leaf", "state", "since", "pod"):
        for given in (
            {},
            {"state": "quarantined"},
            {"leaf": every[3].leaf},
            {"rack": every[3].rack},
            {"name": "1"},
        ):
            wanted = [
                node
                for node in every
                if all(
                    given[name] in node.name if name == "name" else getattr(node, name) == given[name]
                    for name in given
                )
            ]
            if sort != "site":
                wanted.sort(key=lambda node, sort=sort: key(node, sort))
            found: list[NodeView] = []
            while True:
                search = NodeSearch.model_validate({**given, "sort": sort, "skip": len(found), "limit": 7})
                page = service.nodes.page(operator, search)
                if not page.nodes:
                    break
                found += page.nodes
            assert found == wanted, (sort, given)
            assert (page.total, page.found) == (len(every), len(wanted))
            assert page.counts == Counter(states.values())


def test_health_from_chosen_columns_equals_that_from_whole_documents(busy: House) -> None:
    found = busy.service.nodes.healths(busy.operator)
    values = busy.service.nodes.health_values(busy.operator)
    assert values == {one.node: one.health for one in found}
    assert len(set(values.values())) >= 2


def test_pages_of_nodes_are_for_operators(house: House) -> None:
    service = house.service
    for ask in (
        lambda r: service.nodes.page(r, NodeSearch()),
        service.nodes.marks,
        service.nodes.health_values,
        lambda r: service.nodes.marks_and_views(r, ()),
    ):
        with pytest.raises(ForbiddenError):
            ask(house.request())


@pytest.mark.parametrize("sort", ["site", "state", "pod", "since"])
def test_page_shows_a_node_as_it_is_after_a_change(busy: House, sort: str) -> None:
    """The order of a page is kept until a node changes."""
    service, operator = busy.service, busy.operator
    search = NodeSearch.model_validate({"sort": sort, "limit": 1000})
    before = service.nodes.page(operator, search)
    assert service.nodes.page(operator, search) == before
    cleared = next(n.name for n in before.nodes if n.state == "quarantined")
    service.nodes.clear(operator, cleared)
    for wanted in (search, search.model_copy(update={"state": "quarantined"})):
        page = service.nodes.page(operator, wanted)
        every = [n for n in service.nodes.list(operator) if wanted.state in (None, n.state)]
        assert {n.name: n for n in page.nodes} == {n.name: n for n in every}
        assert cleared not in {n.name for n in page.nodes if n.state == "quarantined"}
        if sort != "site":
            assert list(page.nodes) == sorted(page.nodes, key=lambda node: key(node, sort))
