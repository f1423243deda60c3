"""Ports with full P_Key tables: their nodes are never chosen, and the reason names the port."""

from __future__ import annotations

import pytest

from tests.engine.house import House
from tests.engine.timehouse import look, make, queue
from weft.model.errors import RefusedError
from weft.model.pod import PodState


def fill(house: House, node: str, keys: int) -> None:
    """Put the first port of a node into so many partitions of the operator's own."""
    guid = house.site.node_by_name[node].hcas_on("ib0")[0].port_guid
    for manager in house.fabric.managers:
        others = [f"o{n}=0x{0x4000 + n:x} : 0x{guid:016x}=full;\n" for n in range(keys)]
        manager.text = (manager.text or "") + "".join(others)
        manager.sweep()


def test_full_port_is_named_in_the_refusal(house: House) -> None:
    """63 keys and the default one are 64 of ibsim's 64 entries; one key fewer, and the node is chosen."""
    fill(house, "gpu03", 63)
    fill(house, "gpu04", 62)
    with pytest.raises(RefusedError) as caught:
        house.order(make("all", 16))
    guid = house.site.node_by_name["gpu03"].hcas_on("ib0")[0].port_guid
    assert "segments 1" in str(caught.value)
    (report,) = [f for f in caught.value.detail["explanation"]["filters"] if f["filter"] == "segments"]
    assert f"(0x{guid:016x}) has no entry left for a P_Key: 64 of 64 are taken" in report["examples"][0]
    pod = house.ready(make("most", 15))
    assert "gpu04" in pod.nodes and "gpu03" not in pod.nodes
    rows = house.service.capacity.show(house.request()).rows
    assert {row.free for row in rows if row.shape == "nodes"} == {0}


def test_pods_own_p_key_does_not_count_against_its_node_later(house: House) -> None:
    """The last entry is the pod's: the next order is still promised the node."""
    fill(house, "gpu01", 62)
    house.ready(make("first", 16, duration="2h"))
    after = queue(house, "after", 16)
    house.worker.tend_queue()
    waiting = look(house, after)
    assert waiting.state is PodState.PENDING and waiting.expected_start is not None


def test_queue_skips_a_node_with_a_full_port(house: House) -> None:
    """An order that waits isn't given the node either, until the operator takes his keys off."""
    before = [manager.text for manager in house.fabric.managers]
    fill(house, "gpu01", 63)
    pod = queue(house, "all", 16)
    house.worker.tend_queue()
    assert look(house, pod).state is PodState.PENDING
    for manager, text in zip(house.fabric.managers, before, strict=True):
        manager.text = text
        manager.sweep()
    house.clock.sleep(31)
    house.worker.tend_queue()
    house.run(pod, PodState.READY)


def test_port_that_cannot_be_asked_limits_nothing(house: House) -> None:
    """The size of its table isn't guessed."""
    fill(house, "gpu03", 63)
    house.fabric.cut(house.site.node_by_name["gpu03"].hcas_on("ib0")[0].port_guid)
    assert len(house.service.pods.plan(house.request(), make("all", 16)).placement.nodes) == 16
