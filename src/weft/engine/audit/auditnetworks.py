"""The audit of other projects' things on pods' resources, and of ports with pods' addresses.

Each project is asked about once: pod by pod, that would be most of an audit's requests.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import TypeVar
from uuid import UUID

from weft.engine.audit.auditaddresses import AddressedPod, report_addresses
from weft.engine.audit.findings import Findings
from weft.engine.base.world import World
from weft.engine.proof.intruders import Intruder, among_uses, networks_there, used_there, users_among
from weft.engine.rows.records import PodRecord, ResourceRecord
from weft.model.errors import WeftError
from weft.model.kinds import Kind
from weft.model.uses import Use
from weft.ports.cloud import CloudFacts
from weft.ports.tenantnetworks import TenantPort

T = TypeVar("T")
A = TypeVar("A")
_Rows = tuple[PodRecord, Sequence[ResourceRecord]]


def audit_networks(found: Findings, pods: Iterable[_Rows], world: World) -> dict[UUID, set[str]]:
    """Add findings about all pods; returns pod -> ids of other projects' things on its resources."""
    groups: dict[tuple[str, str], list[_Rows]] = defaultdict(list)
    for pod, records in pods:
        groups[pod.plan.cloud, pod.project_id].append((pod, records))
    there: dict[UUID, set[str]] = {}
    for (cloud, project_id), group in groups.items():
        if (facts := world.clouds.get(cloud)) is None:
            continue
        uses = _each(group, lambda some, facts=facts, to=project_id: _uses_of(facts, to, some))
        addressed = [AddressedPod.of(pod, records) for pod, records in group]
        ports = _each(addressed, lambda some, facts=facts, to=project_id: _ports_of(facts, to, some))
        for (pod, records), its, one, near in zip(group, uses, addressed, ports, strict=True):
            if ids := _report_uses(found, pod, records, its):
                there[pod.id] = ids
            report_addresses(found, one, near)
    return there


def _each(group: Sequence[T], ask: Callable[[Sequence[T]], A]) -> list[A | WeftError]:
    """One answer for a whole group; if that fails, an answer or an error for each member."""
    try:
        return [ask(group)] * len(group)
    except WeftError as error:
        if len(group) == 1:
            return [error]
    return [answer for one in group for answer in _each([one], ask)]


def _uses_of(
    facts: CloudFacts, project_id: str, group: Sequence[_Rows]
) -> tuple[dict[str, list[Use]], dict[str, list[Use]]]:
    """Id -> what is on networks; id -> what uses groups, ports and routers."""
    networks = list(chain.from_iterable(networks_there(records) for _, records in group))
    used: dict[Kind, list[str]] = defaultdict(list)
    for _, records in group:
        for kind, ids in used_there(records).items():
            used[kind] += ids
    return (
        _by_resource(facts.on_networks(project_id, networks) if networks else ()),
        _by_resource(facts.uses(project_id, used) if used else ()),
    )


def _by_resource(uses: Iterable[Use]) -> dict[str, list[Use]]:
    found: dict[str, list[Use]] = defaultdict(list)
    for use in uses:
        found[use.on].append(use)
    return found


def _ports_of(
    facts: CloudFacts, project_id: str, group: Sequence[AddressedPod]
) -> dict[str, list[TenantPort]]:
    """MAC address in lower case -> ports of all projects with it."""
    macs = frozenset[str]().union(*(one.macs for one in group))
    found: dict[str, list[TenantPort]] = defaultdict(list)
    for port in facts.ports_at(project_id, macs=macs) if macs else ():
        found[port.mac.lower()].append(port)
    return found


def _report_uses(
    found: Findings,
    pod: PodRecord,
    records: Sequence[ResourceRecord],
    uses: tuple[dict[str, list[Use]], dict[str, list[Use]]] | WeftError,
) -> set[str]:
    """Report other projects' things on a pod's resources, which may block its release; returns their ids."""
    cloud, mine = pod.plan.cloud, {"pod": pod.name, "pod_id": str(pod.id)}
    if isinstance(uses, WeftError):
        found.add("unknown", "network", cloud, pod.name, str(uses), **mine)
        return set()
    on, of = uses
    networks = chain.from_iterable(on.get(i, ()) for i in networks_there(records))
    used = (i for ids in used_there(records).values() for i in ids)
    others: list[Intruder] = [
        *among_uses(records, networks),
        *users_among(records, chain.from_iterable(of.get(i, ()) for i in used)),
    ]
    for one in others:
        removed = one.removable(pod)
        repair = removed or "nothing while the pod lives; it is removed when the pod is released"
        said, repairable = one.text(), bool(removed)
        thing, text = one.thing, one.thing.text()
        found.add(
            "foreign",
            thing.kind,
            cloud,
            text,
            said,
            id=thing.id,
            repair=repair,
            repairable=repairable,
            **mine,
        )
    return {one.thing.id for one in others}
