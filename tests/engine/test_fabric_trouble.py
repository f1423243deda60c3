"""The fabric's managers in trouble while pods live: a file replaced, a manager silent, a manager with an old file."""

from __future__ import annotations

from tests.engine.house import ORDER, House

from weft.engine.records import PodRecord
from weft.model.ids import FULL_MEMBER
from weft.model.order import Order
from weft.model.pod import PodState

DEFAULT = "Default=0x7fff, ipoib : ALL=limited"


def _order(name: str) -> Order:
    return Order.model_validate({**ORDER.model_dump(mode="json"), "name": name})


def _members(house: House, pod: PodRecord) -> int:
    """How many of the pod's ports have its key as full members."""
    key = FULL_MEMBER | (pod.plan.allotment.pkey or 0)
    ports = [h.port_guid for n in pod.nodes for h in house.site.node_by_name[n].hcas]
    tables = house.fabric.tables(ports)
    return sum(key in tables[g].keys for g in ports)


def _replaced(house: House) -> None:
    """Configuration management puts its own version of the file in place, on every manager."""
    for manager in house.fabric.managers:
        assert manager.text is not None
        manager.text = manager.text.partition("# BEGIN weft")[0]


def _events(house: House, pod: PodRecord) -> str:
    return "\n".join(e.message for e in house.store.events(pod.id, 0))


def test_a_file_that_was_replaced_costs_no_pod_its_partition(house: House) -> None:
    """The next order's change brings back what the database wants; the pods concerned hear of it."""
    first = house.ready(_order("first"))
    whole = _members(house, first)
    assert whole
    _replaced(house)
    assert any("first" in p or "weft" in p for p in house.fabric.status().problems)
    second = house.ready(_order("second"))
    assert _members(house, first) == whole == _members(house, second)
    assert "put back" in _events(house, first) and "put back" not in _events(house, second)
    assert house.run(first, PodState.READY).state is PodState.READY
