"""Checks of the database: reached, current, in time, with workers. They read the site for the other checks."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from datetime import timedelta
from pathlib import Path

from weft import __version__
from weft.app.doctor.findings import DoctorFinding, finding
from weft.app.settings import ServeSettings
from weft.engine.base.schema import State
from weft.engine.base.sealing import read_keys
from weft.engine.store.inspection import Inspection, inspecting
from weft.model.errors import InputError, OutsideError
from weft.model.site import Site

OF = "database"
CLOCKS = timedelta(seconds=2)
"""Most that the database's clock and this host's may differ, besides what can't be measured."""


class DatabaseCheck:
    """Looks at the database.

    Attributes:
        site: the active one, once it is read.
        url: of the database, once its schema is seen to be this version's.
    """

    def __init__(self, settings: ServeSettings, seconds: float) -> None:
        self._settings, self._seconds = settings, seconds
        self.site: Site | None = None
        self.url: str | None = None

    def look(self) -> Iterator[DoctorFinding]:
        """All findings about the database; nothing is started, migrated or written."""
        url = self._settings.database
        if url is None:
            url = yield from self._embedded(self._settings.state)
            if url is None:
                return
        try:
            with inspecting(url, self._seconds / 2) as inspection:
                yield from self._inspected(inspection, url)
        except OutsideError as error:
            yield finding("DATABASE_UNREACHABLE", OF, error)

    def _embedded(self, state: Path) -> Generator[DoctorFinding, None, str | None]:
        """URL of the server in the state directory; None: it can't be used."""
        from weft.engine.base.embedded import (
            running_in,  # those with a server of their own don't need the wheel
        )

        try:
            found = running_in(state)
        except OSError as error:
            said = f"{state} can't be looked at ({error.strerror}): run the doctor as weft's user"
            yield finding("CHECK_FAILED", OF, said)
            return None
        if found is None:
            yield finding("DATABASE_STOPPED", OF, f"no PostgreSQL runs in {state}: weft serve starts it")
            return None
        url, closed = found
        if closed:
            yield finding(
                "SOCKET_CLOSED", OF, f"the PostgreSQL in {state} and its socket are closed to others"
            )
        else:
            said = (
                f"others may enter the folder or the socket of the PostgreSQL in {state}: restart weft serve"
            )
            yield finding("SOCKET_OPEN", OF, said)
        return url

    def _inspected(self, inspection: Inspection, url: str) -> Iterator[DoctorFinding]:
        yield finding("DATABASE_ANSWERS", OF, f"PostgreSQL {inspection.version} answers")
        if inspection.standby:
            said = "it is a standby: add target_session_attrs=read-write to the URL, and name the primary"
            yield finding("DATABASE_READ_ONLY", OF, said)
        ahead, inexact = inspection.clock_ahead()
        if abs(ahead) <= CLOCKS + inexact:
            yield finding("CLOCK_AGREES", OF, "its clock agrees with this host's")
        else:
            word = "ahead of" if ahead > timedelta() else "behind"
            seconds = abs(ahead).total_seconds()
            said = f"its clock, by which all of weft's times are, is {seconds:.1f} s {word} this host's"
            yield finding("CLOCK_DIFFERS", OF, said)
        schema = inspection.schema()
        if schema is None:
            yield finding("SCHEMA_MISSING", OF, "it has no tables of weft's yet: weft serve makes them")
        elif schema.barred:
            said = f"the upgrade to a newer weft was finished ({schema.barred[-1]}): upgrade weft"
            yield finding("SCHEMA_NEWER", OF, said)
        elif schema.pending:
            said = f"{len(schema.pending)} migrations are pending ({schema.pending[0]} first): weft serve makes them"
            yield finding("SCHEMA_OLDER", OF, said)
        else:
            self.url = url
            yield from self._halves(schema)
            yield from self._in_use(inspection)

    @staticmethod
    def _halves(schema: State) -> Iterator[DoctorFinding]:
        """Findings about halves of an upgrade that aren't made yet."""
        if schema.newer:
            said = f"a newer weft has migrated it ({schema.newer[-1]}): this version works beside that until its end"
            yield finding("SCHEMA_BESIDE", OF, said)
        if schema.unfinished:
            begun = " (begun: run it again)" if schema.announced else ""
            said = f"{len(schema.unfinished)} parts of the upgrade are left ({schema.unfinished[0]} first): once no "
            yield finding("UPGRADE_UNFINISHED", OF, f"{said}older process runs, weft upgrade --finish{begun}")
        if not schema.newer and not schema.unfinished:
            yield finding("SCHEMA_CURRENT", OF, "the schema is that of this version")

    def _secrets(self, inspection: Inspection) -> Iterator[DoctorFinding]:
        """Whether the keys open the database's secrets; nothing if none is encrypted and no key is set."""
        of = "secrets of the database"
        try:
            seal = read_keys(self._settings.secrets_key)
        except InputError as error:
            yield finding("SECRETS_LOCKED", of, error)
            return
        rows = inspection.secrets(seal)
        if locked := [one.name for one in rows if one.sealed and one.key is None]:
            said = f"no key of weft.secrets_key opens {', '.join(locked)}: weft serve doesn't start"
            yield finding("SECRETS_LOCKED", of, said)
        elif seal.seals and (due := [one.name for one in rows if one.key != 1]):
            said = f"not encrypted with the first key: {', '.join(due)}: weft secrets rotate"
            yield finding("SECRETS_DUE", of, said)
        elif seal.seals:
            yield finding("SECRETS_SEALED", of, "all are encrypted with the first key of weft.secrets_key")

    def _in_use(self, inspection: Inspection) -> Iterator[DoctorFinding]:
        yield from self._secrets(inspection)
        workers = inspection.workers()
        others = [
            f"{name} ({version or 'older'})" for name, version in workers.items() if version != __version__
        ]
        others += [
            f"{one.role} {one.name} ({one.version})"
            for one in inspection.processes()
            if one.version != __version__ and one.name not in workers
        ]
        if workers:
            yield finding("WORKERS_ALIVE", "workers", f"{len(workers)} alive: {_some(list(workers))}")
        if others:
            said = f"not of version {__version__}, as this program: {_some(others)}: upgrade them, then weft upgrade"
            yield finding("WORKERS_DIFFER", "workers", said)
        if not workers:
            said = (
                "none sent a heartbeat within a minute: start weft worker, or weft serve without --no-worker"
            )
            yield finding("WORKERS_NONE", "workers", said)
        self.site = inspection.site()
        if self.site is None:
            yield finding("SITE_MISSING", "site", "none is active: weft site activate FILE")
        else:
            yield finding("SITE_ACTIVE", "site", f"{self.site.name}: {len(self.site.nodes)} nodes")
        yield from self._states(inspection)

    def _states(self, inspection: Inspection) -> Iterator[DoctorFinding]:
        """Findings about states that weft never writes: they come from hands, a defect or a broken disk."""
        found = inspection.impossible(None if self.site is None else self.site.units)
        for one in found:
            yield finding(one.code, "records", f"{one.number}: {_some(one.some)}")
        if not found:
            yield finding(
                "RECORDS_SOUND", "records", "pods, holds, bookings and resources agree with each other"
            )


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return ", ".join(names[:10]) + more
