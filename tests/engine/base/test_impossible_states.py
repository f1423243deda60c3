"""States that the schema permits and weft never writes are findings of `weft doctor`, each by its code."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.engine.hold.test_ownerclaims import sql
from tests.engine.house import House
from tests.engine.timehouse import make
from weft.app.doctor.findings import CODES, DoctorLevel
from weft.engine.store.inspection import inspecting
from weft.model.change import Replacement
from weft.model.errors import NotFoundError
from weft.model.pod import PodState

NOBODY = "00000000-0000-4000-8000-000000000000"
Broken = Callable[[House], object]


def codes(house: House) -> dict[str, int]:
    with inspecting(house.database.url, 10.0) as inspection:
        found = inspection.impossible(house.store.site().site.units)
    assert all(one.some for one in found)
    return {one.code: one.number for one in found}


def test_impossible_states_are_absent_after_the_life_of_several_pods(house: House) -> None:
    """Pods that were queued, served, replaced, drained, quarantined and released."""
    pod, other = house.ready(), house.order(make("other", 2))
    house.service.pods.replace_node(house.operator, str(pod.id), Replacement(node=pod.nodes[0]))
    assert codes(house) == {}
    house.run(pod, PodState.READY)
    house.service.nodes.quarantine(house.operator, house.site.nodes[-1].name, "fan")
    for one in (pod, other):
        house.release(one)
        house.run(one, PodState.RELEASED)
    assert codes(house) == {}


BROKEN: dict[str, str] = {
    "RELEASED_UNSIGNED": "DELETE FROM receipt",
    "HOLDS_UNOWNED": f"UPDATE node_hold SET pod_id = '{NOBODY}'",
    "PODS_HOLD_NOTHING": "DELETE FROM node_hold",
    "BOOKINGS_STRAY": "INSERT INTO booking (pod_id, nodes, start_at) SELECT id, '{gpu01}', now() FROM pod LIMIT 1",
    "REPLACEMENTS_STRAY": "INSERT INTO own_replacement (pod_id, generation, by_node, at) "
    "SELECT id, 9, 'gpu01', now() FROM pod LIMIT 1",
    "RESOURCES_UNOWNED": f"UPDATE resource SET owner_id = '{NOBODY}' WHERE key = 'security_group' "
    "AND owner_id = (SELECT id FROM pod WHERE name = 'train')",
    "STOPS_OUTSIDE_SITE": "INSERT INTO quarantine (node, reason, since) VALUES ('gone01', 'fan', now())",
}


@pytest.mark.parametrize("code", BROKEN)
def test_impossible_state_is_found_by_its_code(house: House, code: str) -> None:
    pods = [house.ready(make(name, 2)) for name in ("train", "other")]
    if code == "RELEASED_UNSIGNED":
        for pod in pods:
            house.release(pod)
            house.run(pod, PodState.RELEASED)
    assert codes(house) == {}
    sql(house, BROKEN[code])
    found = codes(house)
    assert found.pop(code) > 0 and set(found) <= {"PODS_HOLD_NOTHING"}
    assert CODES[code].level is not DoctorLevel.OK and CODES[code].page == "doctor.md#records"


def test_quarantine_of_a_node_that_left_the_site_is_cleared(house: House) -> None:
    sql(house, BROKEN["STOPS_OUTSIDE_SITE"])
    house.service.nodes.clear(house.operator, "gone01")
    assert codes(house) == {}
    with pytest.raises(NotFoundError):
        house.service.nodes.clear(house.operator, "gone01")
