"""A site with two InfiniBand fabrics, each with a manager of its own: a pod's partition is the business of one of them.

The same P_Key means different members on each. What is released through the wrong manager would stay on the right one,
and take another pod's away (infra-controller 3529 and 3531).
"""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.engine.house import ORDER, House
from weft.engine.base.database import Database
from weft.engine.base.world import World
from weft.engine.rows.ledger import FabricLedger
from weft.engine.rows.records import PodRecord
from weft.model.ids import FULL_MEMBER
from weft.model.pod import PodState
from weft.model.site import Fabric, FabricAgent, Site
from weft.testing.fabric import FakeFabric

SECOND = "ib1"


def split(site: Site) -> Site:
    """The last two leaves and their nodes are a fabric of their own, with the same range of P_Keys and one manager."""
    leaves = {s.name for s in site.switches if s.name in ("leaf03", "leaf04")}
    theirs = {link.a for link in site.links if link.b in leaves} | {
        link.b for link in site.links if link.a in leaves
    }
    nodes = {name.partition("/")[0] for name in theirs if "/" in name}

    def home(name: str) -> bool:
        return name in leaves or name.partition("/")[0] in nodes

    first = site.fabrics["ib0"]

    def managed(agents: tuple[FabricAgent, ...], **more: str) -> Fabric:
        return first.model_copy(
            update={"manager": first.manager.model_copy(update={"agents": agents}), **more}
        )

    sides = [tuple(a for a in first.manager.agents if (a.node in nodes) is there) for there in (False, True)]
    both = {
        "ib0": managed(sides[0]),
        SECOND: managed(sides[1], physical_network=f"{first.physical_network}-2"),
    }
    return site.model_copy(
        update={
            "fabrics": both,
            "switches": tuple(
                s.model_copy(update={"fabric": SECOND}) if s.name in leaves else s for s in site.switches
            ),
            "links": tuple(link for link in site.links if home(link.a) == home(link.b)),
            "nodes": tuple(
                n.model_copy(update={"hcas": tuple(h.model_copy(update={"fabric": SECOND}) for h in n.hcas)})
                if n.name in nodes
                else n
                for n in site.nodes
            ),
        }
    )


@pytest.fixture
def house(database: Database, database_url: str) -> Generator[House]:
    made = House(database, database_url)
    site = made.site = split(made.site)
    ledgers = {n: FabricLedger(database, n, row.words) for n, row in site.fabrics.items()}
    fabrics = {n: FakeFabric(site, n, ledger=ledger) for n, ledger in ledgers.items()}
    made.world = World({"lab": made.cloud, **fabrics}, fabrics, {"lab": made.cloud})
    made.store.activate_site(site, "test")
    yield made
    made.close()


def wired(house: House, name: str, number: int) -> set[str]:
    """Nodes of a fabric that have the key in a port's table."""
    fabric = house.world.fabrics[name]
    assert isinstance(fabric, FakeFabric)
    guids = {guid for guid, keys in fabric.wire.hosts.items() if FULL_MEMBER | number in keys}
    return {n.name for n in house.site.nodes for h in n.hcas if h.port_guid in guids}


def test_pod_concerns_only_its_own_fabrics_manager(house: House) -> None:
    """Both pods have the first number of their range; one is released, and the other manager doesn't notice."""
    pods: dict[str, PodRecord] = {}
    for name in ("ib0", SECOND):
        fabric = ORDER.fabric.model_copy(update={"name": name})
        order = ORDER.model_copy(update={"name": f"on-{name}", "fabric": fabric})
        pods[name] = house.run(house.order(order), PodState.READY)
    number = pods["ib0"].plan.segment
    assert number is not None and pods[SECOND].plan.segment == number
    nodes = {name: {n.node for n in pod.plan.placement.nodes} for name, pod in pods.items()}
    assert {name: wired(house, name, number) for name in pods} == nodes
    assert not nodes["ib0"] & nodes[SECOND]
    house.release(pods["ib0"])
    house.run(pods["ib0"], PodState.RELEASED)
    assert wired(house, "ib0", number) == set() and wired(house, SECOND, number) == nodes[SECOND]
    house.run(pods[SECOND], PodState.READY)
    assert house.service.audits.run(house.operator).findings == ()


@pytest.mark.parametrize("silent", ["ib0", SECOND])
def test_silent_manager_delays_only_its_own_pods(house: House, silent: str) -> None:
    """Its pods can't be proved gone; those of the other fabric come and go meanwhile."""
    quiet = house.world.fabrics[silent]
    assert isinstance(quiet, FakeFabric)
    for manager in quiet.managers:
        manager.reachable = False
    (other,) = {"ib0", SECOND} - {silent}
    fabric = ORDER.fabric.model_copy(update={"name": other})
    pod = house.run(house.order(ORDER.model_copy(update={"fabric": fabric})), PodState.READY)
    house.release(pod)
    house.run(pod, PodState.RELEASED)
