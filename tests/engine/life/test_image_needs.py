"""Requirements of images and flavors filter hosts during placement, not at the boot."""

from __future__ import annotations

from collections.abc import Generator, Mapping

import pytest

from tests.engine.house import House
from tests.engine.timehouse import HandClock, look, make, queue
from tests.helpers.offers import offers
from weft.engine.base.database import Database
from weft.model.errors import InputError, PermanentError, RefusedError, UnknownError
from weft.model.pod import PodState
from weft.testing.cloud import Fault


@pytest.fixture
def house(database: Database, database_url: str) -> Generator[House]:
    """A house of which four hosts have the trait that the image requires."""
    house = House(database, database_url, clock=HandClock())
    house.cloud.offers.image_properties["tiny"] = {"trait:CUSTOM_OFED": "required"}
    for number in (2, 5, 6, 9):
        house.cloud.offers.traits[f"gpu{number:02d}"] = {"CUSTOM_OFED", "COMPUTE_NODE"}
    yield house
    house.close()


def test_only_hosts_with_the_trait_are_chosen(house: House) -> None:
    """The pod comes up where it can; one node more is refused, with the filter, the hosts and the trait."""
    pod = house.ready(make("four", 4))
    assert set(pod.nodes) == {"gpu02", "gpu05", "gpu06", "gpu09"}
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    with pytest.raises(RefusedError) as caught:
        house.order(make("five", 5))
    assert "image 12" in str(caught.value)
    (report,) = [f for f in caught.value.detail["explanation"]["filters"] if f["filter"] == "image"]
    assert "lacks the trait CUSTOM_OFED" in report["examples"][0]
    assert any("nodes.image" in change for change in offers(caught.value))


def test_queue_waits_for_hosts_that_can_boot_the_image(house: House) -> None:
    """It isn't given others, and starts once a host has the trait."""
    first = house.ready(make("first", 1, duration="8h"))
    pod = queue(house, "second", 4)
    house.worker.tend_queue()
    waiting = look(house, pod)
    assert waiting.state is PodState.PENDING and waiting.expected_start == first.lease_end
    house.cloud.offers.traits["gpu16"] = {"CUSTOM_OFED"}
    house.clock.sleep(31)
    house.worker.tend_queue()
    ready = house.run(pod, PodState.READY)
    assert "gpu16" in ready.nodes


def test_image_too_large_for_the_flavor_is_refused(house: House) -> None:
    """One sentence with the field; nothing is written."""
    house.cloud.offers.image_properties["tiny"]["min_ram"] = 2 << 20
    with pytest.raises(InputError, match=r"nodes\.image: 'tiny' is not allowed: it needs 2097152 MiB of RAM"):
        house.order(make("big", 1))
    assert house.service.pods.list(house.request()) == []


def test_flavor_can_forbid_a_trait(house: House) -> None:
    """A flavor's extra specs count as an image's properties do."""
    house.cloud.offers.image_properties.clear()
    house.cloud.offers.flavors["gpu8"].extra_specs["trait:COMPUTE_NODE"] = "forbidden"  # type: ignore[index]
    plan = house.service.pods.plan(house.request(), make("rest", 12))
    assert not {"gpu02", "gpu05", "gpu06", "gpu09"} & {n.node for n in plan.placement.nodes}


def test_unreachable_cloud_is_unknown(house: House) -> None:
    """The order fails with that and can be sent again; nothing is guessed."""
    planted = house.cloud.plant(Fault.UNREACHABLE, verb="facts", times=None)
    with pytest.raises(UnknownError):
        house.order(make("blind", 1))
    planted.lift()
    house.ready(make("blind", 1))


def test_unanswerable_order_does_not_block_others(house: House) -> None:
    """The waiting order whose project is gone says why; the other starts."""
    house.cloud.offers.image_properties.clear()
    run = house.ready(make("run", 16))
    view = house.service.pods.create(house.request("gone"), make("one", 1, queue=True))
    one, two = house.store.pods.find(view.id, None), queue(house, "two", 1)
    asked = house.cloud.unfit

    def unfit(project_id: str, image: str, flavor: str) -> Mapping[str, str]:
        if project_id == "gone":
            raise PermanentError("sign in", "Keystone", "there is no project gone", "release the pod")
        return asked(project_id, image, flavor)

    house.cloud.unfit = unfit  # type: ignore[method-assign]
    house.release(run)
    house.run(run, PodState.RELEASED)
    house.worker.tend_queue()
    assert "there is no project gone" in look(house, one).reason
    house.run(two, PodState.READY)
