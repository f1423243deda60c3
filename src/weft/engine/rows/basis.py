"""What a decision is based on, checked where it is written: a site that is still active, a row's revision."""

from __future__ import annotations

from dataclasses import dataclass

from weft.engine.base.database import Database, Tx
from weft.model.errors import PreconditionError
from weft.model.messages.errors import REVISION_CHANGED


class SiteChangedError(Exception):
    """Another generation of the site is active: write nothing, start again."""


@dataclass(frozen=True, slots=True)
class SiteFence:
    """Created before the site is read, so that a site activated meanwhile is detected."""

    generation: int | None

    @classmethod
    def now(cls, database: Database) -> SiteFence:
        with database.statement() as tx:
            return cls(_generation(tx))

    def hold(self, tx: Tx) -> None:
        """Keep the site as it is until the transaction ends. Raises `SiteChangedError` if it has changed."""
        tx.run("hold_site")
        check_active(self.generation, _generation(tx))


def check_active(generation: int | None, now: int | None) -> None:
    """Raise `SiteChangedError` if the active generation isn't the one that the decision is based on."""
    if now != generation:
        raise SiteChangedError(f"generation {now} of the site is active, no longer {generation}")


def _generation(tx: Tx) -> int | None:
    row = tx.row("current_site_generation")
    return row["generation"] if row else None


def check_revision(what: str, now: int, given: int | None) -> None:
    """Raise `PreconditionError` unless a row has the revision that was given; None: any will do.

    Args:
        what: the thing that is changed, for the error.
        now: the revision of its row, which is locked.
    """
    if given not in (None, now):
        raise PreconditionError(REVISION_CHANGED(what=what, now=now, given=given))
