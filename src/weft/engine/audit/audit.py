"""The audit: compares what is outside with what live owners have. `repair` repairs what is weft's, and only that.

External objects are listed before the database is read: what is ordered meanwhile can't look like an orphan.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence, Set
from uuid import UUID

from weft.engine.audit.auditcompare import Compared, Comparison, is_repaired
from weft.engine.audit.findings import Findings, about, after_repair, identity
from weft.engine.audit.outside import Outside, look_outside
from weft.engine.base.world import World
from weft.engine.proof.intruders import clear_pod, clear_strays
from weft.engine.proof.takeback import Confirmed, Stray, TakeBack, why_not
from weft.engine.rows.ownerrecord import OwnerRecord
from weft.engine.store.store import Store
from weft.model.errors import InputError, InputErrors, WeftError
from weft.model.site import Site
from weft.model.views import AuditReport, Finding
from weft.ports.clock import Clock

REPAIR_PATIENCE = 120.0
"""Seconds that a repair waits for the loop to repair a pod."""


SHOWN_KEYS = 20
"""Most unknown keys that an error names; the rest are counted."""


class Auditor:
    """Runs audits; reads everything again on each call.

    Args:
        pause: seconds between checks of what a repair waits for.
    """

    def __init__(self, store: Store, world: World, site: Site, clock: Clock, pause: float = 0.5) -> None:
        self._store, self._world, self._site, self._clock = store, world, site, clock
        self._pause = pause

    def check(self) -> AuditReport:
        """Check everything; change nothing."""
        return self._compare(self._look(), ()).report

    def repair(self, confirmed: Confirmed = (), only: Set[str] | None = None) -> AuditReport:
        """Check, repair what is weft's, check again, and report for each finding whether the repair was confirmed.

        While the gate is closed (`weft.engine.base.gate`) it only checks.

        Args:
            confirmed: owners unknown to the database that the operator has confirmed as ended.
            only: keys of the findings to repair; None: all. Owners that lack something are repaired as a whole.

        Raises `InputErrors` for keys that no finding has now, before anything is changed.
        """
        outside = self._look()
        first = self._compare(outside, confirmed)
        report = first.report
        _check_found(report, only or ())
        if (closed := self._store.database.gate.closed()) is not None:
            rows = [after_repair(f, False, str(closed)) if _is_in(f, only) else f for f in report.findings]
            return report.model_copy(update={"findings": tuple(rows)})
        before = report.findings
        chosen = [f for f in before if _is_in(f, only)]
        taken = TakeBack(self._store, self._world, self._clock, outside.began_at, confirmed, self._pause)
        things = None if only is None else {(f.kind, f.where, f.id) for f in chosen}
        strays = [s for s in first.strays if things is None or _thing(s) in things]
        trouble = Findings()
        ids = None if things is None else {f.id for f in chosen}
        why = self._clear_networks(first, confirmed, strays, ids, trouble)
        taken.remove(s for s in strays if s.thing.id not in first.kept)
        why |= {thing_id: text for (_, thing_id), text in taken.left.items()}
        sick = {i for i in first.sick if is_repaired(first.live[i][0])}
        if only is not None:
            named = {f.pod_id or f.owner for f in chosen if f.category in ("missing", "different")}
            sick = {i for i in sick if _named(first.live[i][0]) in named}
        for owner_id in sick:
            self._store.request_repair(owner_id)
        self._wait_repaired(sick)
        after = self._compare(self._look(), confirmed).report
        left = {identity(f) for f in after.findings}
        known = {identity(f) for f in before}
        rows = [after_repair(f, identity(f) not in left, why.get(f.id, "")) for f in chosen]
        rows += [f for f in after.findings if not _is_in(f, only) and identity(f) in known]
        rows += [after_repair(f, False, "") for f in after.findings if identity(f) not in known]
        rows += trouble.rows
        return after.model_copy(update={"findings": tuple(rows)})

    def _clear_networks(
        self,
        found: Compared,
        confirmed: Confirmed,
        strays: Sequence[Stray],
        only: Set[str] | None,
        trouble: Findings,
    ) -> dict[str, str]:
        """Remove other projects' things on networks that are being deleted, and on those that only the pod may use.

        Args:
            only: ids of these things; None: all.
            trouble: gets a finding for what couldn't be cleared.
        """
        why: dict[str, str] = {}
        fence = self._store.database.gate.check  # the comparison may have taken minutes
        try:
            for pod_id, theirs in found.intruders.items():
                ids = theirs if only is None else theirs & only
                if not ids:
                    continue
                pod = self._store.pods.find(str(pod_id), None)
                why |= clear_pod(pod, self._store.pods.resources(pod_id), self._world, ids, fence)
                self._store.wake(pod_id)
            now = self._clock.now()
            going = [s for s in strays if not why_not(s, now, confirmed)]
            why |= clear_strays(self._world, going, fence)
        except WeftError as error:
            text = f"networks can't be cleared: {error}"
            trouble.add("unknown", "network", self._site.name, "repair", text)
        return why

    def _compare(self, outside: Outside, confirmed: Confirmed) -> Compared:
        return Comparison(self._store, self._world, self._site, self._clock, outside, confirmed).run()

    def _look(self) -> Outside:
        self._store.database.gate.look()
        return look_outside(self._world, self._site.name, self._clock)

    def _wait_repaired(self, ids: set[UUID]) -> None:
        deadline = self._clock.monotonic() + REPAIR_PATIENCE
        while ids and self._clock.monotonic() < deadline:
            self._clock.sleep(self._pause)
            if not ids & self._store.pods.under_repair():
                return


def _check_found(report: AuditReport, keys: Collection[str]) -> None:
    """Raise `InputErrors` for keys of no finding in the report: a typing error would look like a clean repair."""
    unknown = sorted(set(keys) - {finding.key for finding in report.findings})
    allowed = "the key of a finding of an audit now; nothing was changed"
    if unknown:
        shown = [InputError("findings", key, allowed) for key in unknown[:SHOWN_KEYS]]
        raise InputErrors(shown, len(unknown) - len(shown))


def _is_in(finding: Finding, only: Set[str] | None) -> bool:
    return only is None or finding.key in only


def _named(owner: OwnerRecord) -> str | None:
    """How findings name an owner."""
    mine = about(owner.owner, owner.name)
    return mine.get("pod_id") or mine.get("owner")


def _thing(stray: Stray) -> tuple[str, str, str]:
    """Kind, place and id, as its finding has them."""
    return str(stray.thing.kind), stray.thing.where, stray.thing.id
