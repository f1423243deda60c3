"""Certificates of agents, and weft's own for them, as the database remembers them: what was seen last, what was issued.

A worker claims those that are due, so each is looked at by one. An issue is written before the certificate leaves, and
at most once within `LEAST`, whichever process signs: two that sign at once give out one certificate.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, Self

from weft.engine.base.database import Database
from weft.engine.base.documents import message_json, message_text
from weft.model.messages.message import message

LEAST = timedelta(hours=1)
"""Shortest time between two certificates for the same agent."""
HOLD = timedelta(minutes=10)
"""How long a claim keeps others away: longer than looking at a whole batch takes."""

LATE = timedelta(days=30)
"""A certificate is late with less of its life left than this, or than half of a shorter life."""

Kind = Literal["agent", "own"]


@dataclass(frozen=True, slots=True)
class SeenCertificate:
    """A row: one certificate as it was seen last.

    Attributes:
        fabric: of the site.
        kind: `agent`, or `own`: weft's own.
        agent: name of the agent; for weft's own, host and file.
        serial: in hexadecimal; None, as the times: it was never seen.
        issued_at: when weft signed one for it last.
        message: its state.
    """

    fabric: str
    kind: Kind
    agent: str
    serial: str | None
    not_before: datetime | None
    not_after: datetime | None
    seen_at: datetime | None
    issued_at: datetime | None
    message: str

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Self:
        """From a row."""
        values: dict[str, Any] = {name: row[name] for name in cls.__slots__}
        values["message"] = message_text(row["message"])
        return cls(**values)

    @property
    def code(self) -> str:
        """Code of its state; empty: it wasn't observed yet."""
        return message(self.message).code

    def is_late(self, now: datetime) -> bool:
        """Whether it must not stay unrenewed."""
        if self.not_before is None or self.not_after is None:
            return False
        return is_late(self.not_before, self.not_after, now)


def is_late(begin: datetime, end: datetime, now: datetime) -> bool:
    """Whether so little of a certificate's life is left that it must not stay unrenewed."""
    return end - now < min(LATE, (end - begin) / 2)


class AgentCertificates:
    """Reads and writes the rows."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def now(self) -> datetime:
        """The database's time."""
        return self._database.now()

    def keep(self, agents: Iterable[tuple[str, str]]) -> None:
        """Have a row for each agent, by fabric and name, and none for others."""
        named = sorted(agents)
        fabrics, names = [fabric for fabric, _ in named], [name for _, name in named]
        self._database.run("keep_agent_certificates", fabrics=fabrics, agents=names)

    def claim(self, limit: int) -> list[SeenCertificate]:
        """Agents whose certificate is due to be looked at; no other process does for `HOLD`."""
        return [
            SeenCertificate.of(row)
            for row in self._database.rows("claim_agent_certificates", limit=limit, hold=HOLD)
        ]

    def own(self, fabric: str, name: str) -> SeenCertificate:
        """The row of one of weft's own."""
        row = self._database.row("own_certificate", fabric=fabric, agent=name)
        assert row is not None
        return SeenCertificate.of(row)

    def issue(self, of: SeenCertificate, serial: str, end: datetime) -> bool:
        """Note that a certificate is about to be given out; False: another one was, less than `LEAST` ago."""
        row = self._database.row(
            "note_certificate_issue",
            fabric=of.fabric,
            kind=of.kind,
            agent=of.agent,
            serial=serial,
            not_after=end,
            least=LEAST,
        )
        return row is not None

    def note(
        self,
        of: SeenCertificate,
        message: str,
        pause: timedelta,
        seen: tuple[str, datetime, datetime] | None = None,
    ) -> None:
        """Write the state, and when to look again.

        Args:
            seen: serial number, begin and end of the certificate; None: it wasn't seen.
        """
        serial, begin, end = seen or (None, None, None)
        self._database.run(
            "note_certificate",
            fabric=of.fabric,
            kind=of.kind,
            agent=of.agent,
            message=message_json(message),
            pause=pause,
            serial=serial,
            not_before=begin,
            not_after=end,
        )

    def list(self) -> list[SeenCertificate]:
        """All rows, by fabric and name."""
        return [SeenCertificate.of(row) for row in self._database.rows("agent_certificates")]

    def trim(self) -> None:
        """Remove rows that are no longer needed."""
        with self._database.transaction() as tx:
            tx.run("trim_issued_certificates")
            tx.run("trim_own_certificates")
