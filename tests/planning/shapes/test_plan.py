"""An order, a site and a state give one plan, byte for byte, or a refusal with its reason."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.amounts import examples
from tests.helpers.offers import offers
from tests.helpers.paths import EXAMPLES, GOLDEN
from tests.helpers.smallsite import POD_ID, order, small_site, two_fabrics
from weft.app.drivers import static_capabilities
from weft.app.orderfile import load_order
from weft.app.shown import shown as shown_to_tenants
from weft.app.sitefile import load_site
from weft.model.errors import InputError
from weft.model.fabric import Capabilities
from weft.model.offer import applied, fields_of
from weft.model.order import Order
from weft.model.placement import Neighbour, Occupancy, Refusal
from weft.model.plan import Plan, UsedNumbers
from weft.model.site import AcceleratorCount, Flavor, Site
from weft.planning.shapes.plan import NOT_ORDERED, make_plan
from weft.planning.shapes.plantext import plan_text, refusal_text

ORDERS = sorted((EXAMPLES / "pods").glob("*.yaml"))
BUSY = Occupancy(
    busy={"gpu01": "0a", "gpu02": "0a", "gpu05": "0b"},
    quarantined={"gpu09": "port 3 was not seen clean"},
    neighbours=(
        Neighbour(pod="0a", project="team-a", nodes=("gpu01", "gpu02"), bisection_gbps=50),
        Neighbour(pod="0b", project="team-b", nodes=("gpu05",)),
    ),
)
USED = UsedNumbers(
    segments={"ib": frozenset({101, 102})},
    vlans={"main": frozenset({1000})},
    rdma_cidrs={"main": frozenset({"10.128.0.0/24"})},
    management_cidrs={"main": frozenset({"10.16.0.0/24"})},
)


def plan(ordered: Order, site: Site | None = None, **state: Any) -> Plan | Refusal:
    site = site or small_site()
    return make_plan(
        state.get("pod_id", NOT_ORDERED),
        "team-a",
        ordered,
        site,
        state.get("occupancy", Occupancy()),
        state.get("used", UsedNumbers()),
        state.get("capabilities", static_capabilities(site)),
    )


def text(ordered: Order, **state: Any) -> str:
    found = plan(ordered, **state)
    return refusal_text(ordered.name, found) if isinstance(found, Refusal) else plan_text(found)


@pytest.mark.parametrize("path", ORDERS, ids=lambda p: p.stem)
@pytest.mark.parametrize("state", ["empty", "busy"])
def test_example_orders_give_the_golden_plans(path: Path, state: str, update_golden: bool) -> None:
    """Each numbered example, on the small site (IPUs: on an IPU-POD64's) when empty and with other pods, gives the text
    under tests/golden.
    """
    what: dict[str, Any] = {"occupancy": BUSY, "used": USED} if state == "busy" else {}
    order = load_order(path)
    if order.ipus is not None:
        what["site"] = load_site(EXAMPLES / "sites" / "ipupod64" / "site.yaml")
    found = text(order, **what)
    golden = GOLDEN / f"plan-{path.stem}-{state}.txt"
    if update_golden:
        golden.write_text(found)
    assert found == golden.read_text()


@settings(max_examples=examples(20))
@given(st.randoms(use_true_random=False), st.integers(1, 12))
def test_plan_is_independent_of_row_order(chance: random.Random, count: int) -> None:
    """Shuffled nodes, adapters, switches, links and racks give the same text and JSON, byte for byte."""
    document = small_site().model_dump(mode="json")
    for node in document["nodes"]:
        chance.shuffle(node["hcas"])
        chance.shuffle(node["accelerators"])
    for table in ("nodes", "switches", "links", "racks"):
        chance.shuffle(document[table])
    for link in document["links"]:
        if chance.random() < 0.5:
            link |= {"a": link["b"], "b": link["a"], "a_port": link["b_port"], "b_port": link["a_port"]}
    shuffled = load_site(document)
    ordered = order(count, locality={"required": "site", "preferred": "leaf"})
    one, other = plan(ordered, occupancy=BUSY), plan(ordered, shuffled, occupancy=BUSY)
    assert one.model_dump_json() == other.model_dump_json()


def test_plan_survives_json_round_trip() -> None:
    """What the engine stores and the API sends is read back as the same plan."""
    found = plan(order(3, access={"floating_ip": "first"}), pod_id=POD_ID)
    assert isinstance(found, Plan)
    assert Plan.model_validate_json(found.model_dump_json()) == found
    assert found.pod_id == POD_ID


def test_plan_avoids_taken_nodes_and_numbers() -> None:
    """Busy and quarantined nodes and used numbers aren't used."""
    found = plan(order(8), occupancy=BUSY, used=USED)
    assert isinstance(found, Plan)
    nodes = {n.node for n in found.placement.nodes}
    assert not nodes & {*BUSY.busy, *BUSY.quarantined}
    numbers = found.allotment
    assert (found.segment, found.vlan, numbers.rdma_cidr, numbers.management_cidr) == (
        103,
        1001,
        "10.128.1.0/24",
        "10.16.1.0/24",
    )


def test_accelerators_take_the_smallest_flavor_that_has_them() -> None:
    """3 of h100 fit into h100.4, 5 only into h100.8; a flavor that is named is used unchanged."""
    for wanted, flavor in ((1, "h100.4"), (4, "h100.4"), (5, "h100.8"), (8, "h100.8")):
        found = plan(order(1, nodes={"flavor": None, "accelerators": {"type": "h100", "count": wanted}}))
        assert isinstance(found, Plan)
        assert found.flavor == flavor
    found = plan(order(1, nodes={"flavor": "h100.4"}))
    assert isinstance(found, Plan)
    assert found.flavor == "h100.4"


@pytest.mark.parametrize(
    ("parts", "sentence"),
    [
        ({"cloud": "west"}, "cloud: 'west' is not allowed: clouds of site small: main"),
        ({"nodes": {"flavor": "m1.tiny"}},
         "nodes.flavor: 'm1.tiny' is not allowed: flavors of cloud main: h100.4, h100.8"),
        ({"nodes": {"flavor": None, "accelerators": {"type": "h100", "count": 16}}},
         "nodes.accelerators: '16 x h100' is not allowed: no flavor of cloud main has them; "
         "its flavors have: 4 x h100, 8 x h100"),
        ({"nodes": {"flavor": None, "accelerators": {"type": "b200", "count": 1}}},
         "nodes.accelerators: '1 x b200' is not allowed: no flavor of cloud main has them; "
         "its flavors have: 4 x h100, 8 x h100"),
        ({"fabric": {"name": "roce"}}, "fabric.name: 'roce' is not allowed: fabrics of site small: ib"),
    ],
)  # fmt: skip
def test_unknown_name_is_an_input_error(parts: dict[str, Any], sentence: str) -> None:
    """One sentence with the field, the value and the names that exist."""
    with pytest.raises(InputError) as caught:
        plan(order(1, **parts))
    assert str(caught.value) == sentence


def test_ambiguous_fabric_must_be_named() -> None:
    """With two fabrics on the nodes the refusal has both names; a named one has only its own adapters."""
    site = two_fabrics()
    with pytest.raises(InputError) as caught:
        plan(order(1), site)
    assert str(caught.value) == ("fabric.name: missing: suitable nodes are on several fabrics: ib, ib2")
    found = plan(order(2, fabric={"name": "ib2"}), site)
    assert isinstance(found, Plan)
    assert {k for k in found.graph.by_key() if k.startswith("port/gpu01")} == {
        "port/gpu01/management",
        "port/gpu01/mlx5_2",
        "port/gpu01/mlx5_3",
    }


def test_only_fabrics_of_suitable_nodes_count() -> None:
    """Other nodes on another fabric don't make the order ambiguous."""
    site = small_site()
    nodes = tuple(
        n.model_copy(
            update={"accelerators": (), "hcas": tuple(h.model_copy(update={"fabric": "x"}) for h in n.hcas)}
        )
        if n.name == "gpu16"
        else n
        for n in site.nodes
    )
    other = site.model_copy(update={"nodes": nodes, "fabrics": site.fabrics | {"x": site.fabrics["ib"]}})
    found = plan(order(1), other)
    assert isinstance(found, Plan)
    assert found.fabric == "ib"


def test_order_without_suitable_fabric_is_refused() -> None:
    """No node has the accelerators of the flavor, so there is no fabric to choose."""
    site = small_site()
    cloud = site.clouds["main"]
    flavors = cloud.flavors | {"b200.8": Flavor(accelerators=AcceleratorCount(type="b200", count=8))}
    without = site.model_copy(update={"clouds": {"main": cloud.model_copy(update={"flavors": flavors})}})
    with pytest.raises(InputError, match="no node of cloud main that fits the order is on a fabric"):
        plan(order(1, nodes={"flavor": "b200.8"}), without)


@pytest.mark.parametrize(
    ("capabilities", "why"),
    [
        ({}, "what its manager can do is not known"),
        (
            {"ib": Capabilities(virtual_functions=False, why_no_virtual_functions="it has no vports")},
            "it has no vports",
        ),
        (
            {"ib": Capabilities(virtual_functions=True)},
            "the site describes no virtual functions",
        ),
    ],
)  # fmt: skip
def test_shared_adapters_are_refused_with_the_fabrics_reason(
    capabilities: dict[str, Capabilities], why: str
) -> None:
    """The manager's reason, and the way out."""
    found = plan(order(1, fabric={"hcas": "shared"}), capabilities=capabilities)
    assert isinstance(found, Refusal)
    assert found.reason == f"shared adapters are not possible on fabric ib: {why}"
    assert offers(found) == ("fabric.hcas: dedicated instead of shared",)


def test_refused_shared_adapters_offer_whole_nodes() -> None:
    """Dedicated adapters alone would be no valid order, so the fields change together, and the result is planned."""
    nodes = {"count": 1, "flavor": "h100.8", "image": "tiny", "sharing": "shared"}
    asked = order(1, nodes=nodes, fabric={"hcas": "shared"})
    found = plan(asked)
    assert isinstance(found, Refusal)
    (offer,) = found.would_fit
    assert fields_of(offer) == ("fabric.hcas", "nodes.sharing")
    assert isinstance(plan(applied(asked, offer)), Plan)


def test_too_many_nodes_are_refused_with_offers() -> None:
    """17 of 16 nodes: the refusal says how many would fit; exhausted numbers likewise."""
    found = plan(order(17))
    assert isinstance(found, Refusal)
    assert "16" in found.reason
    assert any("16" in change for change in offers(found))
    none_left = UsedNumbers(segments={"ib": frozenset(range(101, 227))})
    assert isinstance(plan(order(1), used=none_left), Refusal)


def test_tenant_view_of_plan_has_text() -> None:
    """Without GUIDs, hosts and other nodes' reasons the text is correct; taken nodes are one sum."""
    found = plan(order(2), occupancy=BUSY)
    assert isinstance(found, Plan)
    shown = plan_text(shown_to_tenants(found))
    assert "0x65 on fabric ib\n" in shown
    assert "0 full members" not in shown
    assert re.search(r"busy +6 +12\n", shown)
    assert "held by" not in shown
    assert "full members" in plan_text(found)


def test_input_error_precedes_lack_of_capacity() -> None:
    """An invalid order that is also too large gets the input error."""
    with pytest.raises(InputError, match=r"network.rdma: '10.0.0.0/30' .* 17 nodes need 19 addresses"):
        plan(order(17, network={"rdma": "10.0.0.0/30"}))


def test_more_adapters_than_any_node_has_are_refused() -> None:
    """The filter `fabric` removes all nodes, since none has 9 adapters."""
    found = plan(order(1, fabric={"hcas_per_node": 9}))
    assert isinstance(found, Refusal)
    assert {f.filter: f.removed for f in found.explanation.filters}["fabric"] == 16


def test_order_preferences_are_respected() -> None:
    """Slices and preferences of the order reach the placement, and its sentence has their cost."""
    avoid = {"kind": "leaf", "name": "leaf01", "cost": 500}
    found = plan(order(2, locality={"slice": 2, "preferences": [avoid]}))
    assert isinstance(found, Plan)
    assert {n.leaf for n in found.placement.nodes} == {"leaf02"}
    assert "preferences cost 0 of 1" in found.placement.explanation.chosen
    with pytest.raises(InputError, match=r"count: 3 is not allowed: a multiple of the slice \(2\)"):
        plan(order(3, locality={"slice": 2}))


def test_spares_are_not_in_the_graph() -> None:
    """The graph is the same with and without them; the plan has them in its placement and reads them back."""
    without, with_spare = plan(order(count=3)), plan(with_(order(count=3), "nodes", spare=1))
    assert isinstance(without, Plan) and isinstance(with_spare, Plan)
    assert with_spare.graph == without.graph and with_spare.placement.nodes == without.placement.nodes
    (spare,) = with_spare.placement.spares
    assert spare.node not in {n.node for n in with_spare.placement.nodes}
    assert with_spare.placement.held == (*(n.node for n in with_spare.placement.nodes), spare.node)
    again = Plan.model_validate(with_spare.model_dump(mode="json"))
    assert again == with_spare
    assert shown_to_tenants(with_spare).placement.spares == (spare,)


@pytest.mark.parametrize(
    ("part", "fields", "sentence"),
    [
        ("nodes", {"spare": 1}, "nodes.spare: 1 is not allowed: a multiple of the slice (3)"),
        (
            "locality",
            {"apart_from": ("team-a",)},
            "locality.apart_from: 'team-a' is not allowed: other projects",
        ),
    ],
)
def test_shared_nodes_exclude_spares_and_slices(part: str, fields: dict[str, Any], sentence: str) -> None:
    """One sentence with field, value and what is allowed."""
    ordered = with_(order(count=3), "locality", slice=3)
    with pytest.raises(InputError) as caught:
        plan(with_(ordered, part, **fields))
    assert str(caught.value).startswith(sentence)


def test_order_of_an_earlier_version_reads_the_same() -> None:
    """New fields that a stored plan doesn't have get their defaults, which change nothing."""
    found = plan(order(count=2))
    assert isinstance(found, Plan)
    document = found.model_dump(mode="json")
    del document["order"]["nodes"]["spare"], document["order"]["fabric"]["bisection_gbps"]
    del document["order"]["locality"]["exclusive"], document["order"]["locality"]["apart_from"]
    del document["placement"]["spares"]
    assert Plan.model_validate(document) == found


def with_(ordered: Order, part: str, **fields: Any) -> Order:
    return ordered.model_copy(update={part: getattr(ordered, part).model_copy(update=fields)})


def test_ethernet_site_example_is_planned() -> None:
    """Whole adapters are on GPU nodes, on leaves of a pair; virtual functions are on the host with the bond."""
    site = load_site(EXAMPLES / "sites" / "roce" / "site.yaml")
    can = static_capabilities(site)

    def planned(hcas: str = "dedicated", **nodes: Any) -> Plan:
        asked = load_order({"name": "p", "nodes": {"image": "ubuntu", **nodes}, "fabric": {"hcas": hcas}})
        made = make_plan(POD_ID, "team-a", asked, site, Occupancy(), UsedNumbers(), can)
        assert isinstance(made, Plan), made
        return made

    assert planned(count=4, flavor="h100.4").placement.held == ("gpu01", "gpu02", "gpu03", "gpu04")
    assert planned(count=8, flavor="h100.4").placement.held == tuple(f"gpu0{n}" for n in range(1, 9))
    shared = planned("shared", count=2, sharing="shared", flavor="l40.1")
    assert shared.placement.held == ("vm01",)
