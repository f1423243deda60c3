"""Pods of whole nodes with their own accelerators and adapters, on one fabric or on none."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from weft.model.change import Replacement
from weft.model.errors import InputError
from weft.model.fabric import OMNIPATH, Capabilities
from weft.model.fabrictypes import FabricKind
from weft.model.ipuorder import PodIpus
from weft.model.localityorder import Level
from weft.model.messages.message import Message
from weft.model.messages.orders import instead
from weft.model.offer import Offer, offered
from weft.model.order import Order
from weft.model.placement import Occupancy, Refusal
from weft.model.plan import Plan, UsedNumbers
from weft.model.resources import Graph
from weft.model.site import AcceleratorCount, Fabric, Node, Site
from weft.model.specs import NetworkSpec, SegmentSpec
from weft.planning.fabric.segments import allot, check_given
from weft.planning.fabric.topology import NO_FABRIC
from weft.planning.kept import kept
from weft.planning.place.ask import Ask
from weft.planning.place.placement import place
from weft.planning.queue.capacityrow import CapacityRow
from weft.planning.queue.queue import QueueSettings
from weft.planning.shapes.gpu.elsewhere import elsewhere
from weft.planning.shapes.gpu.graph import RDMA_NETWORK, has_segment, podgraph
from weft.planning.shapes.gpu.limits import limits_of
from weft.planning.shapes.gpu.members import members
from weft.planning.shapes.gpu.nodescapacity import nodes_rows
from weft.planning.shapes.gpu.possible import not_possible
from weft.planning.shapes.gpu.reassign import reassign
from weft.planning.shapes.gpu.replacing import replace_node
from weft.planning.shapes.gpu.request import boot_key, least_hcas, request_of
from weft.planning.shapes.shape import (
    Assignment,
    CapacityAsked,
    ChangedPod,
    Elsewhere,
    Line,
    LineAsked,
    Needs,
    Resolved,
)
from weft.planning.shapes.timelines import TimelineLine
from weft.planning.words import one_of

CHANGEABLE = frozenset(
    {
        "nodes.count",
        "nodes.spare",
        "locality.required",
        "locality.preferred",
        "locality.preferences",
        "access.ssh_from",
        "access.floating_ip",
        "network.router",
        "storage",
        "lease.end",
        "lease.duration",
        "on_drain",
        "on_failure",
        "verify",
        "verify_floor",
    }
)


class GpuShape:
    """See `weft.planning.shapes.shape.Shape`, and the module's docstring."""

    name = "nodes"
    units = "nodes"
    shares_nodes = False
    changeable = CHANGEABLE
    fixed: Mapping[str, str] = {}
    columns = ("#", "node", "rack", "leaf", "block")

    def limits(self, plan: Plan) -> Iterator[str]:
        return limits_of(plan)

    def count(self, order: Order) -> int:
        return order.nodes.count + order.nodes.spare

    def is_of(self, order: Order) -> bool:
        return True  # every order that no other shape takes

    def resolved(self, order: Order, project: str, site: Site, cloud: str, flavor: str) -> Resolved:
        chosen = site.clouds[cloud].flavors[flavor]
        accelerators = chosen.accelerators
        if chosen.bare_metal != (order.nodes.kind == "bare_metal"):
            of = "whole machines" if chosen.bare_metal else "virtual machines"
            raise InputError("nodes.kind", order.nodes.kind, f"flavor {flavor} is one of {of}")
        return Resolved(
            order=order,
            project=project,
            site=site,
            shape=self,
            cloud=cloud,
            flavor=flavor,
            accelerators=accelerators,
            fabric=resolve_fabric(order, site, cloud, accelerators),
            boots=boot_key(cloud, project, order.nodes.image, flavor),
        )

    def as_placed(self, order: Order, plan: Plan) -> Order:
        if not order.fabric.rdma or order.fabric.name is not None:
            return order
        return order.model_copy(update={"fabric": order.fabric.model_copy(update={"name": plan.fabric})})

    # -- in time

    def place_of(self, order: Resolved) -> str:
        return order.fabric

    def ask(self, order: Resolved) -> Ask:
        return Ask.of(request_of(order))

    def line(self, asked: LineAsked) -> Line:
        return TimelineLine(
            lambda book: book.timeline(asked.site, asked.name, asked.health, asked.now),
            asked,
            QueueSettings.of(asked.site.queue),
            self.units,
        )

    def adds(self, order: Resolved, nodes: Iterable[str], has: Collection[str]) -> int:
        return order.ask.counted

    # -- the plan

    def plan(
        self,
        pod_id: str,
        order: Resolved,
        occupancy: Occupancy,
        used: UsedNumbers,
        capabilities: Mapping[str, Capabilities],
    ) -> Plan | Refusal:
        asked, site, cloud, fabric = order.order, order.site, order.cloud, order.fabric
        segmented = has_segment(asked, site, fabric)
        if not segmented and asked.network.rdma is not None:
            why = f"on fabric {fabric}" if asked.fabric.rdma else "with fabric none"
            allowed = instead("must be omitted: {why} the pod has no RDMA network", why=why)
            raise InputError("network.rdma", str(asked.network.rdma), allowed)
        # Errors of the order itself are reported even without capacity, assuming the minimum number of adapters.
        check_given(asked.network, asked.nodes.count, least_hcas(asked))
        can = capabilities.get(fabric)
        refused = not_possible(order, can)
        if refused is not None:
            return refused
        placement = place(request_of(order), site, occupancy)
        if isinstance(placement, Refusal):
            return placement
        inside = members(asked, placement.nodes, site, fabric)
        rails = max(len(m.hcas) for m in inside)
        numbered = fabric if segmented else None
        allotment = allot(site, cloud, numbered, asked.network, used, len(inside), rails)
        if isinstance(allotment, Refusal):
            return allotment
        return Plan(
            pod_id=pod_id,
            project=order.project,
            site=site.name,
            order=asked,
            cloud=cloud,
            fabric=fabric,
            flavor=order.flavor,
            placement=placement,
            allotment=allotment,
            graph=podgraph(pod_id, asked, placement, allotment, site, cloud, fabric, order.flavor),
            limits=_limits(order, can),
        )

    def is_full(self, refusal: Refusal) -> bool:
        return bool(refusal.explanation.filters)

    def fewer(self, order: Order, most: int) -> Offer | None:
        return offered("nodes.count", order.nodes.count, most)

    def cut(self, plan: Plan) -> dict[str, str]:
        given, numbers = plan.order.network, plan.allotment
        cut = {"rdma": numbers.rdma_cidr} if given.rdma is None and numbers.rdma_cidr else {}
        return cut | ({"management": numbers.management_cidr} if given.management is None else {})

    # -- a change of the order

    def reassign(self, pod: ChangedPod, remove: Collection[str]) -> Assignment | Refusal:
        return reassign(pod.plan, self._resolved(pod), pod.occupancy, pod.leaving, remove)

    def _resolved(self, pod: ChangedPod) -> Resolved:
        return self.resolved(pod.order, pod.plan.project, pod.site, pod.plan.cloud, pod.plan.flavor)

    def why_kept(self, order: Order) -> Message | None:
        return None

    def replace(self, pod: ChangedPod, asked: Replacement) -> Assignment | Refusal:
        return replace_node(pod.plan, self._resolved(pod), pod.occupancy, pod.leaving, asked)

    def elsewhere(self, pod: ChangedPod, lost: Collection[str]) -> Elsewhere | Refusal:
        return elsewhere(pod.plan, self._resolved(pod), pod.occupancy, lost)

    def graph(self, plan: Plan, site: Site) -> Graph:
        where = plan.cloud, plan.fabric, plan.flavor
        return podgraph(plan.pod_id, plan.order, plan.placement, plan.allotment, site, *where)

    # -- for people

    def headline(self, plan: Plan) -> str:
        locality, placement = plan.order.locality, plan.placement
        spare = f" and {len(placement.spares)} spare" if placement.spares else ""
        on = f"on fabric {plan.fabric}" if plan.order.fabric.rdma else "on no fabric"
        where = f"cloud {plan.cloud} {on}, flavor {plan.flavor}"
        return (
            f"Nodes: {len(placement.nodes)}{spare} of {where}; all within one {placement.level} "
            f"(required {locality.required}, preferred {locality.preferred})."
        )

    def fabric(self, plan: Plan, site: Site) -> Fabric | None:
        return site.fabrics.get(plan.fabric) if plan.order.fabric.rdma else None

    def accelerators_each(self, plan: Plan, site: Site) -> int:
        asked, cloud = plan.order.nodes.accelerators, site.clouds.get(plan.cloud)
        flavor = cloud.flavors.get(plan.flavor) if cloud is not None else None
        given = asked or (flavor.accelerators if flavor is not None else None)
        return given.count if given is not None else self._accelerators_of_nodes(plan, site)

    def _accelerators_of_nodes(self, plan: Plan, site: Site) -> int:
        """`accelerators_each` by the pod's nodes, where neither order nor flavor gives the number."""
        nodes = (site.node_by_name.get(n.node) for n in plan.placement.nodes)
        counts = {len(node.accelerators) if node is not None else 0 for node in nodes}
        return counts.pop() if len(counts) == 1 else 0

    def ipus(self, plan: Plan, specs: Mapping[str, Mapping[str, Any]]) -> PodIpus | None:
        return None

    def numbers(self, plan: Plan) -> Iterator[list[str]]:
        numbers, resources = plan.allotment, plan.graph.by_key()
        segment = next((r.spec for r in resources.values() if isinstance(r.spec, SegmentSpec)), None)
        if segment is None:
            yield ["RDMA network", "none"]
            return
        # A tenant's plan doesn't name the members.
        modes = " and ".join(sorted({m.mode for m in segment.members}))
        members = f", {len(segment.members)} {modes} members" if segment.members else ""
        yield [segment.fabric_type.row.word, f"{segment.text} on fabric {plan.fabric}{members}"]
        rdma = resources[RDMA_NETWORK].spec
        assert isinstance(rdma, NetworkSpec)
        yield [
            "RDMA network",
            f"segment {segment.number} on {rdma.physical_network}, {numbers.rdma_cidr}",
        ]

    # -- capacity

    def accelerators(self, site: Site) -> frozenset[str]:
        return frozenset(a.type for n in site.nodes if n.role == "compute" for a in n.accelerators)

    def needs(self, site: Site, cloud: str) -> Needs:
        return Needs(fabrics=frozenset(fabrics_of(site, cloud, None)))

    def shows(self, site: Site, accelerator: str | None, level: Level | None) -> bool:
        return accelerator is None or accelerator in self.accelerators(site)

    def capacity(self, asked: CapacityAsked) -> Iterable[CapacityRow]:
        return nodes_rows(asked)


GPU = GpuShape()


def resolve_fabric(order: Order, site: Site, cloud: str, accelerators: AcceleratorCount | None) -> str:
    """The order's fabric, or the only one that the nodes it could have are on; `NO_FABRIC` if it wants none."""
    if not order.fabric.rdma:
        return NO_FABRIC
    given = order.fabric.name
    if given is not None:
        return one_of("fabric.name", given, sorted(site.fabrics), f"fabrics of site {site.name}")
    found = fabrics_of(site, cloud, accelerators)
    if not found:
        raise InputError(
            "fabric.name",
            given,
            instead("no node of cloud {cloud} that fits the order is on a fabric", cloud=cloud),
        )
    return one_of("fabric.name", None, found, "suitable nodes are on several fabrics")


@kept
def fabrics_of(site: Site, cloud: str, accelerators: AcceleratorCount | None) -> tuple[str, ...]:
    """Fabrics of the nodes that have these accelerators."""
    nodes = [n for n in site.nodes if n.role == "compute" and n.cloud == cloud and has(n, accelerators)]
    return tuple(sorted({h.fabric for n in nodes for h in n.hcas}))


def has(node: Node, accelerators: AcceleratorCount | None) -> bool:
    """Whether the node has at least these accelerators."""
    if accelerators is None:
        return True
    return sum(a.type == accelerators.type for a in node.accelerators) >= accelerators.count


def _limits(resolved: Resolved, can: Capabilities | None) -> tuple[str, ...]:
    if not resolved.order.fabric.rdma:
        return ()
    if resolved.site.fabrics[resolved.fabric].type is FabricKind.OMNIPATH:
        return OMNIPATH.limits
    return can.limits if can is not None else ()
