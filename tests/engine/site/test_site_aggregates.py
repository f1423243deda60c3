"""Host aggregates of a site in the site's loop, on the fake cloud with Nova's filter of flavors."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.engine.sitehouse import KEYS, SiteHouse
from tests.engine.timehouse import look, make
from weft.app.sitefile import checked
from weft.engine.base.database import Database
from weft.model.errors import ConflictError
from weft.model.pod import PodState
from weft.model.resources import Kind
from weft.testing.cloud import Fault
from weft.testing.cloud_state import Thing

KEY = "aggregate/lab/h100x8"
HOSTS = tuple(f"gpu{n:02}" for n in range(1, 17))


class AggregateHouse(SiteHouse):
    def __init__(self, database: Database, url: str) -> None:
        super().__init__(database, url)
        self.kept_free("aggregate")

    def kept_free(self, how: str) -> None:
        """Activate the site with hosts kept free so."""
        clouds = {"lab": self.site.clouds["lab"].model_copy(update={"hosts_kept_free": how})}
        self.activate(checked(self.site.model_copy(update={"clouds": clouds})))

    @property
    def there(self) -> list[Thing]:
        return self.cloud.things(Kind.AGGREGATE)


@pytest.fixture
def house(database: Database, database_url: str) -> Generator[AggregateHouse]:
    house = AggregateHouse(database, database_url)
    yield house
    house.close()


def test_aggregate_is_planned_applied_kept_and_removed(house: AggregateHouse) -> None:
    """A pod's flavor is scheduled there, another isn't; the second apply finds nothing to do."""
    [step] = [s for s in house.plan().steps if s.kind == "aggregate"]
    assert (step.action, step.key, step.name) == ("create", KEY, "lab-h100x8")
    assert step.what == "16 hosts for cpu1, gpu1, gpu8"
    house.applied()
    assert house.mine().keys() == KEYS | {KEY} and house.ask().nothing
    [thing] = house.there
    assert thing.fields["hosts"] == HOSTS and thing.fields["flavors"] == ("cpu1", "gpu1", "gpu8")
    assert house.service.audits.run(house.operator).findings == ()
    assert house.ready(make("train", 2)).state is PodState.READY
    thing.fields["flavors"] = ("gpu1",)
    assert [(s.action, s.key) for s in house.plan().steps] == [("change", KEY)]
    house.applied()
    assert thing.fields["flavors"] == ("cpu1", "gpu1", "gpu8")


def test_scheduler_keeps_unlisted_flavors_off(house: AggregateHouse) -> None:
    house.cloud.add(Kind.AGGREGATE, "strict", "service", None, flavors=("other",), hosts=HOSTS)
    pod = house.order(make("train", 1))
    for _ in range(10):
        house.visit(pod)
        if "No valid host" in look(house, pod).reason:
            break
    assert "don't name flavor gpu8" in look(house, pod).reason


def test_host_unknown_to_nova_is_waited_for(house: AggregateHouse) -> None:
    """The rest is applied; it comes as soon as its nova-compute is registered."""
    del house.cloud.offers.hosts["gpu16"]
    house.ask()
    owner = house.visits(6)
    assert "Nova doesn't know a compute host of that name yet" in owner.reason and "gpu16" in owner.reason
    assert not house.service.site.resources(house.operator).done
    assert house.mine().keys() == KEYS | {KEY} and house.there[0].fields["hosts"] == HOSTS[:-1]
    house.cloud.offers.hosts["gpu16"] = "up"
    house.run_out()
    house.settle()
    assert house.there[0].fields["hosts"] == HOSTS


def test_other_hosts_in_an_aggregate_are_named_and_left(house: AggregateHouse) -> None:
    house.applied()
    [thing] = house.there
    thing.fields["hosts"] = (*HOSTS, "theirs01")
    plan = house.plan()
    assert plan.nothing and f"{KEY} also has hosts of others, which weft leaves in it: theirs01" in plan.notes
    house.destroyed()
    assert house.there == [thing] and thing.mark is None
    assert thing.fields["hosts"] == ("theirs01",) and thing.fields["flavors"] is None
    receipt = house.service.site.receipt(house.operator).receipt
    assert receipt.clean and {i.result for i in receipt.items if i.plane == "aggregate"} == {"kept"}


def test_operators_aggregate_is_adopted_on_request_and_returned(house: AggregateHouse) -> None:
    there = house.cloud.add(Kind.AGGREGATE, "weft-pods", "service", None, flavors=("gpu8",), hosts=HOSTS[:2])
    with pytest.raises(ConflictError, match="instance_type for gpu01, gpu02: adopt it with --adopt"):
        house.ask()
    house.applied(adopt=True)
    assert house.mine()[KEY] is there and there.fields["hosts"] == HOSTS
    house.destroyed()
    assert house.there == [there] and there.mark is None
    assert (there.fields["hosts"], there.fields["flavors"]) == (HOSTS[:2], ("gpu8",))


def test_hosts_kept_free_another_way_lose_the_aggregate(house: AggregateHouse) -> None:
    """Nothing of it is left, and nothing else is touched."""
    house.applied()
    house.kept_free("otherwise")
    assert [(s.action, s.key) for s in house.plan().steps] == [("remove", KEY)]
    house.applied()
    assert house.there == [] and house.mine().keys() == KEYS


def test_previously_applied_site_is_left_alone_until_applied_again(
    database: Database, database_url: str
) -> None:
    """The applied site had no aggregates: neither a visit nor an audit creates or misses one."""
    house = SiteHouse(database, database_url)
    house.applied()
    cloud = house.site.clouds["lab"].model_copy(update={"hosts_kept_free": "aggregate"})
    house.activate(checked(house.site.model_copy(update={"clouds": {"lab": cloud}})))
    house.visits(3)
    assert (
        house.cloud.things(Kind.AGGREGATE) == [] and house.service.audits.run(house.operator).findings == ()
    )
    assert house.steps() == [f"create {KEY}"]
    house.close()


def test_lost_answer_creates_no_second_aggregate(house: AggregateHouse) -> None:
    house.cloud.plant(Fault.LOST_ANSWER, kind=Kind.AGGREGATE, verb="create")
    house.applied()
    assert len(house.there) == 1
    house.destroyed()
    assert house.there == [] and house.service.site.receipt(house.operator).receipt.clean
