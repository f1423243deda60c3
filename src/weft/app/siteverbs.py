"""The verbs of operators: site, fabric, audit."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from hashlib import sha256

from weft.app.desk import Desk
from weft.app.show import site_view
from weft.app.siteedit import edited
from weft.app.sitefile import checked, load_site
from weft.app.siteholds import SiteHolds
from weft.app.verbs import Request
from weft.engine.audit.audit import Auditor
from weft.engine.base.epoch import accept_database
from weft.engine.proof.takeback import Confirmed
from weft.engine.rows.siteparts import SiteRecord
from weft.model.errors import InputError, NotFoundError, PreconditionError
from weft.model.site import Site
from weft.model.siteparts import MissingParts, StoredPart
from weft.model.views import (
    AuditLogEntry,
    AuditLogSearch,
    AuditReport,
    FabricComparison,
    FabricReading,
    LeafView,
    SiteView,
)
from weft.planning.fabric.diff import adopt_links, fabric_differences
from weft.planning.fabric.topology import Topology
from weft.planning.kept import kept


class SiteVerbs(Desk):
    """Verbs of operators; see `weft.app.verbs`."""

    _checked_site: SiteRecord | None = None
    """The site that this process has checked last: nothing but time is lost without it."""

    def audit(
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
            self._policy.check("audit:check", request.caller)
            return self._auditor().check()
        subject = f"findings {', '.join(findings)}" if findings else "everything"
        subject += f", unknown pods {', '.join(unknown_pods)}" if unknown_pods else ""
        with self._logged(request, "audit repair", subject[:500]):
            self._policy.check("audit:repair", request.caller)
            confirmed: Confirmed = "all" if "all" in unknown_pods else frozenset(unknown_pods)
            return self._auditor().repair(confirmed, frozenset(findings) or None)

    def accept_database(self, request: Request) -> AuditReport:
        """Audit everything, then allow placement and changes again after the database was restored."""
        with self._logged(request, "audit accept", "the database"):
            self._policy.check("audit:repair", request.caller)
            report = self._auditor().check()
            name = self._store.site().site.name
            accept_database(self._store.database, self._keeper.world().clouds, name)
            return report

    def audit_log(self, request: Request, search: AuditLogSearch) -> list[AuditLogEntry]:
        self._policy.check("audit_log:list", request.caller)
        return self._store.records.audit_log(search)

    def activate_site(
        self, request: Request, document: dict[str, object], base: int | None = None, instead: bool = False
    ) -> SiteView:
        """Args:
        document: long tables may be `{"parts": [digest, …]}` of parts that were uploaded before.
        base: generation that the document is based on, 0 for the first; `PreconditionError` if it isn't active.
        instead: `PreconditionError` if no site is active.
        """
        with self._logged(request, "site activate", str(document.get("name", ""))[:63]):
            self._policy.check("site:activate", request.caller)
            if instead:
                self._check_active()
            site = self._read_site(document)
            holds = SiteHolds(self._store, self._keeper)
            record = self._store.activate_site(site, request.caller.user_name, base, holds.check)
            if record.site == site:
                self._checked_site = record
            return site_view(record)

    def _check_active(self) -> None:
        try:
            self._store.site()
        except NotFoundError as none:
            raise PreconditionError(none.message) from None

    def _read_site(self, document: dict[str, object]) -> Site:
        """The checked site of a document; where it differs little from one that this process has checked, only that."""
        record = self._checked_site
        with suppress(NotFoundError):  # of a database that was restored to before its first site
            if record is not None and record is self._store.site():
                site = edited(record, document, self._store.sites)
                if site is not None:
                    return site
        return load_site(document, parts=self._store.sites)

    def missing_parts(self, request: Request, digests: Sequence[str]) -> MissingParts:
        """Which of these parts of a site must be uploaded."""
        with self._refusals(request, "site send", f"{len(digests)} parts"):
            self._policy.check("site:activate", request.caller)
            return MissingParts(missing=tuple(self._store.sites.missing(digests)))

    def send_part(self, request: Request, digest: str, body: bytes) -> StoredPart:
        """Store rows of a table, a JSON list, for a site that will be activated.

        Raises `InputError` if `digest` isn't the SHA-256 of the body, `ConflictError` if too much is stored already.
        """
        with self._refusals(request, "site send", digest):
            self._policy.check("site:activate", request.caller)
            if sha256(body).hexdigest() != digest:
                raise InputError(
                    "digest", digest, "the SHA-256 of the body in hexadecimal digits, a-f and not A-F"
                )
            self._store.sites.add(digest, body)
            return StoredPart(digest=digest, bytes=len(body))

    def site_part(self, request: Request, digest: str) -> bytes:
        """A part of the active site."""
        self._policy.check("site:show", request.caller)
        body = self._store.site().cut.parts.get(digest)
        if body is None:
            raise NotFoundError("the active site has no such part; another one may have become active")
        return body

    def show_site(self, request: Request) -> SiteView:
        self._policy.check("site:show", request.caller)
        record = self._store.site()
        world = self._keeper.world()
        return site_view(record, tuple(world.fabrics[name].status() for name in sorted(world.fabrics)))

    def fabric_readings(self, request: Request) -> list[FabricReading]:
        """What workers read last of each fabric's managers, by name; no manager is asked."""
        self._policy.check("site:show", request.caller)
        seen = {one.fabric: asdict(one) for one in self._store.fabrics_seen()}
        names = sorted(self._store.site().site.fabrics)
        return [FabricReading(**seen[name]) if name in seen else FabricReading(fabric=name) for name in names]

    def leaves(self, request: Request) -> list[LeafView]:
        """The leaves of the active site's fabrics that nodes are on, in tree order."""
        self._policy.check("site:show", request.caller)
        return list(_leaves(self._store.site().site))

    def compare_fabric(self, request: Request, fabric: str | None = None) -> FabricComparison:
        """The cables of the active site against those discovered now; None: the only fabric."""
        self._policy.check("site:show", request.caller)
        record = self._store.site()
        name = self._fabric_name(record.site, fabric)
        observed = self._keeper.world().fabric(name).topology()
        differences = fabric_differences(record.site, name, observed)
        return FabricComparison(
            fabric=name,
            generation=record.generation,
            discovered_nodes=len(observed.nodes),
            discovered_cables=len(observed.links),
            differences=differences,
            partial=observed.partial,
        )

    def adopt_cabling(self, request: Request, fabric: str | None = None) -> SiteView:
        """Activate a new generation of the site with the discovered cabling."""
        with self._logged(request, "site adopt cabling", fabric or "the only fabric"):
            self._policy.check("site:activate", request.caller)
            record = self._store.site()
            site = record.site
            name = self._fabric_name(site, fabric)
            links = adopt_links(site, name, self._keeper.world().fabric(name).topology())
            # Checked like any site file: the discovered cabling must also result in a valid site.
            changed = checked(site.model_copy(update={"links": links}))
            return site_view(self._store.activate_site(changed, request.caller.user_name, record.generation))

    def _auditor(self) -> Auditor:
        return Auditor(self._store, self._keeper.world(), self._store.site().site, self._clock)

    @staticmethod
    def _fabric_name(site: Site, fabric: str | None) -> str:
        """The fabric, or the only one. Raises `InputError`."""
        names = sorted(site.fabrics)
        if fabric is None and len(names) == 1:
            return names[0]
        if fabric is None or fabric not in site.fabrics:
            raise InputError("fabric", fabric, f"fabrics of site {site.name}: {', '.join(names)}")
        return fabric


@kept
def _leaves(site: Site) -> Sequence[LeafView]:
    found: list[LeafView] = []
    for fabric in sorted(site.fabrics):
        one = Topology.of(site, fabric)
        for block, leaves in one.blocks.items():
            found += [
                LeafView(name=leaf, fabric=fabric, block=block, uplink_gbps=one.uplinks.get(leaf))
                for leaf in leaves
            ]
    return found
