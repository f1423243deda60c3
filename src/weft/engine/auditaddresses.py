"""The audit's look for ports of others with MAC addresses that weft has chosen for pods."""

from __future__ import annotations

from collections.abc import Sequence

from weft.engine.findings import Findings
from weft.engine.membership import members_of
from weft.engine.records import PodRecord, ResourceRecord
from weft.engine.twins import same_address
from weft.engine.world import World
from weft.model.errors import WeftError

_REPAIR = "nothing here: it is removed if it is on a network that is a pod's alone, as a finding of that pod"


def audit_addresses(found: Findings, pod: PodRecord, records: Sequence[ResourceRecord], world: World) -> None:
    """Of one pod, on all networks of its cloud."""
    cloud, mine = pod.plan.cloud, {"pod": pod.name, "pod_id": str(pod.id)}
    seen = same_address(pod, {r.key: r for r in records}, members_of(pod, records), world)
    if isinstance(seen, WeftError):
        found.add("unknown", "port", cloud, pod.name, str(seen), **mine)
        return
    for twin in seen:
        what, thing = twin.problem.text(), twin.problem.detail["thing"]
        found.add("foreign", "port", cloud, thing, what, id=twin.port.id, repair=_REPAIR, **mine)
