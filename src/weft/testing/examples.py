"""Small example values for tests of output; the numbers are arbitrary."""

from __future__ import annotations

from datetime import UTC, datetime

from weft.model.fabric import Membership
from weft.model.ids import format_guid
from weft.model.order import NodesOrder, Order
from weft.model.placement import Explanation, FilterReport, PlacedNode, Placement
from weft.model.plan import Allotment, Plan
from weft.model.pod import DECIDES, Aspect, Cause, Condition, Conditions, Phase, PodState, Truth
from weft.model.receipt import Receipt, ReceiptItem
from weft.model.resources import Difference, Graph, Kind, Resource
from weft.model.specs import NetworkSpec, PortSpec, SegmentSpec, ServerSpec
from weft.model.views import PodView, ResourceView, ServerView
from weft.planning.shapes.gpu.graph import RDMA_NETWORK
from weft.planning.shapes.graph import MANAGEMENT_NETWORK

NOW = datetime(2027, 1, 31, 12, 0, tzinfo=UTC)
NODES = ("gpu01", "gpu02", "gpu03", "gpu04")
GUID = 0x0002C90300300001
_PLACED = tuple(PlacedNode(node=n, rack="r1", leaf="leaf1", block="-") for n in NODES[:2])


def order(name: str = "train") -> Order:
    """An order of whole nodes."""
    return Order(name=name, nodes=NodesOrder(count=2, flavor="gpu.8", image="debian-12"))


def plan(ordered: Order, project: str) -> Plan:
    """A plan with GUIDs, hosts' names and another project's pod in it, which a tenant must not see."""
    busy = FilterReport(filter="busy", removed=1, left=3, examples=("gpu04: held by pod secret-pod",))
    explanation = Explanation(considered=4, filters=(busy,), chosen="one leaf holds all")
    return Plan(
        pod_id="00000000-0000-0000-0000-000000000000",
        project=project,
        site="example",
        order=ordered,
        cloud="cloud",
        fabric="ib",
        flavor=ordered.nodes.flavor or "gpu.8",
        placement=Placement(nodes=_PLACED, level="leaf", explanation=explanation),
        allotment=Allotment(
            segment="0x65",
            rdma_cidr="10.1.0.0/24",
            management_cidr="10.2.0.0/24",
            numbers={"segment/ib": 0x65, "vlan/cloud": 101},
        ),
        graph=Graph(resources=_graph()),
    )


def _graph() -> tuple[Resource, ...]:
    ports = (format_guid(GUID), format_guid(GUID + 2))
    segment = SegmentSpec(number=0x65, members=tuple(Membership(port=p) for p in ports))
    port = PortSpec(
        network=RDMA_NETWORK,
        subnet="subnet/rdma",
        address="10.1.0.11",
        vnic_type="direct-physical",
        host="n01",
    )
    server = ServerSpec(host="n01", flavor="gpu.8", image="debian-12", ports=("port/gpu01",))
    rdma = NetworkSpec(physical_network="ibnet", segment=101, port_security=False)
    management = NetworkSpec(physical_network="physnet1", segment=101, port_security=True)
    return (
        Resource(key=RDMA_NETWORK, name="weft-0-rdma", where="cloud", spec=rdma),
        Resource(key=MANAGEMENT_NETWORK, name="weft-0-management", where="cloud", spec=management),
        Resource(key="segment", name="weft-0-segment", where="ib", spec=segment),
        Resource(key="port/gpu01", name="weft-0-port-gpu01", where="cloud", spec=port),
        Resource(
            key="server/gpu01",
            name="weft-0-gpu01",
            where="cloud",
            needs=("segment", "port/gpu01"),
            spec=server,
        ),
    )


def pod(pod_id: str, ordered: Order, project: str, user: str) -> PodView:
    """A waiting pod's view."""
    return PodView(
        id=pod_id,
        name=ordered.name,
        project_id=project,
        phase=Phase.ORDERED,
        conditions=how(PodState.PENDING, NOW)[1],
        state=PodState.PENDING,
        since=NOW,
        created_at=NOW,
        nodes=ordered.nodes.count,
        fabric="ib",
        segment="0x65",
        created_by=user,
        site="example",
        cloud="cloud",
        flavor=ordered.nodes.flavor,
        vlan=101,
        lease_end=ordered.lease.end,
        order=ordered,
        placed=_PLACED,
        servers=(
            ServerView(
                name="train-gpu01",
                node="gpu01",
                management_address="10.2.0.11",
                rdma_addresses=("10.1.0.11",),
            ),
        ),
        resources=resources(PodState.PENDING),
    )


def how(state: PodState, since: datetime, why: str = "") -> tuple[Phase, Conditions]:
    """Phase and conditions of a pod in a state, without detours."""
    along = (PodState.PLACED, PodState.WIRING, PodState.BOOTING, PodState.VERIFYING, PodState.READY)
    done = along.index(state) if state in along else 3 if state is PodState.DEGRADED else 0
    phases = {
        PodState.PENDING: Phase.ORDERED,
        PodState.READY: Phase.SERVING,
        PodState.DEGRADED: Phase.SERVING,
    }
    phases |= {PodState.RELEASING: Phase.RELEASING, PodState.RELEASED: Phase.RELEASED}
    reached = (Aspect.WIRED, Aspect.BOOTED, Aspect.READY)
    known: dict[Aspect, tuple[Truth, Cause]] = {
        a: ("true", Cause.DONE) if done > i + 1 else ("false", Cause.UNDER_WAY)
        for i, a in enumerate(reached)
        if done > i
    }
    if state is PodState.FAILED:
        known[Aspect.FAILED] = ("true", Cause.PERSON_NEEDED)
    if state in (PodState.RELEASING, PodState.RELEASED):
        known[Aspect.CLEAN] = ("true" if state is PodState.RELEASED else "false", Cause.UNDER_WAY)
    conditions = tuple(
        Condition(type=a, status=s, reason=c, since=since, message=why if a is DECIDES[state] else "")
        for a, (s, c) in known.items()
    )
    return phases.get(state, Phase.BUILDING), conditions


def waiting(view: PodView) -> PodView:
    """The same order while it waits for its nodes."""
    return view.model_copy(
        update={
            "fabric": None,
            "segment": None,
            "vlan": None,
            "placed": (),
            "servers": (),
            "resources": (),
            "reason": "waiting for capacity; starts by 2027-01-31T12:00Z, nodes booked: 2",
            "position": 1,
            "expected_start": NOW,
        }
    )


def resources(state: PodState) -> tuple[ResourceView, ...]:
    """Resources as they would be in `state`; one has differences, with GUIDs in them."""
    how = {PodState.PENDING: "wanted", PodState.READY: "settled", PodState.RELEASED: "absent"}
    settled = how.get(state, "creating")
    difference = Difference(field="members", wanted="0x0002c90300300001", observed="")
    rows = (
        (Kind.SEGMENT, "segment", "ib"),
        (Kind.PORT, "port/gpu01", "cloud"),
        (Kind.SERVER, "server/gpu01", "cloud"),
    )
    return tuple(
        ResourceView(
            key=key,
            kind=kind,
            name=f"weft-0-{key.replace('/', '-')}",
            where=where,
            state=settled,
            started_at=NOW,
            differences=(difference,) if kind is Kind.SEGMENT and settled == "creating" else (),
        )
        for kind, key, where in rows
    )


def receipt(view: PodView) -> Receipt:
    """An unsigned receipt of a pod."""
    item = ReceiptItem(
        plane="p_key host", subject="0x0002c90300300001", result="clean", seen="no entry 0x65", at=NOW
    )
    return Receipt(
        site=view.site,
        pod_id=view.id,
        pod=view.name,
        project_id=view.project_id,
        ordered_at=view.created_at,
        released_at=NOW,
        nodes=tuple(n.node for n in view.placed),
        segment=view.segment or "",
        items=(item,),
        clean=True,
    )
