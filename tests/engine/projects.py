"""Orders of several projects, and the leaves of their pods."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine.house import House
from tests.engine.timehouse import make
from tests.helpers.offers import offers
from weft.engine.rows.records import PodRecord
from weft.model.errors import RefusedError
from weft.model.pod import PodState
from weft.planning.fabric.topology import Topology


def order(house: House, project: str, name: str, count: int, **more: Any) -> PodRecord:
    gbps, locality = more.pop("gbps", 0), more.pop("locality", {})
    made = make(name, count, fabric={"bisection_gbps": gbps}, locality=locality, **more)
    return house.store.pods.find(house.service.pods.create(house.request(project), made).id, None)


def refused(house: House, project: str, count: int, **more: Any) -> list[str]:
    """Order nodes that don't fit; returns the changes with which the refusal says they would."""
    with pytest.raises(RefusedError) as caught:
        order(house, project, "refused", count, **more)
    return list(offers(caught.value))


def give_back(house: House, project: str, pod: PodRecord) -> None:
    house.service.pods.release(house.request(project), str(pod.id))
    house.run(pod, PodState.RELEASED)


def leaves(house: House, pod: PodRecord) -> set[str]:
    locations = Topology.of(house.store.site().site, "ib0").locations
    return {locations[n].leaf for n in pod.held}
