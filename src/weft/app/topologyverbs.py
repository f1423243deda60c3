"""The verb that writes a pod's topology for programs that place and start jobs."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256

from weft.app.desk import DeskVerbs
from weft.app.verbs import Request
from weft.engine.rows.records import RowState
from weft.engine.rows.shownrecords import ShownPod, ShownResource
from weft.engine.rows.siteparts import SiteRecord
from weft.generate.topology.formats import FORMATS, omitted, written
from weft.model.errors import ConflictError, InputError
from weft.model.kinds import Kind
from weft.model.messages import topology as messages
from weft.model.messages.orders import instead
from weft.model.plan import Plan
from weft.model.pod import ENDED
from weft.model.views import TopologyFile
from weft.planning.fabric.podtopology import PodServer, PodTopology, levels_of, locate
from weft.planning.fabric.topology import Topology
from weft.planning.shapes.resolve import shape_of

_KIND = "server/"
_AWAY = frozenset({RowState.PENDING, RowState.BROKEN})


class TopologyVerbs(DeskVerbs):
    """See `weft.app.verbs`."""

    def topology(self, request: Request, name: str, format_: str) -> TopologyFile:
        """A pod's topology as a file in a format of `weft.generate.topology.formats`.

        Servers in force are in it, also those on nodes that are drained or off: the file must not change when a node is
        away. Raises `ConflictError` if the pod has none, or nothing that the format describes.
        """
        shown = self._desk.allowed(request, "pods:topology", name, self._desk.store.pods.find_shown)
        if format_ not in FORMATS:
            raise InputError("format", format_, instead("one of {formats}", formats=", ".join(FORMATS)))
        pod = topology_of(shown, self._desk.store.site())
        text = written(pod, format_)
        digest = sha256(text.encode()).hexdigest()[:16]
        return TopologyFile(
            format=format_,
            media_type=FORMATS[format_].media_type,
            text=text,
            tag=f"{pod.generation}-{digest}",
            left_out=omitted(pod, format_),
        )


def topology_of(shown: ShownPod, record: SiteRecord) -> PodTopology:
    """A pod's topology by the active site. Raises `ConflictError` for a pod without nodes, or one being released."""
    pod, site, plan = shown.pod, record.site, shown.pod.placed
    leaving = pod.wanted == "absent" and pod.state not in ENDED
    if plan is None or leaving or pod.state in ENDED:
        state = "being released" if leaving else str(pod.state)
        raise ConflictError(messages.TOPOLOGY_NOT_IN_FORCE(pod=pod.name, state=state))
    order = plan.order
    shape = shape_of(order)
    fabric = shape.fabric(plan, site)
    servers, left_out = locate(site, plan.fabric if fabric is not None else "", _servers(shown, plan))
    cloud = site.clouds.get(plan.cloud)
    flavor = cloud.flavors.get(plan.flavor) if cloud else None
    qos = fabric.qos if fabric is not None else None
    return PodTopology(
        pod=pod.name,
        id=str(pod.id),
        state=str(pod.state),
        generation=pod.generation,
        site=site.name,
        site_generation=record.generation,
        fabric=plan.fabric,
        type=str(fabric.type) if fabric is not None else "",
        segment=plan.segment if fabric is not None else None,
        bare_metal=order.nodes.kind == "bare_metal",
        accelerators=shape.accelerators_each(plan, site),
        cores=flavor.vcpus if flavor is not None else 0,
        dscp=qos.dscp[0] if qos is not None and qos.trust == "dscp" and qos.dscp else None,
        levels=levels_of(Topology.of(site, plan.fabric)) if fabric is not None else (),
        servers=servers,
        left_out=left_out,
    )


def _servers(shown: ShownPod, plan: Plan) -> Iterator[PodServer]:
    """The tenant's servers, those that leave the pod last: another one may have the name already."""
    numbers = plan.server_numbers
    for one in sorted(shown.resources, key=lambda r: not r.wanted):
        gone = one.is_over and not one.wanted
        if one.kind != str(Kind.SERVER) or gone or one.document.get("owner", "tenant") != "tenant":
            continue
        number = numbers.get(one.key.removeprefix(_KIND), len(numbers))
        name, node = one.document["name"], one.document["node"]
        yield PodServer(name, number, node, one.outside_id or "", _missing(shown, one))


def _missing(shown: ShownPod, one: ShownResource) -> str:
    """Why a server isn't in force; empty: it is.

    One that broke or restarts after it was in a READY pod is in force: the cluster knows it as down.
    """
    node = one.document["node"]
    if not one.wanted:
        return f"its server on {node} leaves the pod"
    if one.state is RowState.ABSENT:
        return f"its server on {node} is gone"
    served = one.generation <= shown.pod.ready_generation
    if one.outside_id is not None and (one.state is RowState.SETTLED or (served and one.state in _AWAY)):
        return ""
    return f"its server on {node} is {'being built again' if served else 'not built yet'}"
