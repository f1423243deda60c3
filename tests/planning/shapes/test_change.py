"""A changed order: what stays, what is added and removed, what is refused; deterministic."""

from __future__ import annotations

import random
from ipaddress import IPv4Network
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.amounts import examples
from tests.helpers.offers import offers
from tests.helpers.paths import EXAMPLES, GOLDEN
from tests.helpers.smallsite import POD_ID, SSH_KEY, order, small_site
from weft.app.drivers import static_capabilities
from weft.app.sitefile import load_site
from weft.model.base import added
from weft.model.errors import ConflictError, InputError
from weft.model.offer import applied, can_apply, fields_of
from weft.model.order import Order
from weft.model.placement import Neighbour, Occupancy, Refusal
from weft.model.plan import Plan, UsedNumbers
from weft.model.resources import Kind
from weft.model.site import Site
from weft.model.specs import PortSpec, SegmentSpec
from weft.planning.shapes.change import make_change
from weft.planning.shapes.changetext import change_text
from weft.planning.shapes.orderdiff import order_change, waiting_change
from weft.planning.shapes.plan import make_plan
from weft.planning.shapes.plantext import plan_text

EMPTY = Occupancy()


def made(ordered: Order, occupancy: Occupancy = EMPTY, site: Site | None = None) -> Plan:
    site = site or small_site()
    found = make_plan(POD_ID, "team-a", ordered, site, occupancy, UsedNumbers(), static_capabilities(site))
    assert isinstance(found, Plan), found
    return found


def changed(plan: Plan, ordered: Order, occupancy: Occupancy = EMPTY, **more: Any) -> Plan:
    """Change the plan as the engine does, where the pod itself holds its nodes."""
    found = refused(plan, ordered, occupancy, **more)
    assert isinstance(found, Plan), found
    return found


def refused(plan: Plan, ordered: Order, occupancy: Occupancy = EMPTY, **more: Any) -> Plan | Refusal:
    own = Neighbour(pod=plan.order.name, project=plan.project, nodes=plan.placement.held)
    busy = {**occupancy.busy, **dict.fromkeys(plan.placement.held, plan.order.name)}
    seen = occupancy.model_copy(update={"busy": busy, "neighbours": (*occupancy.neighbours, own)})
    site = more.pop("site", None) or small_site()
    return make_change(plan, ordered, site, seen, **more)


def names(plan: Plan) -> list[str]:
    return [n.node for n in plan.placement.nodes]


def addresses(plan: Plan) -> dict[str, str]:
    return {r.key: r.spec.address for r in plan.graph.resources if isinstance(r.spec, PortSpec)}


def with_(ordered: Order, part: str, **fields: Any) -> Order:
    return ordered.model_copy(update={part: getattr(ordered, part).model_copy(update=fields)})


class LaterOrder(Order):
    """An order of a later version, with one field more."""

    planted: str = added("")


def test_change_of_a_field_that_is_omitted_at_its_default_is_reported() -> None:
    """From the default to a value and back; a field that can't be changed keeps its old value."""
    plain, own = (LaterOrder(**dict(order()), planted=value) for value in ("", "a value"))
    plan = made(order())
    came = order_change(plan, own, small_site())
    assert [(one.field, one.was, one.value) for one in came.impossible] == [("planted", "none", "a value")]
    assert came.order.name == plan.order.name and "planted" not in came.order.model_dump()
    (went,) = waiting_change(own, plain)
    assert (went.field, went.was, went.becomes) == ("planted", "a value", "none")


def count(ordered: Order, number: int, **more: Any) -> Order:
    return with_(ordered, "nodes", count=number, **more)


def test_machine_segment_needs_its_nodes_servers() -> None:
    """A machine's adapters join the segment once all machines are deployed, with more or fewer nodes."""
    rows = [
        n.model_copy(update={"machine": f"00000000-0000-4000-8000-{i:012}"}) if n.role == "compute" else n
        for i, n in enumerate(small_site().nodes)
    ]
    clouds = {
        name: cloud.model_copy(
            update={
                "flavors": {k: f.model_copy(update={"bare_metal": True}) for k, f in cloud.flavors.items()}
            }
        )
        for name, cloud in small_site().clouds.items()
    }
    site = small_site().model_copy(update={"nodes": tuple(rows), "clouds": clouds})
    plan = made(with_(order(2), "nodes", kind="bare_metal"), site=site)
    for number in (3, 1):
        plan = changed(plan, with_(order(number), "nodes", kind="bare_metal"), site=site)
        (segment,) = (r for r in plan.graph.resources if r.kind is Kind.SEGMENT)
        assert set(segment.needs) == {f"server/{n}" for n in names(plan)} and len(names(plan)) == number


def test_same_order_changes_nothing() -> None:
    """The plan and its generation are the same."""
    first = made(order(3))
    again = changed(first, order(3))
    assert again.change is not None
    assert again.change.nothing
    assert again.generation == 1
    assert again.model_copy(update={"change": None}) == first


@pytest.mark.parametrize(
    "same",
    [
        {"cloud": "main"},
        {"fabric": {"name": "ib"}},
        {"access": {"ssh_from": ["203.0.113.0/24", "9.0.0.0/8"]}},
        {"queue": True},
        {"nodes": {"flavor": None, "accelerators": {"type": "h100", "count": 8}}},
    ],
)
def test_equivalent_order_is_not_a_change(same: dict[str, Any]) -> None:
    """Omitted names are the pod's; the order of sources and `queue` have no effect."""
    first = made(order(2, access={"ssh_from": ["9.0.0.0/8", "203.0.113.0/24"]}))
    parts = {"access": {"ssh_from": ["9.0.0.0/8", "203.0.113.0/24"]}, **same}
    change = changed(first, order(2, **parts)).change
    assert change is not None
    assert change.nothing, change


def test_additional_node_moves_no_other() -> None:
    """The others keep their servers, order and addresses; the new one has the next number."""
    first = made(order(2))
    more = changed(first, order(3))
    assert names(more)[:2] == names(first)
    assert more.generation == 2
    before, after = first.graph.by_key(), more.graph.by_key()
    assert {k for k in before if before[k] != after[k]} == {"partition"}
    new = names(more)[2]
    assert {k for k in after if k not in before} == {k for k in after if new in k}
    assert addresses(more)[f"port/{new}/management"] == "10.16.0.18"
    assert more.placement.nodes[2].leaf == first.placement.nodes[0].leaf


def test_partition_has_exactly_the_desired_nodes() -> None:
    """Grown and shrunk, its members are all adapters of the pod's nodes and no others."""
    site = small_site()
    plan = made(order(2))
    for ordered in (order(5), order(4), order(1)):
        plan = changed(plan, ordered)
        spec = plan.graph.by_key()["partition"].spec
        assert isinstance(spec, SegmentSpec)
        assert [m.port for m in spec.members] == sorted(
            h.port_id for n in names(plan) for h in site.node_by_name[n].hcas
        )


def test_removed_middle_node_keeps_others_addresses() -> None:
    """A freed number stays unused until its node is released."""
    first = made(order(3))
    one, two, three = names(first)
    less = changed(first, order(2), remove=(two,))
    assert names(less) == [one, three]
    assert addresses(less)[f"port/{three}/management"] == addresses(first)[f"port/{three}/management"]
    busy = Occupancy(busy={two: "p"})
    meanwhile = changed(less, order(3), busy, leaving=(two,))
    afterwards = changed(less, order(3), Occupancy(busy={two: "quarantine"}))
    mine, later = addresses(meanwhile), addresses(afterwards)
    new = names(meanwhile)[2]
    assert new == names(afterwards)[2] != two
    assert mine[f"port/{new}/management"] == "10.16.0.19"
    assert later[f"port/{new}/management"] == addresses(first)[f"port/{two}/management"] == "10.16.0.17"


def test_shrinking_leaves_the_pod_most_compact() -> None:
    """With four nodes on one leaf and one elsewhere, the single one is removed; of equal nodes the last by name."""
    taken = {f"gpu{n:02}": "0a" for n in range(6, 17)}
    first = made(order(5), Occupancy(busy=taken))
    assert [n.leaf for n in first.placement.nodes].count("leaf01") == 4
    lone = next(n.node for n in first.placement.nodes if n.leaf != "leaf01")
    less = changed(first, order(4))
    assert set(names(first)) - set(names(less)) == {lone}
    assert less.placement.level == "leaf"
    assert names(changed(less, order(2))) == names(less)[:2]


def test_slices_stay_whole() -> None:
    """Nodes are removed in whole slices, also by name; a count that isn't a multiple is refused."""
    first = made(order(6, locality={"slice": 2}))
    less = changed(first, order(4, locality={"slice": 2}))
    leaves = [n.leaf for n in less.placement.nodes]
    assert all(leaves.count(leaf) % 2 == 0 for leaf in leaves)
    with pytest.raises(InputError, match=r"nodes.count: 5 .*a multiple of the slice \(2\)"):
        changed(first, order(5, locality={"slice": 2}))
    apart = [
        next(n.node for n in first.placement.nodes if n.leaf == leaf)
        for leaf in sorted({n.leaf for n in first.placement.nodes})
    ]
    assert len(apart) == 2
    with pytest.raises(InputError, match=r"remove: .*whole slices of 2 nodes per leaf"):
        changed(first, order(4, locality={"slice": 2}), remove=apart)


def test_spare_is_used_before_a_new_node() -> None:
    """With one node more and one spare less, the spare becomes the node and none is added."""
    first = made(count(order(2), 2, spare=1))
    more = changed(first, count(order(2), 3, spare=0))
    assert set(more.placement.held) == set(first.placement.held)
    assert more.change is not None
    assert more.change.spares_used == tuple(n.node for n in first.placement.spares)
    assert not more.change.nodes_added


def test_spares_are_added_and_removed() -> None:
    """Without changing a server."""
    first = made(order(2))
    more = changed(first, count(order(2), 2, spare=2))
    assert len(more.placement.spares) == 2
    assert more.graph == first.graph
    less = changed(more, count(order(2), 2, spare=1))
    assert less.change is not None
    assert len(less.change.nodes_removed) == 1
    assert names(less) == names(first)


def spare_elsewhere(nodes: int, spares: int) -> tuple[Plan, Order]:
    """A pod whose nodes and spares fill a leaf of four, with one more spare on another leaf; and its order."""
    taken = {f"gpu{n:02}": "0a" for n in range(6, 17)}
    wide = with_(count(order(2), nodes, spare=spares), "locality", required="block")
    first = made(wide, Occupancy(busy=taken))
    assert [s.leaf for s in first.placement.spares].count("leaf01") == spares - 1
    return first, wide


def test_removed_spare_blocks_no_change() -> None:
    """The nodes that stay are on one leaf, so required: leaf is possible only if the spare elsewhere is removed."""
    first, wide = spare_elsewhere(4, 1)
    tight = with_(count(wide, wide.nodes.count, spare=0), "locality", required="leaf", preferred="leaf")
    less = changed(first, tight)
    assert less.placement.level == "leaf" and less.placement.nodes == first.placement.nodes
    with pytest.raises(InputError, match="block or wider"):
        changed(first, with_(tight, "nodes", spare=1))


def test_nearest_spare_becomes_a_node() -> None:
    """The farther spare is the one removed."""
    first, wide = spare_elsewhere(3, 2)
    leaf = first.placement.nodes[0].leaf
    (near,) = [s.node for s in first.placement.spares if s.leaf == leaf]
    first = first.model_copy(
        update={"placement": first.placement.model_copy(update={"spares": first.placement.spares[::-1]})}
    )
    tight = with_(count(wide, wide.nodes.count + 1, spare=0), "locality", required="leaf", preferred="leaf")
    more = changed(first, tight)
    assert more.change is not None and more.change.spares_used == (near,)


def test_refused_growth_has_reason_and_count() -> None:
    """The refusal names the pod's own nodes and the size that would fit."""
    taken = {f"gpu{n:02}": "0a" for n in range(5, 17)}
    first = made(order(2), Occupancy(busy=taken))
    found = refused(first, order(6), Occupancy(busy=taken))
    assert isinstance(found, Refusal)
    assert found.reason.startswith("4 additional nodes for the 2 of the pod: ")
    assert offers(found)[0] == "nodes.count: 4 instead of 6"


@pytest.mark.parametrize(
    ("free", "number", "spare", "fields"),
    [(7, 6, 4, set[str]()), (8, 6, 4, {"nodes.spare"}), (8, 8, 2, {"nodes.count"})],
)
def test_refused_growth_offers_only_possible_changes(
    free: int, number: int, spare: int, fields: set[str]
) -> None:
    """They are changes of the pod's order, not of the added nodes, and the plan can be made with each."""
    busy = Occupancy(busy={f"gpu{n:02}": "0a" for n in range(free + 1, 17)})
    wide = count(order(4, fabric={"hcas_per_node": 1}), 4, spare=2)
    wide = with_(wide, "locality", slice=2)
    first = made(wide, busy)
    more = count(wide, number, spare=spare)
    found = refused(first, more, busy)
    assert isinstance(found, Refusal)
    assert {field for offer in found.would_fit for field in fields_of(offer)} == fields
    possible = [offer for offer in found.would_fit if can_apply(offer)]
    assert bool(possible) == bool(fields)
    for offer in possible:
        assert isinstance(refused(first, applied(more, offer), busy), Plan)


def test_offered_spares_are_the_pods_total() -> None:
    """With one spare, and one more fitting of two, the offer is two and not one."""
    busy = Occupancy(busy={f"gpu{n:02}": "0a" for n in range(6, 17)})
    first = made(count(order(2), 2, spare=1), busy)
    more = count(order(2), 3, spare=3)
    found = refused(first, more, busy)
    assert isinstance(found, Refusal)
    assert "nodes.spare: 2 instead of 3" in offers(found)
    (offer,) = [x for x in found.would_fit if fields_of(x) == ("nodes.spare",)]
    assert changed(first, applied(more, offer), busy).change is not None


def test_too_small_subnet_refuses_growth() -> None:
    """A given small subnet doesn't grow while servers are on it; the sentence has its size."""
    ordered = order(2, network={"management": "10.9.0.0/27"})
    first = made(ordered)
    ordered = count(ordered, 14)
    found = refused(first, count(ordered, 16))
    assert isinstance(found, Refusal)
    assert (
        "subnet 10.9.0.0/27 of the pod's management network has 32 addresses, and 33 are needed"
        in found.reason
    )


def test_growth_stays_inside_the_required_level() -> None:
    """Unless the same change widens the level."""
    strict = order(3, locality={"required": "leaf"})
    first = made(strict)
    assert isinstance(refused(first, count(strict, 5)), Refusal)
    wider = changed(first, order(5, locality={"required": "site"}))
    assert len(names(wider)) == 5
    with pytest.raises(
        InputError, match=r"locality.required: 'leaf' .*its nodes are within one (block|site)"
    ):
        changed(wider, order(5, locality={"required": "leaf"}))


def nvl(size: int) -> Site:
    """The small site with NVLink domains of this many nodes on each leaf: nvl1, nvl2 …."""
    nodes = (
        n.model_copy(update={"nvlink_domain": f"nvl{1 + i // size}"}) if n.role == "compute" else n
        for i, n in enumerate(small_site().nodes)
    )
    return small_site().model_copy(update={"nodes": tuple(nodes)})


def test_growth_stays_inside_the_nvlink_domain() -> None:
    """Another node of the domain, though the leaf has others; beyond it the refusal has the most that fit."""
    site = nvl(2)
    plan = made(order(1, locality={"required": "nvlink_domain"}), site=site)
    assert plan.placement.level == "node"
    grown = changed(plan, count(plan.order, 2), site=site)
    assert {n.nvlink_domain for n in grown.placement.nodes} == {plan.placement.nodes[0].nvlink_domain}
    assert grown.placement.level == "nvlink_domain"
    found = refused(grown, count(plan.order, 3), site=site)
    assert isinstance(found, Refusal)
    assert "at most 0 of the 1 within one nvlink_domain" in found.reason


def test_whole_domains_are_added_and_removed_whole() -> None:
    """To remove one node, which would leave part of a group, is refused."""
    site = nvl(2)
    plan = made(order(2, locality={"slice": 2, "slice_within": "whole_nvlink_domain"}), site=site)
    busy = Occupancy(busy={"gpu03": "other"})
    grown = changed(plan, count(plan.order, 4), busy, site=site)
    assert names(grown)[:2] == names(plan)
    domains = [n.nvlink_domain for n in grown.placement.nodes]
    assert domains[0] == domains[1] != domains[2] == domains[3]
    assert "nvl2" not in domains
    with pytest.raises(
        InputError, match="whole slices of 2 nodes per NVLink domain; 1 node would be left in nvl"
    ):
        refused(grown, count(plan.order, 2), site=site, remove=(names(grown)[0], names(grown)[2]))


def test_renamed_domain_does_not_move_the_pod() -> None:
    """A corrected site moves no node; if it has no domains any more, a change of an order inside one is refused."""
    plan = made(order(2, locality={"required": "nvlink_domain"}), site=nvl(4))
    same = changed(plan, with_(plan.order, "access", ssh_from=()), site=nvl(2))
    assert names(same) == names(plan)
    with pytest.raises(InputError, match="the site describes no NVLink domains there"):
        refused(plan, count(plan.order, 3))


def test_plan_shows_domains_and_rails() -> None:
    """A further column if the site has domains, and which switches a leaf consists of."""
    plan = made(order(2), site=nvl(2))
    text = plan_text(plan)
    assert "block  NVLink domain" in text
    assert "nvl1" in text
    assert "Rails" not in text
    rails = {"leaf01": ("leaf01", "leaf02")}
    shown = plan.model_copy(update={"placement": plan.placement.model_copy(update={"rails": rails})})
    assert "Leaf leaf01 is 2 rails: leaf01, leaf02" in plan_text(shown)
    assert "NVLink" not in plan_text(made(order(2)))


def test_growth_respects_other_projects_leaves() -> None:
    """A leaf closed to other projects is closed to a pod that grows too."""
    theirs = Neighbour(pod="0x", project="team-b", nodes=("gpu04",), exclusive=True)
    seen = Occupancy(busy={"gpu04": "0x"}, neighbours=(theirs,))
    first = made(order(2))
    assert first.placement.nodes[0].leaf == "leaf01"
    more = changed(first, order(3), seen)
    assert more.placement.nodes[2].leaf != "leaf01"


@pytest.mark.parametrize(
    ("parts", "field", "says"),
    [
        ({"nodes": {"image": "other"}}, "nodes.image", "set when servers are created"),
        ({"nodes": {"image": "ubuntu", "flavor": "h100.8.big"}}, "nodes.flavor", "flavors of cloud main"),
        ({"access": {"ssh_key": SSH_KEY}}, "access.ssh_key", "authorized_keys"),
        ({"access": {"user_data": "#cloud-config"}}, "access.user_data", "cloud-init runs once"),
        ({"network": {"rdma": "10.9.0.0/24"}}, "network.rdma", "servers have addresses in it"),
        (
            {"fabric": {"hcas_per_node": 2}},
            "fabric.hcas_per_node",
            "it can't be changed on an existing pod",
        ),
        ({"locality": {"exclusive": True}}, "locality.exclusive", "release the pod and order it again"),
        ({"lease": {"start": "2027-01-01T00:00Z"}}, "lease.start", "it has started"),
    ],
)
def test_impossible_change_is_reported_with_a_way_out(parts: dict[str, Any], field: str, says: str) -> None:
    """One sentence for each field, and the plan shows everything else that would change."""
    try:
        found = changed(
            made(order(2)), order(2, **{**parts, "nodes": {"count": 3, **parts.get("nodes", {})}})
        )
    except InputError as error:  # the site doesn't have the name
        assert (error.field, says in error.allowed) == (field, True)
        return
    assert found.change is not None
    assert [i.field for i in found.change.impossible] == [field]
    assert says in found.change.impossible[0].allowed
    assert len(found.change.nodes_added) == 1


def test_access_is_changed_without_recreating_servers() -> None:
    """Other SSH sources change one security group, and a floating IP adds its router."""
    first = made(order(2))
    sources = changed(first, order(2, access={"ssh_from": ["9.0.0.0/8"]}))
    assert sources.change is not None
    assert [(c.key, c.field, c.was, c.becomes) for c in sources.change.changed] == [
        ("security_group", "ssh_from", "none", "9.0.0.0/8")
    ]
    floating = changed(first, order(2, access={"floating_ip": "first"}))
    assert floating.change is not None
    assert floating.change.added == ("router", f"floating_ip/{names(first)[0]}")
    assert [(c.key, c.field, c.becomes) for c in floating.change.changed] == [
        ("subnet/management", "gateway", "yes")
    ]
    back = changed(floating, order(2))
    assert back.change is not None
    assert {r.key for r in back.change.removed} == set(floating.change.added)
    assert back.graph == first.graph


def test_new_site_or_version_rebuilds_nothing() -> None:
    """After a change of a Nova host's or an adapter's name existing resources stay as created."""
    site = small_site()
    first = made(order(2))
    one = site.node_by_name[names(first)[0]]
    hcas = tuple(h.model_copy(update={"name": f"new_{i}"}) for i, h in enumerate(one.hcas))
    other = one.model_copy(update={"nova_host": "renamed", "hcas": hcas})
    renamed = {f"{one.name}/{h.name}": f"{one.name}/new_{i}" for i, h in enumerate(one.hcas)}
    links = tuple(
        x.model_copy(update={"a": renamed.get(x.a, x.a), "b": renamed.get(x.b, x.b)}) for x in site.links
    )
    nodes = tuple(other if n.name == one.name else n for n in site.nodes)
    new = site.model_copy(update={"nodes": nodes, "links": links})
    more = changed(first, order(2, access={"ssh_from": ["9.0.0.0/8"]}), site=new)
    before, after = first.graph.by_key(), more.graph.by_key()
    assert {k for k in before if before[k] != after.get(k)} == {"security_group"}
    assert before.keys() == after.keys()


@pytest.mark.parametrize(
    ("number", "remove", "says"),
    [
        (3, ("gpu99",), None),
        (2, ("gpu99",), "nodes of the pod: gpu01, gpu02, gpu03"),
        (2, ("gpu01", "gpu02"), "1 node, since nodes.count goes from 3 to 2"),
        (3, ("gpu01",), "0 nodes, since nodes.count goes from 3 to 3"),
        (4, ("gpu01",), "0 nodes, since nodes.count goes from 3 to 4"),
    ],
)
def test_names_to_remove_must_match_the_count(number: int, remove: tuple[str, ...], says: str | None) -> None:
    """Too many names or an unknown one are refused; repeating a finished change does nothing."""
    first = made(order(3))
    if says is None:
        assert changed(first, order(number), remove=remove).generation == 1
        return
    with pytest.raises(InputError) as caught:
        changed(first, order(number), remove=remove)
    assert caught.value.field == "remove"
    assert caught.value.allowed == says


def test_node_missing_from_the_site_is_a_conflict_unless_removed() -> None:
    """While it stays in the pod nothing can be computed."""
    first = made(order(3))
    gone = names(first)[1]
    site = small_site()
    less = site.model_copy(
        update={
            "nodes": tuple(n for n in site.nodes if n.name != gone),
            "links": tuple(
                x for x in site.links if gone not in (x.a.partition("/")[0], x.b.partition("/")[0])
            ),
        }
    )
    with pytest.raises(ConflictError, match=f"node {gone} of pod p is no longer in site small"):
        changed(first, order(4), site=less)
    assert gone not in names(changed(first, order(2), site=less, remove=(gone,)))


@settings(max_examples=examples(25))
@given(st.randoms(use_true_random=False), st.lists(st.integers(1, 14), min_size=1, max_size=8))
def test_resizes_keep_staying_nodes_unchanged(chance: random.Random, sizes: list[int]) -> None:
    """After any resizes they keep their resources, and addresses are unique."""
    plan = made(order(2))
    for size in sizes:
        leaving = [n for n in plan.allotment.hosts if n not in names(plan) and chance.random() < 0.5]
        busy = Occupancy(busy=dict.fromkeys(leaving, "p"))
        found = refused(plan, order(size), busy, leaving=leaving)
        if isinstance(found, Refusal):
            continue
        assert found == refused(plan, order(size), busy, leaving=leaving)
        stay = set(names(plan)) & set(names(found))
        old, new = plan.graph.by_key(), found.graph.by_key()
        mine = [k for k in old if k.partition("/")[2].partition("/")[0] in stay]
        assert mine
        assert all(old[k] == new[k] for k in mine)
        used = list(addresses(found).values())
        assert len(used) == len(set(used))
        kept = {found.allotment.hosts[n] for n in names(found)} if found.allotment.hosts else set(range(size))
        assert not kept & {plan.allotment.hosts[n] for n in leaving}
        assert sum(r.kind is Kind.SERVER for r in found.graph.resources) == size == len(names(found))
        assert Plan.model_validate_json(found.model_dump_json()) == found
        plan = found.model_copy(update={"change": None})


GOLDENS: dict[str, tuple[dict[str, Any], dict[str, Any], tuple[str, ...]]] = {
    "grow": ({"count": 3}, {"count": 5, "access": {"ssh_from": ["203.0.113.0/24"]}}, ()),
    "shrink": ({"count": 5, "nodes": {"spare": 1}}, {"count": 3}, ("gpu02",)),
    "floating": ({"count": 2}, {"count": 2, "access": {"floating_ip": "each"}}, ()),
    "impossible": (
        {"count": 2},
        {"count": 3, "nodes": {"image": "rocky"}, "fabric": {"hcas_per_node": 1}},
        (),
    ),
    "same": ({"count": 2}, {"count": 2}, ()),
}


@pytest.mark.parametrize("name", GOLDENS)
def test_difference_text_matches_golden_files(name: str, update_golden: bool) -> None:
    """Byte for byte the text under tests/golden."""
    before, after, remove = GOLDENS[name]
    found = change_text(changed(made(order(**before)), order(**after), remove=remove))
    golden = GOLDEN / f"change-{name}.txt"
    if update_golden:
        golden.write_text(found)
    assert found == golden.read_text()


def test_ipu_pod_can_change_only_access() -> None:
    """Access and lease change in place; its IPUs and Poplar servers can't change."""
    site = load_site(EXAMPLES / "sites" / "ipupod64" / "site.yaml")
    nodes = {"count": 2, "flavor": "poplar", "image": "ubuntu"}
    ordered = Order.model_validate({"name": "bert", "ipus": {"count": 16}, "nodes": nodes})
    first = made(ordered, site=site)
    found = changed(first, with_(ordered, "access", ssh_from=(IPv4Network("9.0.0.0/8"),)), site=site)
    assert found.change is not None
    assert [(c.key, c.field) for c in found.change.changed] == [("security_group", "ssh_from")]
    assert not found.change.added
    assert not found.change.removed
    assert found.placement == first.placement
    larger = changed(first, count(ordered, ordered.nodes.count + 1), site=site)
    assert larger.change is not None
    assert [i.field for i in larger.change.impossible] == ["nodes.count"]
