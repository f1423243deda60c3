"""Converts rows into the API's views. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial

from weft.engine.base.documents import message_text
from weft.engine.base.unreadable import READING, unreadable
from weft.engine.book.capacity import Capacity
from weft.engine.book.checkstate import check_state, counted, verdict
from weft.engine.book.stops import NO_STOPS, Stops
from weft.engine.nodes.drains import pods_drained
from weft.engine.nodes.failures import failures_said
from weft.engine.nodes.hostchecks import checks_failed
from weft.engine.rows.records import ResourceRecord
from weft.engine.rows.shownrecords import ShownPod, ShownResource
from weft.engine.rows.siteparts import SiteRecord
from weft.engine.rows.stoprows import Drain, Hold, Report
from weft.engine.store.bandwidth import unproved
from weft.model.fabric import FabricStatus
from weft.model.kinds import Kind
from weft.model.messages import problems
from weft.model.nodetests import tests_of
from weft.model.pod import ENDED, Aspect, Cause, Condition, Conditions, Phase, changed
from weft.model.site import Node, Site, Unit
from weft.model.views import (
    DrainView,
    FailedCheckView,
    HoldView,
    NodeView,
    PodView,
    ReportView,
    ResourceView,
    ServerView,
    SiteView,
)
from weft.planning.fabric.topology import Topology
from weft.planning.shapes.resolve import shape_of

_SERVER = f"{Kind.SERVER}/"
"""Before a server's key in the graph."""


def pod_view(shown: ShownPod, site: str) -> PodView:
    """A pod in full; `site` is the name of the active one, for a waiting order. Raises `UnreadableError`."""
    try:
        return _pod_view(shown, site)
    except READING as error:
        raise unreadable(f"the resources of pod {shown.pod.name} ({shown.pod.id})", error) from error


def _pod_view(shown: ShownPod, site: str) -> PodView:
    pod, plan = shown.pod, shown.pod.placed
    return PodView(
        id=str(pod.id),
        name=pod.name,
        project_id=pod.project_id,
        phase=pod.phase,
        conditions=_conditions(shown),
        state=pod.state,
        reason=pod.reason,
        since=pod.since,
        created_at=pod.created_at,
        nodes=pod.order.nodes.count,
        nodes_failing=len(shown.failures) if pod.wanted == "present" else 0,
        fabric=plan.fabric if plan else None,
        segment=plan.allotment.segment if plan else None,
        lease_end=pod.lease_end,
        position=pod.position,
        expected_start=pod.expected_start,
        created_by=pod.created_by,
        generation=pod.generation,
        changing_since=None if pod.state in ENDED else pod.changed_at,
        site=plan.site if plan else site,
        cloud=plan.cloud if plan else pod.order.cloud,
        flavor=plan.flavor if plan else pod.order.nodes.flavor,
        vlan=plan.vlan if plan else None,
        order=pod.order,
        placed=plan.placement.nodes if plan else (),
        spares=plan.placement.spares if plan else (),
        servers=_servers(shown),
        ipus=shape_of(plan.order).ipus(plan, {r.key: r.spec for r in shown.resources}) if plan else None,
        resources=tuple(_resource(r) for r in shown.resources),
        has_receipt=shown.has_receipt,
    )


def _conditions(shown: ShownPod) -> Conditions:
    """The stored conditions; whether operators drain its nodes, and whether some fail, until it is released; and
    whether it lacks a bandwidth test; and whether it has nodes: for a waiting order the queue writes the reason."""
    pod, known = shown.pod, shown.pod.conditions
    rows = {
        Aspect.MAINTENANCE: shown.drains,
        Aspect.NODES_FAIL: shown.failures,
        Aspect.CHECKS_FAIL: shown.checks,
    }
    texts = {
        Aspect.MAINTENANCE: partial(pods_drained, pod.order),
        Aspect.NODES_FAIL: failures_said,
        Aspect.CHECKS_FAIL: checks_failed,
    }
    for aspect, mine in rows.items():
        if mine and pod.wanted == "present":
            said, since = texts[aspect](mine), min(row["since"] for row in mine)
            message = said[0] if len(said) == 1 else problems.SEVERAL(problems=said)
            values = {"type": aspect, "status": "true", "reason": Cause.WAITING, "since": since}
            known = changed(known, Condition.model_validate({**values, "message": message}))
    if (found := unproved(pod, shown.bandwidth)) is not None:
        values = {"type": Aspect.BANDWIDTH_UNPROVED, "status": "true", "reason": Cause.WAITING}
        values |= {"message": found[0], "since": found[1]}
        known = changed(known, Condition.model_validate(values))
    if pod.placed is None:
        if pod.phase is not Phase.ORDERED:
            return known
        why = {"status": "false", "reason": Cause.WAITING, "message": pod.reason, "since": pod.created_at}
    else:
        why = {"status": "true", "reason": Cause.DONE, "since": pod.placed_at or pod.created_at}
    return changed(known, Condition.model_validate({"type": Aspect.PLACED, **why}))


def _servers(shown: ShownPod) -> tuple[ServerView, ...]:
    """The tenant's own servers by their numbers; those that leave the pod come last, since another one may have the
    name already. Servers in the site's project are left out: the tenant has no access to them."""
    resources, plan = shown.resources, shown.pod.placed
    numbers = plan.server_numbers if plan else {}

    def place(one: ShownResource) -> tuple[bool, int]:
        return not one.wanted, numbers.get(one.key.removeprefix(_SERVER), len(numbers))

    specs = {r.key: r.spec for r in resources if r.kind == str(Kind.PORT)}
    floating_of = {r.spec["port"]: r for r in resources if r.kind == str(Kind.FLOATING_IP)}
    views: list[ServerView] = []
    for one in sorted(resources, key=place):
        theirs = one.document.get("owner", "tenant") == "tenant"
        if one.kind != str(Kind.SERVER) or one.is_over or not theirs:
            continue
        keys: Sequence[str] = one.spec["ports"]
        ports = [specs[key] for key in keys if key in specs]
        floating = floating_of.get(keys[0]) if keys else None
        address = floating.facts.get("address") if floating else None
        # A machine's ports are all adapters of its own; the first is the one for management.
        management = next((p for p in ports if p["vnic_type"] == "normal"), ports[0])
        adapters = [p for p in ports if p is not management and p.get("site_network") is None]
        views.append(
            ServerView(
                name=one.document["name"],
                node=one.document["node"],
                management_address=management["address"],
                rdma_addresses=tuple(p["address"] for p in adapters),
                floating_ip=None if address is None else str(address),
            )
        )
    return tuple(views)


def _resource(one: ShownResource) -> ResourceView:
    return ResourceView(
        key=one.key,
        kind=one.kind,
        name=one.document["name"],
        where=one.document["where"],
        state=one.state,
        id=one.outside_id,
        reason=one.reason,
        differences=one.differences,
        started_at=one.started_at,
        finished_at=one.finished_at,
    )


def record_view(record: ResourceRecord) -> ResourceView:
    """The API's view of a pod's resource row."""
    return ResourceView(
        key=record.key,
        kind=str(record.kind),
        name=record.resource.name,
        where=record.resource.where,
        state=record.state,
        id=record.outside_id,
        reason=record.reason,
        differences=record.differences,
        started_at=record.started_at,
        finished_at=record.finished_at,
    )


def site_view(record: SiteRecord, fabrics: tuple[FabricStatus, ...] = ()) -> SiteView:
    """The API's view of a site; long tables of its document are parts of their own."""
    site = record.site
    return SiteView(
        name=site.name,
        generation=record.generation,
        activated_at=record.activated_at,
        activated_by=record.activated_by,
        nodes=len(site.nodes),
        switches=len(site.switches),
        links=site.link_count,
        document=record.cut.document,
        fabrics=fabrics,
    )


_NOTHING: Mapping[str, str] = {}


def node_views(
    site: Site,
    capacity: Capacity,
    found: Mapping[str, str] = _NOTHING,
    unknown: Mapping[str, str] = _NOTHING,
) -> list[NodeView]:
    """Every node, then every machine that isn't a host, in the site's order.

    Args:
        found: node that no pod holds -> why it can't be assigned, by the cloud.
        unknown: node that no pod holds -> why that is unknown.
    """
    return list(views_of_nodes(site.units, site, capacity, found, unknown))


def node_view(
    site: Site,
    name: str,
    capacity: Capacity,
    found: Mapping[str, str] = _NOTHING,
    unknown: Mapping[str, str] = _NOTHING,
) -> NodeView:
    """The view of one node or machine, as in `node_views`."""
    return next(views_of_nodes((name,), site, capacity, found, unknown))


def views_of_nodes(
    names: Iterable[str],
    site: Site,
    capacity: Capacity,
    found: Mapping[str, str],
    unknown: Mapping[str, str],
) -> Iterator[NodeView]:
    """Views of these nodes. There may be 16,000: what all of them need is looked up once."""
    topologies = [Topology.of(site, fabric).locations for fabric in sorted(site.fabrics)]
    failing = verdict(capacity.stops, site, capacity.at).excluded
    sharing: dict[str, set[str]] = {}
    for hold in capacity.shared:
        sharing.setdefault(hold.node, set()).add(hold.pod.name)
    machines, units = site.machine_by_name, site.units
    for name in names:
        if (machine := machines.get(name)) is not None:
            leaf = machine.rnic_switch
        else:
            leaf = next((locations[name].leaf for locations in topologies if name in locations), "-")
        pods = sorted(sharing.get(name, ()))
        cloud = found.get(name, ""), unknown.get(name, "")
        # One that left the site may still be in quarantine, drained or held.
        unit = units.get(name) or Node(name=name, role="service")
        yield _node(site, unit, leaf, capacity, pods, *cloud, failing.get(name, ""))


def _node(
    site: Site,
    node: Unit,
    leaf: str,
    capacity: Capacity,
    sharing: Sequence[str],
    found: str,
    unknown: str,
    excluded: str,
) -> NodeView:
    hold, quarantine = capacity.holds.get(node.name), capacity.quarantines.get(node.name)
    stops = capacity.stops.get(node.name, NO_STOPS)
    state = "free" if node.is_whole else "not-compute"
    reasons: list[str] = []
    # All of them are listed; the state is the first that applies.
    if found:
        state = "busy"
        reasons.append(found)
    elif unknown:
        reasons.append(f"what is on its host is unknown: {unknown}")
    if node.maintenance:
        state = "maintenance"
        reasons.append(f"maintenance: {node.maintenance}")
    if excluded:
        state = "failed"
        reasons.append(excluded)
    else:
        reasons += _warned(stops, site)
    if stops.drain:
        state = "drained"
        reasons.append(stops.why_drained)
    if stops.holds:
        state = "held"
        reasons.append(stops.why_held)
    if hold is not None:
        state = "busy"
        reasons += ["held as a spare"] if hold.spare else []
    if sharing:
        state = "busy"
        reasons.append(f"shared by {', '.join(sharing)}")
    if quarantine is not None:
        state = "quarantined"
        reasons.append(quarantine.reason)
    reason = "; ".join(reversed(reasons))
    return NodeView.trusted(
        {
            "name": node.name,
            "rack": node.rack,
            "leaf": leaf,
            "state": state,
            "pod": hold.pod.name if hold else None,
            "project_id": hold.pod.project_id if hold else None,
            "reason": reason,
            "since": node_since(node.name, site, capacity, excluded),
            "quarantine_revision": quarantine and quarantine.revision,
            "holds": tuple(hold_view(one, site) for one in stops.holds),
            "drain": stops.drain and drain_view(stops.drain),
            "reports": tuple(report_view(one) for one in stops.reports),
            "checks": check_state(stops.checks, site, node.name, capacity.at),
            "checked_at": stops.checks and stops.checks.at,
            "failed_checks": failed_checks(stops),
        }
    )


def node_since(name: str, site: Site, capacity: Capacity, excluded: str) -> datetime | None:
    """Since when a node is in its state, as far as weft has noted that.

    Args:
        excluded: why its own checks keep it from orders; empty: they don't.
    """
    if (quarantine := capacity.quarantines.get(name)) is not None:
        return quarantine.since
    if (hold := capacity.holds.get(name)) is not None:
        return hold.since
    stops = capacity.stops.get(name, NO_STOPS)
    if stops.holds:
        return stops.holds[0].since
    if stops.drain:
        return stops.drain.since
    failed = counted(stops.checks, site.checks) if excluded else ()
    return min((problem.since for problem in failed), default=None)


def _warned(stops: Stops, site: Site) -> Iterator[str]:
    """A sentence on the node's own checks that failed without keeping it from orders."""
    if failed := counted(stops.checks, site.checks):
        codes = ", ".join(sorted({one.code for one in failed}))
        yield f"its own checks failed, and don't keep it from orders: {codes}"


def failed_checks(stops: Stops) -> tuple[FailedCheckView, ...]:
    """The node's own checks that failed."""
    failed = stops.checks.failed if stops.checks else ()
    return tuple(FailedCheckView(code=p.code, subject=p.subject, since=p.since) for p in failed)


def drain_view(one: Drain) -> DrainView:
    """A node's drain."""
    given = {
        name: getattr(one, name) for name in ("node", "since", "drained_by", "reason", "public", "revision")
    }
    return DrainView(by=one.until_at, wait=one.waits, **given)


def report_view(one: Report) -> ReportView:
    """A project's report of a node."""
    return ReportView.model_validate({name: getattr(one, name) for name in ReportView.model_fields})


def hold_view(one: Hold, site: Site) -> HoldView:
    """What a node is held for."""
    given = {name: getattr(one, name) for name in ("node", "what", "since", "held_by", "revision")}
    names = site.acceptance.tests if one.what == site.acceptance.what else ()
    return HoldView(why=message_text(one.cause), tests=tests_of(names, one.tests), **given)
