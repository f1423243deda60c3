"""The audit: what exists outside that no live pod owns, what a pod owns that is missing or different, and what is
foreign inside weft's range. `repair` mends what is weft's, and only that."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

from weft.engine.records import PodRecord, ResourceRecord, RowState
from weft.engine.store import Store
from weft.engine.verifier import verify
from weft.engine.world import World
from weft.model.errors import WeftError
from weft.model.fabric import PortTable
from weft.model.ids import FULL_MEMBER, format_pkey
from weft.model.pod import PodState
from weft.model.resources import Kind, Marked, PartitionSpec
from weft.model.site import Site
from weft.model.views import AuditReport, Finding
from weft.planning.fabriccheck import port_name
from weft.ports.clock import Clock

AT_REST = frozenset({PodState.READY, PodState.DEGRADED, PodState.VERIFYING})
"""States in which everything of a pod should be there; in the others the loop is at work on it."""

MEND_PATIENCE = 120.0
"""Seconds that a repair waits for the loop to mend a pod."""


class Auditor:
    """Reads everything afresh at each call."""

    def __init__(self, store: Store, world: World, site: Site, clock: Clock) -> None:
        self._store, self._world, self._site, self._clock = store, world, site, clock
        self._findings: list[Finding] = []
        self._checked: dict[str, int] = {}
        self._orphans: list[Marked] = []
        self._pods: dict[UUID, tuple[PodRecord, list[ResourceRecord]]] = {}

    def check(self) -> AuditReport:
        """Look at everything; changes nothing."""
        self._findings, self._checked, self._orphans = [], {}, []
        self._pods = {p.id: (p, self._store.resources(p.id)) for p in self._store.live_pods()}
        self._checked["pods"] = len(self._pods)
        self._check_pods()
        for where in sorted(self._world.resources):
            self._check_marked(where)
        for name in sorted(self._world.fabrics):
            self._check_wire(name)
        return self._report()

    def repair(self) -> AuditReport:
        """Check, mend what is weft's, look again, and say of each finding whether it was seen mended."""
        before = self.check().findings
        for where in sorted({o.where for o in self._orphans}):
            mine = [o for o in self._orphans if o.where == where]
            try:
                self._world.resources[where].remove_marked(mine)
            except WeftError as error:
                self._find("unknown", "repair", where, "orphans", f"they can't be removed: {error}")
        sick = {f.pod for f in before if f.pod and f.category in ("missing", "different")}
        for pod, _ in self._pods.values():
            if pod.name in sick:
                self._store.mend(pod.id)
        self._wait_mended(sick)
        after = self.check()
        left = {_identity(f) for f in after.findings}
        known = {_identity(f) for f in before}
        told = [f.model_copy(update={"repaired": _identity(f) not in left}) for f in before]
        told += [
            f.model_copy(update={"repaired": False}) for f in after.findings if _identity(f) not in known
        ]
        return after.model_copy(update={"findings": tuple(told)})

    # -- pods' own ----------------------------------------------------------------------------------------------

    def _check_pods(self) -> None:
        with ThreadPoolExecutor(max_workers=8, thread_name_prefix="audit") as pool:
            for pod, records in self._pods.values():
                if pod.state not in AT_REST or pod.wanted != "present":
                    continue
                verdict = verify(pod, records, self._world, self._site, pool)
                for plane, number in verdict.looked_at.items():
                    self._checked[plane] = self._checked.get(plane, 0) + number
                for problem in verdict.problems:
                    missing = problem.text.endswith("is not there")
                    self._find(
                        "unknown" if problem.unknown else "missing" if missing else "different",
                        problem.key.split("/")[0] if problem.key else "fabric",
                        pod.plan.fabric if problem.key is None else pod.plan.cloud,
                        problem.key or ", ".join(problem.nodes) or pod.name,
                        problem.text,
                        pod=pod.name,
                        repair="" if problem.unknown else "the pod's loop mends it, servers included",
                    )

    # -- orphans ------------------------------------------------------------------------------------------------

    def _check_marked(self, where: str) -> None:
        try:
            things = self._world.resources[where].marked(self._site.name, ())
        except WeftError as error:
            self._find("unknown", "listing", where, where, str(error))
            return
        self._checked[f"things with weft's mark in {where}"] = len(things)
        for thing in things:
            if not self._owned(thing):
                self._orphans.append(thing)
                self._find(
                    "orphan",
                    thing.kind,
                    where,
                    f"{thing.name} {thing.id}".strip(),
                    f"bears the mark of pod {thing.pod_id or 'unknown'}, and no live pod owns it",
                    repair="it is removed after its mark is checked again",
                )

    def _owned(self, thing: Marked) -> bool:
        if thing.kind is Kind.PARTITION:
            return any(
                format_pkey(spec.pkey) == thing.id and thing.pod_id in (None, str(pod.id))
                for pod, spec in self._partitions(thing.where)
            )
        for pod, records in self._pods.values():
            if thing.pod_id and str(pod.id) == thing.pod_id:
                mine = [r for r in records if r.kind is thing.kind and r.state is not RowState.ABSENT]
                return any(
                    r.outside_id == thing.id or (r.outside_id is None and r.resource.name == thing.name)
                    for r in mine
                )
        return False

    # -- the wire -----------------------------------------------------------------------------------------------

    def _check_wire(self, name: str) -> None:
        """Keys inside weft's range that no partition of a live pod explains."""
        reader, mine = self._world.fabrics[name], self._site.fabrics[name].segments
        try:
            configured, tables = reader.partitions(), reader.tables()
            status = reader.status()
        except WeftError as error:
            self._find("unknown", "fabric", name, name, str(error))
            return
        for problem in [*status.problems, *(f"{m.name}: {p}" for m in status.managers for p in m.problems)]:
            self._find(
                "different", "fabric manager", name, name, problem, repair="the fabric's operator must look"
            )
        owned = {spec.pkey: (pod, set(spec.members)) for pod, spec in self._partitions(name)}
        marked = {o.id for o in self._orphans if o.where == name}
        self._checked[f"host ports of {name}"] = len(tables)
        self._checked[f"partitions of {name}"] = len(configured)
        for pkey, partition in sorted(configured.items()):
            if pkey in mine and pkey not in owned and format_pkey(pkey) not in marked:
                text = f"partition {partition.name or '(no name)'} is not weft's and lies inside weft's range"
                self._find("foreign", "partition", name, format_pkey(pkey), text, repair=_NOT_OURS)
        for guid, table in sorted(tables.items()):
            if table.unreachable:
                self._find("unknown", "p_key", name, port_name(self._site, guid), table.unreachable)
                continue
            self._check_port(name, guid, table, owned)

    def _check_port(
        self, fabric: str, guid: int, table: PortTable, owned: dict[int, tuple[PodRecord, set[int]]]
    ) -> None:
        mine = self._site.fabrics[fabric].segments
        leaf = frozenset(table.leaf_keys or ())
        for pkey in sorted({k & ~FULL_MEMBER for k in table.keys | leaf} & set(mine.numbers())):
            pod, members = owned.get(pkey, (None, set[int]()))
            if guid in members:
                continue
            port = port_name(self._site, guid)
            on_leaf = not {pkey, FULL_MEMBER | pkey} & table.keys
            where = f"{table.leaf}[{table.leaf_port}] of {port}" if on_leaf else port
            if pod is not None:
                text = f"{where} has {format_pkey(pkey)} of pod {pod.name} and is no member"
                self._find("different", "p_key", fabric, port, text, pod.name, "the pod's loop mends it")
            else:
                text = f"{where} has {format_pkey(pkey)}, inside weft's range, and no live pod holds that key"
                self._find("foreign", "p_key", fabric, port, text, repair=_NOT_OURS)

    def _partitions(self, fabric: str) -> list[tuple[PodRecord, PartitionSpec]]:
        """What live pods have, or are about to have or lose, on a fabric."""
        return [
            (pod, r.resource.spec)
            for pod, records in self._pods.values()
            for r in records
            if isinstance(r.resource.spec, PartitionSpec)
            and r.resource.where == fabric
            and r.state is not RowState.ABSENT
        ]

    # -- the rest -----------------------------------------------------------------------------------------------

    def _wait_mended(self, names: set[str]) -> None:
        deadline = self._clock.monotonic() + MEND_PATIENCE
        while names and self._clock.monotonic() < deadline:
            self._clock.sleep(0.5)
            if not any(p.name in names and p.mend for p in self._store.live_pods()):
                return

    def _find(
        self,
        category: str,
        kind: str,
        where: str,
        subject: str,
        what: str,
        pod: str | None = None,
        repair: str = "",
    ) -> None:
        self._findings.append(
            Finding.model_validate(
                {
                    "category": category,
                    "kind": str(kind),
                    "where": where,
                    "subject": subject,
                    "pod": pod,
                    "what": what,
                    "repair": repair,
                }
            )
        )

    def _report(self) -> AuditReport:
        return AuditReport(
            at=self._clock.now(), site=self._site.name, checked=self._checked, findings=tuple(self._findings)
        )


_NOT_OURS = "nothing: it doesn't bear weft's mark; a person must look"


def _identity(finding: Finding) -> tuple[str, ...]:
    return (finding.category, finding.kind, finding.where, finding.subject, finding.pod or "")
