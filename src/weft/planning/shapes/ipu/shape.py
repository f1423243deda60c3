"""Pods of IPUs: adjacent IPU-Machines of one IPU-POD, with Poplar servers and a V-IPU controller of their own."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from weft.model.change import Replacement
from weft.model.errors import ConflictError, InputError
from weft.model.fabric import Capabilities
from weft.model.ipuorder import IpusOrder, PodIpus
from weft.model.localityorder import Level
from weft.model.messages import orders
from weft.model.messages.message import Message
from weft.model.messages.orders import instead
from weft.model.offer import Offer, offered
from weft.model.order import Order
from weft.model.placement import Occupancy, Refusal
from weft.model.plan import Plan, UsedNumbers
from weft.model.resources import Graph
from weft.model.site import IPUS_PER_MACHINE, USER_PORT, AcceleratorCount, Fabric, Site
from weft.model.specs import NetworkSpec
from weft.planning.place.ask import Ask
from weft.planning.queue.capacityrow import CapacityRow, Largest, RowLimit, Soon
from weft.planning.queue.queue import QueueSettings
from weft.planning.shapes.ipu.capacity import IpuRow, ipu_capacity
from weft.planning.shapes.ipu.graph import CONTROLLER_MANAGEMENT, DATA_NETWORK, ipu_graph
from weft.planning.shapes.ipu.line import IpuAsk, IpuTimeline
from weft.planning.shapes.ipu.plan import check_ipu_order, make_ipu_plan, parts_of, place_ipus
from weft.planning.shapes.shape import (
    AGAIN,
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

TYPE = "ipu"
"""Name of IPUs among accelerator types."""
CHANGEABLE = frozenset(
    {
        "on_drain",
        "access.ssh_from",
        "access.floating_ip",
        "network.router",
        "lease.end",
        "lease.duration",
    }
)
"""A V-IPU cluster and its ring or chain of machines are created as a whole."""


class IpuShape:
    """See `weft.planning.shapes.shape.Shape`, and the module's docstring."""

    name = "ipus"
    units = "IPU-Machines"
    changeable = CHANGEABLE
    fixed: Mapping[str, str] = {
        "nodes.count": instead(
            "a V-IPU cluster and its Poplar servers are created as a whole; {then}", then=AGAIN
        ),
        "ipus": instead("a V-IPU cluster is created as a whole; {then}", then=AGAIN),
    }
    shares_nodes = False
    columns = ("#", "machine", "rack", "switch", "IPU-POD")

    def limits(self, plan: Plan) -> Iterator[str]:
        yield from ()

    def count(self, order: Order) -> int:
        return _ipus(order).machines

    def is_of(self, order: Order) -> bool:
        return order.ipus is not None

    def resolved(self, order: Order, project: str, site: Site, cloud: str, flavor: str) -> Resolved:
        check_ipu_order(order, _ipus(order), site, cloud)
        pods = _pods_of(site, cloud)
        named = _ipus(order).ipu_pod
        asked = pods if named is None else (named,)
        wired = {f for name in asked if (f := site.ipu_pods[name].data.fabric) is not None}
        return Resolved(order, project, site, self, cloud, flavor, wired=tuple(sorted(wired)), managers=pods)

    def as_placed(self, order: Order, plan: Plan) -> Order:
        return order

    # -- in time

    def place_of(self, order: Resolved) -> str:
        return order.cloud

    def ask(self, order: Resolved) -> Ask:
        return IpuAsk.for_order(order.order, order.project)

    def line(self, asked: LineAsked) -> Line:
        return TimelineLine(
            lambda book: IpuTimeline.of(book, asked.site, asked.name, asked.health, asked.now),
            asked,
            replace(QueueSettings.of(asked.site.queue), patience=0.0),  # there is no better run to wait for
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
        return make_ipu_plan(pod_id, order, _ipus(order.order), occupancy, used)

    def is_full(self, refusal: Refusal) -> bool:
        return True

    def fewer(self, order: Order, most: int) -> Offer | None:
        fits = 1 << most.bit_length() - 1
        return offered("ipus.count", _ipus(order).count, fits * IPUS_PER_MACHINE)

    def cut(self, plan: Plan) -> dict[str, str]:
        # The data network's subnet is the IPU-POD's own.
        own = plan.order.network.management is None
        return {"management": plan.allotment.management_cidr} if own else {}

    # -- a change of the order

    def reassign(self, pod: ChangedPod, remove: Collection[str]) -> Assignment | Refusal:
        return Assignment(pod.plan.placement, pod.plan.allotment)

    def why_kept(self, order: Order) -> Message | None:
        return orders.IPUS_ARE_WHOLE()

    def replace(self, pod: ChangedPod, asked: Replacement) -> Assignment | Refusal:
        raise ConflictError(orders.IPUS_ARE_WHOLE())

    def elsewhere(self, pod: ChangedPod, lost: Collection[str]) -> Elsewhere | Refusal:
        return place_ipus(pod.plan, pod.order, _ipus(pod.order), pod.site, pod.occupancy, lost)

    def graph(self, plan: Plan, site: Site) -> Graph:
        parts = parts_of(plan, site)
        return ipu_graph(plan.pod_id, plan.order, parts, plan.allotment, site, plan.cloud, plan.flavor)

    # -- for people

    def headline(self, plan: Plan) -> str:
        return (
            f"IPU-Machines: {len(plan.placement.nodes)} ({_ipus(plan.order).count} IPUs) of IPU-POD {plan.fabric}; "
            f"Poplar servers: {plan.order.nodes.count} of cloud {plan.cloud}, flavor {plan.flavor}."
        )

    def numbers(self, plan: Plan) -> Iterator[list[str]]:
        data = plan.graph.by_key()[DATA_NETWORK].spec
        assert isinstance(data, NetworkSpec)
        yield ["IPU data", f"VLAN {data.segment} on {data.physical_network}, {plan.allotment.rdma_cidr}"]

    def fabric(self, plan: Plan, site: Site) -> Fabric | None:
        return None

    def accelerators_each(self, plan: Plan, site: Site) -> int:
        return 0

    def ipus(self, plan: Plan, specs: Mapping[str, Mapping[str, Any]]) -> PodIpus | None:
        data, controller = specs.get(DATA_NETWORK), specs.get(CONTROLLER_MANAGEMENT)
        if data is None or controller is None:
            return None
        return PodIpus(
            count=_ipus(plan.order).count,
            ipu_pod=plan.fabric,
            machines=tuple(one.node for one in plan.placement.nodes),
            controller=f"{controller['address']}:{USER_PORT}",
            data_vlan=data["segment"],
            data_addresses=plan.allotment.rdma_cidr,
        )

    # -- capacity

    def accelerators(self, site: Site) -> frozenset[str]:
        return frozenset({TYPE} if site.ipu_pods else ())

    def needs(self, site: Site, cloud: str) -> Needs:
        return Needs(managers=frozenset(_pods_of(site, cloud)))

    def shows(self, site: Site, accelerator: str | None, level: Level | None) -> bool:
        # Not with only a level: orders of IPUs don't support levels.
        return bool(site.ipu_pods) and (accelerator == TYPE or (accelerator is None and level is None))

    def capacity(self, asked: CapacityAsked) -> Iterable[CapacityRow]:
        if asked.level is not None:
            allowed = instead("must be omitted with ipu: IPUs are always adjacent in one IPU-POD")
            raise InputError("level", asked.level, allowed)
        site, health, book = asked.site, asked.health, asked.book
        rows = ipu_capacity(site, health, book, asked.now, asked.duration, asked.project)
        return map(_row, rows)


IPU = IpuShape()


def _ipus(order: Order) -> IpusOrder:
    if order.ipus is None:
        raise ValueError(f"order {order.name} has no IPUs")
    return order.ipus


def _pods_of(site: Site, cloud: str) -> tuple[str, ...]:
    return tuple(sorted(name for name, pod in site.ipu_pods.items() if pod.cloud == cloud))


def _row(row: IpuRow) -> CapacityRow:
    return CapacityRow(
        shape="ipus",
        cloud=row.cloud,
        place_kind="IPU-POD",
        place=row.ipu_pod,
        unit="IPU-Machines",
        accelerators=AcceleratorCount(type=TYPE, count=IPUS_PER_MACHINE),
        total=row.machines,
        free=row.free,
        orders="IPUs",
        largest=(Largest(row.largest, where=row.where),),
        soon=tuple(Soon(count, at) for count, at in row.soon),
        counts=(
            RowLimit("Poplar servers with capacity", free=row.poplar_servers),
            *((RowLimit("drained machines", row.drained),) if row.drained else ()),
            *((RowLimit("machines with failed checks", row.failing),) if row.failing else ()),
        ),
    )
