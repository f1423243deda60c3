"""The verbs about the audit and the audit log."""

from __future__ import annotations

from collections.abc import Sequence

from weft.app.desk import DeskVerbs
from weft.app.verbs import Request
from weft.engine.audit.audit import Auditor
from weft.engine.base.epoch import accept_database
from weft.engine.proof.takeback import Confirmed
from weft.model.views import (
    AuditLogEntry,
    AuditLogSearch,
    AuditReport,
)


class AuditVerbs(DeskVerbs):
    """Verbs of operators; see `weft.app.verbs`."""

    def run(
        self,
        request: Request,
        repair: bool = False,
        unknown_pods: Sequence[str] = (),
        findings: Sequence[str] = (),
    ) -> AuditReport:
        """Compare; with `repair` repair what is weft's.

        `findings`: repair only these, by `Finding.key`; none: all. Raises `InputErrors` for keys that no finding has.

        `unknown_pods`: ids of pods that the database doesn't know and whose resources may be removed anyway (`all`: of
        any): after a restore of the database they may be live.
        """
        if not repair:
            self._desk.policy.check("audit:check", request.caller)
            return self._auditor().check()
        subject = f"findings {', '.join(findings)}" if findings else "everything"
        subject += f", unknown pods {', '.join(unknown_pods)}" if unknown_pods else ""
        with self._desk.logged(request, "audit repair", subject[:500]):
            self._desk.policy.check("audit:repair", request.caller)
            confirmed: Confirmed = "all" if "all" in unknown_pods else frozenset(unknown_pods)
            return self._auditor().repair(confirmed, frozenset(findings) or None)

    def accept_database(self, request: Request) -> AuditReport:
        """Audit everything, then allow placement and changes again after the database was restored."""
        with self._desk.logged(request, "audit accept", "the database"):
            self._desk.policy.check("audit:repair", request.caller)
            report = self._auditor().check()
            name = self._desk.store.site().site.name
            accept_database(self._desk.store.database, self._desk.keeper.world().clouds, name)
            return report

    def log(self, request: Request, search: AuditLogSearch) -> list[AuditLogEntry]:
        """Entries of the audit log, newest first. Raises `ForbiddenError`."""
        self._desk.policy.check("audit_log:list", request.caller)
        return self._desk.store.records.audit_log(search)

    def _auditor(self) -> Auditor:
        return Auditor(
            self._desk.store, self._desk.keeper.world(), self._desk.store.site().site, self._desk.clock
        )
