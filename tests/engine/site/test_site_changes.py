"""Changes of the site: none is lost to another, old drivers are closed, and each cloud keeps its profile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import pytest

from tests.engine.house import ORDER, House
from weft.app.wiring import profile_of
from weft.app.worldkeeper import WorldKeeper
from weft.engine.base.world import World
from weft.model.errors import ConflictError
from weft.model.pod import PodState
from weft.model.site import Flavor, Site


def document(site: Site, **changes: object) -> dict[str, object]:
    return {**site.model_dump(mode="json"), **changes}


def test_change_of_an_older_site_is_refused(house: House) -> None:
    """Two operators start from one generation: the second one is refused, and nothing of the first one's is lost."""
    verbs, olga = house.service, house.operator
    base = verbs.site.show(olga).generation
    assert verbs.site.activate(olga, document(house.site), base).generation == base + 1
    with pytest.raises(ConflictError, match=f"generation {base + 1} of the site is active, but .* on {base}"):
        verbs.site.activate(olga, document(house.site), base)
    with pytest.raises(ConflictError, match="based on 0"):
        verbs.site.activate(olga, document(house.site), 0)
    assert verbs.site.activate(olga, document(house.site)).generation == base + 2


def test_flavor_in_use_cannot_be_removed(house: House) -> None:
    """Without it a change of the pod couldn't even be compared; unused ones may be removed, and this one after the
    release."""
    verbs, olga = house.service, house.operator
    pod = house.ready()
    cloud = house.site.clouds["lab"]
    used, unused = cloud.flavors["gpu8"], cloud.flavors["cpu1"]

    def site(**gpu: Flavor) -> dict[str, object]:
        flavors = {"cpu1": unused, **gpu}
        clouds = {**house.site.clouds, "lab": cloud.model_copy(update={"flavors": flavors})}
        return document(house.site.model_copy(update={"clouds": clouds}))

    says = "flavors: gpu8 of cloud lab is missing, but pod train uses it: release it first"
    with pytest.raises(ConflictError, match=says):
        verbs.site.activate(olga, site(other=used))
    assert verbs.site.activate(olga, site(gpu8=used)).generation == 2
    assert verbs.pods.apply(house.request(), "train", ORDER).outcome == "unchanged"
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    verbs.site.activate(olga, site(other=used))


def test_cables_are_adopted_only_into_the_compared_site(house: House) -> None:
    """A site activated while the fabric was read isn't overwritten."""
    ask = house.fabric.topology

    def meanwhile() -> Any:
        house.store.activate_site(house.site, "another operator")
        return ask()

    house.fabric.topology = meanwhile
    with pytest.raises(ConflictError, match="is active"):
        house.service.fabrics.adopt_cabling(house.operator)


def test_every_reason_of_a_node_is_shown(house: House) -> None:
    """Even for a node that isn't a compute node; a second reason is appended to the first, once."""
    nodes = tuple(
        n.model_copy(update={"maintenance": "new fan"}) if n.name == "gpu01" else n for n in house.site.nodes
    )
    house.store.activate_site(house.site.model_copy(update={"nodes": nodes}), "test")
    other = next(n.name for n in house.site.nodes if n.role != "compute")
    for node in ("gpu01", other):
        for reason in ("first", "second", "second"):
            view = house.service.nodes.quarantine(house.operator, node, reason)
    assert (view.state, view.reason) == ("quarantined", "first")
    (view,) = [v for v in house.service.nodes.list(house.operator) if v.name == "gpu01"]
    assert (view.state, view.reason) == ("quarantined", "first; maintenance: new fan")


@dataclass
class Driver:
    """Something with a connection."""

    closed: bool = False

    def close(self) -> None:
        self.closed = True


class Clock:
    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def test_drivers_of_an_old_site_are_closed_after_their_last_use(house: House) -> None:
    """Not while they are in use, and not at once after: what was begun may go on."""
    made: list[Driver] = []

    def build(site: Site) -> World:
        made.append(Driver())
        return World(resources=cast(Any, {"lab": made[-1]}), fabrics={}, clouds={})

    clock = Clock()
    keeper = WorldKeeper(house.store, build, monotonic=clock)
    in_use = keeper.world()
    house.store.activate_site(house.site, "test")
    assert keeper.world() is not in_use
    clock.seconds += 10_000
    keeper.world()
    assert not made[0].closed
    del in_use
    keeper.world()
    assert not made[0].closed
    clock.seconds += 10_000
    keeper.world()
    assert [d.closed for d in made] == [True, False]
    keeper.close()
    assert made[1].closed


def test_profile_given_at_start_is_for_the_only_cloud(house: House) -> None:
    """With several clouds each one's own profile counts: a common one would sign in to one cloud for both."""
    one = house.site
    (name,) = one.clouds
    cloud = one.clouds[name].model_copy(update={"profile": "own"})
    only = one.model_copy(update={"clouds": {name: cloud}})
    assert [profile_of(only, name, given) for given in ("given", None)] == ["given", "own"]
    two = one.model_copy(update={"clouds": {name: cloud, "east": cloud.model_copy(update={"profile": None})}})
    assert [profile_of(two, c, "given") for c in (name, "east")] == ["own", "east"]
