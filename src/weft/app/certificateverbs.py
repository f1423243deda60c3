"""The verb about certificates of agents."""

from __future__ import annotations

from weft.app.desk import Desk
from weft.app.verbs import Request
from weft.engine.rows.agentcertificates import AgentCertificates
from weft.model.views import AgentCertificateView


class CertificateVerbs:
    """Of operators; see `weft.app.verbs`."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

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
