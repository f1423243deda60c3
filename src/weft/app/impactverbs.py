"""The verb that shows what an outage would touch."""

from __future__ import annotations

from collections.abc import Mapping

from weft.app.desk import DeskVerbs
from weft.app.verbs import Request
from weft.engine.nodes.impact import PodRoom, TouchedPod, places_elsewhere, read_touched
from weft.model.errors import InputError
from weft.model.site import Node, Site
from weft.model.views import (
    MOST_IMPACT_NODES,
    MOST_IMPACT_PODS,
    SOME_IMPACT_PODS,
    ElsewhereView,
    FabricLoss,
    ImpactView,
    Loss,
    NodeImpact,
    PodImpact,
    UplinkImpact,
)
from weft.planning.fabric.outage import NodeLoss, outage, whole
from weft.planning.fabric.targets import target_of

_WORST: tuple[Loss, ...] = ("everything", "fabric", "adapters", "network", "redundancy")


class ImpactVerbs(DeskVerbs):
    """Verbs of operators; see `weft.app.verbs`."""

    def impact(
        self, request: Request, target: str, limit: int = SOME_IMPACT_PODS, place: bool = True
    ) -> ImpactView:
        """What an outage of a node, rack, switch or cable would touch: nodes, pods, promises; nothing is changed.

        By the active site and weft's own records: no cloud or fabric manager is asked.

        Args:
            target: as `weft.planning.fabric.targets.target_of` reads it.
            limit: pods at most; of the others only the number.
            place: whether each of these is also placed elsewhere, after the ones before it.

        Raises:
            InputError: the site has nothing of that name, or several things.
        """
        self._desk.policy.check("site:impact", request.caller)
        if not 1 <= limit <= MOST_IMPACT_PODS:
            raise InputError("limit", limit, f"1 to {MOST_IMPACT_PODS}")
        record, database = self._desk.store.site(), self._desk.store.database
        site, found = record.site, target_of(record.site, target)
        out = outage(site, found.failed)
        nodes = {name: _node(site, loss) for name, loss in out.nodes.items()}
        losses: dict[str, Loss] = {name: nodes[name].loss for name in out.touched}
        touched = read_touched(database, site, losses.keys())
        listed = touched.pods[:limit]
        rooms = list(places_elsewhere(database, site, touched, listed, losses.keys())) if place else []
        pods = [_pod(pod, losses, rooms[i] if place else None) for i, pod in enumerate(listed)]
        return ImpactView(
            target=found.name,
            kind=found.kind,
            generation=record.generation,
            at=touched.at,
            nodes=tuple(nodes.values())[:MOST_IMPACT_NODES],
            more_nodes=max(0, len(nodes) - MOST_IMPACT_NODES),
            uplinks=tuple(
                UplinkImpact(
                    fabric=u.fabric, switch=u.switch, level=u.level, gbps=u.before, gbps_left=u.after
                )
                for u in out.uplinks[:MOST_IMPACT_NODES]
            ),
            more_uplinks=max(0, len(out.uplinks) - MOST_IMPACT_NODES),
            others=out.others[:MOST_IMPACT_NODES],
            more_others=max(0, len(out.others) - MOST_IMPACT_NODES),
            pods=tuple(pods),
            more_pods=len(touched.pods) - len(listed),
            promises=touched.promises[:MOST_IMPACT_NODES],
            more_promises=max(0, len(touched.promises) - MOST_IMPACT_NODES),
            notes=out.notes,
        )


def _node(site: Site, loss: NodeLoss) -> NodeImpact:
    unit = site.units[loss.node]
    fabrics = tuple(
        FabricLoss(
            fabric=fabric,
            whole=whole(site, loss, fabric),
            lost=tuple(loss.lost.get(fabric, ())),
            cut=tuple(loss.cut.get(fabric, ())),
            adapters=len(unit.hcas_on(fabric)) if isinstance(unit, Node) else 1,
        )
        for fabric in sorted({*loss.lost, *loss.cut})
    )
    worst: Loss = "redundancy"
    if loss.everything:
        worst = "everything"
    elif fabrics:
        worst = "fabric" if any(f.whole for f in fabrics) else "adapters"
    elif loss.networks:
        worst = "network"
    return NodeImpact(
        node=loss.node,
        loss=worst,
        fabrics=fabrics,
        networks=tuple(loss.networks),
        thinner=tuple(loss.thinner),
    )


def _pod(pod: TouchedPod, losses: Mapping[str, Loss], room: PodRoom | None) -> PodImpact:
    return PodImpact(
        pod=pod.name,
        id=str(pod.id),
        project_id=pod.project_id,
        state=pod.state,
        loss=next(loss for loss in _WORST if loss in {losses[n] for n in pod.nodes}),
        nodes=pod.nodes,
        spares=pod.spares,
        on_drain=pod.on_drain,
        elsewhere=room and _elsewhere(room),
    )


def _elsewhere(room: PodRoom) -> ElsewhereView:
    found = room.found
    if found is None:
        return ElsewhereView(fits=room.fits, why=room.why)
    return ElsewhereView(
        fits=room.fits,
        nodes=tuple(n.node for n in found.added),
        spares=found.spares,
        moves=found.moves,
        why=room.why,
    )
