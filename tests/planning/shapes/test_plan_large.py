"""The plan of a large pod as text that a person can read; JSON has the rest."""

from __future__ import annotations

from tests.planning.place.placesites import build_site
from weft.app.drivers import static_capabilities
from weft.model.order import Order
from weft.model.placement import Occupancy
from weft.model.plan import Plan, UsedNumbers
from weft.model.site import AcceleratorCount, Flavor, Site
from weft.planning.shapes.plan import NOT_ORDERED, make_plan
from weft.planning.shapes.plantext import MOST_NODES, plan_text


def site() -> Site:
    """800 nodes of eight H100 on 40 leaves in two pods."""
    found = build_site([[20] * 20] * 2, accelerators=8)
    flavor = Flavor(accelerators=AcceleratorCount(type="h100", count=8))
    cloud = found.clouds["c1"].model_copy(update={"flavors": {"h100.8": flavor}})
    return found.model_copy(update={"clouds": {"c1": cloud}})


def text(count: int, spare: int = 0) -> str:
    order = Order.model_validate(
        {
            "name": "wide",
            "nodes": {"count": count, "image": "u", "spare": spare, "flavor": "h100.8"},
            "lease": {"duration": "1h"},
        }
    )
    where = site()
    plan = make_plan(
        NOT_ORDERED, "team-a", order, where, Occupancy(), UsedNumbers(), static_capabilities(where)
    )
    assert isinstance(plan, Plan), plan
    return plan_text(plan)


def test_large_pod_is_listed_by_leaf() -> None:
    """35 leaves, each with its number of nodes, the first and the last; a few servers and how many more there are."""
    lines = text(690, spare=10).splitlines()
    assert len(lines) < 120
    assert max(map(len, lines)) < 220
    assert "  leaf   block  rack   nodes          from … to" in lines
    assert sum(line.startswith("  l") and "gpu" in line for line in lines) == 35
    assert sum("(10 spare)" in line for line in lines) == 1
    assert "  … and 682 more servers with their ports. Each by name: --json." in lines
    assert any("and 27 more" in line for line in lines)
    assert lines[-1].startswith("Would be created: ")
    assert "690 servers" in lines[-1]


def test_small_pod_is_listed_by_node() -> None:
    """Up to a limit each node and each server has its line."""
    lines = text(MOST_NODES).splitlines()
    assert sum(line.lstrip()[:1].isdigit() and " gpu" in line for line in lines) == MOST_NODES
    assert not any("more servers" in line for line in text(16).splitlines())
