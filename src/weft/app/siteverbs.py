"""The verbs about the site's document, and the certificates of its agents."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256

from weft.app.desk import DeskVerbs
from weft.app.show import site_view
from weft.app.siteedit import edited
from weft.app.sitefile import load_site
from weft.app.siteholds import SiteHolds
from weft.app.verbs import Request
from weft.engine.rows.siteparts import SiteRecord
from weft.engine.store.agentcertificates import AgentCertificates
from weft.model.errors import InputError, NotFoundError, PreconditionError
from weft.model.site import Site
from weft.model.siteparts import MissingParts, StoredPart
from weft.model.views import AgentCertificateView, SiteView


class SiteVerbs(DeskVerbs):
    """Verbs of operators; see `weft.app.verbs`."""

    _checked_site: SiteRecord | None = None
    """The site that this process has checked last. A cache: without it a check only takes longer."""

    def activate(
        self, request: Request, document: dict[str, object], base: int | None = None, instead: bool = False
    ) -> SiteView:
        """Check a site and make it the active one, as a new generation.

        Args:
            document: long tables may be `{"parts": [digest, …]}` of parts that were uploaded before.
            base: generation that the document is based on, 0 for the first; `PreconditionError` if it isn't active.
            instead: `PreconditionError` if no site is active.
        """
        with self._desk.logged(request, "site activate", str(document.get("name", ""))[:63]):
            self._desk.policy.check("site:activate", request.caller)
            if instead:
                self._check_active()
            site = self._read_site(document)
            holds = SiteHolds(self._desk.store, self._desk.keeper)
            record = self._desk.store.activate_site(site, request.caller.user_name, base, holds.check)
            if record.site == site:
                self._checked_site = record
            return site_view(record)

    def _check_active(self) -> None:
        try:
            self._desk.store.site()
        except NotFoundError as none:
            raise PreconditionError(none.message) from None

    def _read_site(self, document: dict[str, object]) -> Site:
        """The site of a document, checked; only the difference is checked if it is small and this process has
        checked the rest before."""
        record = self._checked_site
        with suppress(NotFoundError):  # of a database that was restored to before its first site
            if record is not None and record is self._desk.store.site():
                site = edited(record, document, self._desk.store.sites)
                if site is not None:
                    return site
        return load_site(document, parts=self._desk.store.sites)

    def missing_parts(self, request: Request, digests: Sequence[str]) -> MissingParts:
        """Which of these parts of a site must be uploaded."""
        with self._desk.refusals(request, "site send", f"{len(digests)} parts"):
            self._desk.policy.check("site:activate", request.caller)
            return MissingParts(missing=tuple(self._desk.store.sites.missing(digests)))

    def send_part(self, request: Request, digest: str, body: bytes) -> StoredPart:
        """Store rows of a table, a JSON list, for a site that will be activated.

        Raises `InputError` if `digest` isn't the SHA-256 of the body, `ConflictError` if too much is stored already.
        """
        with self._desk.refusals(request, "site send", digest):
            self._desk.policy.check("site:activate", request.caller)
            if sha256(body).hexdigest() != digest:
                raise InputError(
                    "digest", digest, "the SHA-256 of the body in hexadecimal digits, a-f and not A-F"
                )
            self._desk.store.sites.add(digest, body)
            return StoredPart(digest=digest, bytes=len(body))

    def part(self, request: Request, digest: str) -> bytes:
        """A part of the active site."""
        self._desk.policy.check("site:show", request.caller)
        body = self._desk.store.site().cut.parts.get(digest)
        if body is None:
            raise NotFoundError("the active site has no such part; another one may have become active")
        return body

    def show(self, request: Request) -> SiteView:
        """The active site with the state of its fabrics. Raises `ForbiddenError` and `NotFoundError`."""
        self._desk.policy.check("site:show", request.caller)
        record = self._desk.store.site()
        world = self._desk.keeper.world()
        return site_view(record, tuple(world.fabrics[name].status() for name in sorted(world.fabrics)))

    def certificates(self, request: Request) -> list[AgentCertificateView]:
        """Certificates of the site's agents, and weft's own for them, as workers saw them last."""
        self._desk.policy.check("site:certificates", request.caller)
        return [
            AgentCertificateView(
                fabric=row.fabric,
                kind=row.kind,
                name=row.agent,
                serial=row.serial,
                expires_at=row.not_after,
                seen_at=row.seen_at,
                issued_at=row.issued_at,
                state=row.message,
            )
            for row in AgentCertificates(self._desk.store.database).list()
        ]
