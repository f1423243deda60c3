"""The gate in front of every change outside: it is closed while the database is behind what a cloud remembers of it.

Each process reads every cloud's note when it starts, whenever it has lost a connection to the database or reached
another server (a failover), before each sweep, and every few minutes; in between, the last answer counts, so that
visits ask nothing for it. A cloud that can't be read is unknown, which closes the gate for resources in that cloud
and for whatever judges the site as a whole; until a cloud is read, for everything. What was read stays valid if a
later look fails or is late, as long as the connections to the database have lasted: a database that serves them can't
have been replaced. One that was found to be behind stays so until a cloud is read that says otherwise, which the
database records for all processes.
Decision: docs/decisions/a-restored-database-changes-nothing.md.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial

from weft.engine.base.asking import PATIENCE, CloudThreads
from weft.engine.base.database import Database
from weft.engine.base.epoch import RESTORED, count_end, counts, is_behind, note_behind, note_epoch, was_behind
from weft.engine.base.periodic import Periodic
from weft.engine.base.pulse import Pulse
from weft.model.errors import ConflictError, NotFoundError, TemporaryError, UnknownError, WeftError
from weft.model.messages import health
from weft.ports.witness import Witness, Witnesses

log = logging.getLogger(__name__)

EVERY = 300.0
"""Seconds for which a note counts that was read; `GateKeeper` reads it again before."""
AGAIN = 5.0
"""Seconds between reads while the gate is closed."""
CLOSED_DELAY = 30.0
"""Seconds until the next visit to an owner that must not be changed."""
TURN = 30.0
"""Seconds between turns of the keeper."""
LIMIT = 900.0
"""Seconds without a turn after which its thread counts as stuck."""

BEHIND = health.DATABASE_BEHIND()
UNREAD = health.NOTE_UNREAD()
_ASKED = "read how far weft's database had come"


class ClosedError(TemporaryError):
    """The database is behind what a cloud remembers of it: an operator decides."""

    def __init__(self) -> None:
        super().__init__(
            "change anything outside",
            "weft's database",
            RESTORED,
            "until then everything is only observed",
            CLOSED_DELAY,
            alarming=True,
        )


@dataclass(frozen=True, slots=True)
class _CloudNote:
    """What was read of one cloud.

    Attributes:
        at: when, by this process's clock.
        losses: `Database.losses` before that.
        error: why it couldn't be read.
    """

    at: float
    losses: int
    note: Witness | None = None
    behind: bool = False
    error: WeftError | None = None


class Gate:
    """One per process; thread-safe. Becomes `Database.gate`.

    Args:
        where: returns the active site's name, and its clouds.
    """

    def __init__(
        self,
        database: Database,
        where: Callable[[], tuple[str, Mapping[str, Witnesses]]],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database, self._where, self._monotonic = database, where, monotonic
        self._lock, self._writing = threading.Lock(), threading.Lock()
        self._asking, self._noting, self._foretelling = (
            CloudThreads("gate"),
            CloudThreads("note"),
            threading.Lock(),
        )
        self._looks: Mapping[str, _CloudNote] = {}
        self._known: tuple[str, Mapping[str, Witnesses]] | None = None
        self.hurry: Callable[[], None] = lambda: None
        """Called when a count has to be noted soon."""
        database.gate = self

    def check(self, places: Collection[str] | None = None) -> None:
        """Raise what `closed` returns."""
        if (error := self.closed(places)) is not None:
            raise error

    def closed(
        self, places: Collection[str] | None = None, clouds: Collection[str] = ()
    ) -> TemporaryError | None:
        """Why nothing may be changed; None: changes are allowed.

        Args:
            places: clouds and fabrics in which something is to be changed; None, and until a cloud is read: anywhere.
            clouds: the existing ones, as far as the caller knows.
        """
        looks = self._current(clouds)
        if any(look.behind for look in looks.values()):
            return ClosedError()
        unread = {c: e for c, look in looks.items() if (e := look.error)}
        if places is not None and len(unread) < len(looks):  # else nothing shows that it isn't a copy
            unread = {c: e for c, e in unread.items() if c in places}
        if not unread:
            return None
        said = "; ".join(f"cloud {cloud}: {error}" for cloud, error in sorted(unread.items())[:3])
        return UnknownError(_ASKED, "the note in the cloud", said, "nothing is changed before that", AGAIN)

    def is_behind(self) -> bool:
        """Whether a cloud is known to remember more; False also while none can be read."""
        return any(look.behind for look in self._current(()).values())

    def unread(self) -> frozenset[str]:
        """Clouds whose note can't be read: this database may not be up to date for what is in them."""
        return frozenset(cloud for cloud, look in self._current(()).items() if look.error)

    def is_stopped(self) -> bool:
        """Whether it is closed for anything, as far as known without asking."""
        return any(look.behind or look.error for look in self._looks.values())

    def says(self) -> str:
        """`ok`, or why nothing is changed, as far as known without asking; everyone may read it."""
        looks = self._looks
        if any(look.behind for look in looks.values()):
            return BEHIND
        if any(look.error for look in looks.values()):
            return UNREAD
        return health.OK() if looks else health.STARTING()

    def forget(self) -> None:
        """Discard what was read."""
        with self._writing:
            self._looks = {}

    def found_behind(self, cloud: str) -> None:
        """Record that another process has read that the cloud remembers more."""
        note_behind(self._database, cloud, True)
        self._keep(cloud, _CloudNote(self._monotonic(), self._database.losses, behind=True))

    def look(self) -> None:
        """Read every cloud's note now."""
        self._read(reread=True, all_=True)

    def tend(self) -> None:
        """Read if it is due, and note counts that clouds don't have yet."""
        now = self._monotonic()
        looks = self._current(())
        if any(now - look.at >= EVERY - 2 * TURN for look in looks.values()):
            self.look()
        mine = counts(self._database)
        for cloud, look in self._looks.items():
            count = mine.get(cloud)
            if look.behind or look.error or count is None or _has(look, count):
                continue
            self._note(cloud)
        if self.is_behind():
            log.error("%s", RESTORED)

    def note(self, cloud: str, count: int | None) -> None:
        """Let the cloud remember the count, if it doesn't. If that fails, the keeper tries it again. Raises
        `ClosedError`.

        Args:
            count: as it was when the owner was claimed; None: as it is now.
        """
        look = self._looks.get(cloud)
        if count is None:
            count = counts(self._database).get(cloud)
        if count is not None and (look is None or not _has(look, count)):
            self._note(cloud)

    def foretell(self) -> None:
        """Before a node is quarantined, let the clouds know of it, as far as they answer within `PATIENCE`.

        It is counted first: a process that dies after that has noted nothing that this database lacks. A database from
        before that lacks it.
        """
        count_end(self._database)
        if not self._foretelling.acquire(timeout=PATIENCE):
            log.warning(
                "a node is quarantined before the clouds know of it: notes of other nodes are still being written"
            )
            return
        try:
            # Read now: a note that was written meanwhile may include this one.
            mine, looks = counts(self._database), self._looks
            _, clouds = self._places()
            ask = [c for c in clouds if c not in looks or c not in mine or not _has(looks[c], mine[c])]
            self._noting.ask({c: partial(self._foretell, c) for c in self._noting.free(ask)})
        finally:
            self._foretelling.release()

    def _foretell(self, cloud: str) -> None:
        """Note one cloud, in a thread of its own, which may end late."""
        try:
            self._note(cloud)
        except ClosedError as error:
            log.warning("cloud %s: %s", cloud, error)  # the node is quarantined even so

    def _note(self, cloud: str) -> None:
        site, clouds = self._places()
        if cloud not in clouds:
            return
        losses = self._database.losses
        try:
            note = note_epoch(self._database, clouds[cloud], site, cloud)
        except ConflictError:
            raise ClosedError from None
        except WeftError as error:
            log.warning("cloud %s: how far the database has come can't be noted: %s", cloud, error)
            return
        self._keep(cloud, _CloudNote(self._monotonic(), losses, note))

    # -- reading ------------------------------------------------------------------------------------------------

    def _current(self, clouds: Collection[str]) -> Mapping[str, _CloudNote]:
        """The last answer of every cloud; one that couldn't be read in time has an error."""
        looks = self._looks
        if looks and looks.keys() >= set(clouds) and all(map(self._counts, looks.values())):
            return looks
        return self._read(reread=not looks or not looks.keys() >= set(clouds))

    def _counts(self, look: _CloudNote) -> bool:
        lasts = AGAIN if look.behind or look.error else EVERY
        return self._monotonic() - look.at < lasts and look.losses == self._database.losses

    def _read(self, reread: bool, all_: bool = False) -> Mapping[str, _CloudNote]:
        """Ask the clouds, which have a few seconds to answer; concurrent callers wait for the same answers.

        Args:
            reread: whether to read the list of clouds, too.
            all_: also ask clouds that were read a moment ago.
        """
        site, clouds = self._places(reread)
        if not self._lock.acquire(timeout=2 * PATIENCE):
            return dict.fromkeys(clouds, self._late(self._database.losses))
        try:
            losses, began, known = self._database.losses, self._monotonic(), self._looks
            # Another thread may have asked while this one waited.
            ask = [c for c in clouds if all_ or c not in known or not self._counts(known[c])]
            free = self._asking.free(ask)
            self._asking.ask({c: partial(self._ask, c, clouds[c], site, losses) for c in free})
            with self._writing:
                looks = {c: look for c, look in self._looks.items() if c in clouds}
                late = [c for c in ask if c not in looks or looks[c].at < began]
                self._looks = looks
            for cloud in late:
                if not _lasts(looks.get(cloud), losses):
                    self._keep(cloud, self._late(losses))
            return self._looks
        finally:
            self._lock.release()

    def _late(self, losses: int) -> _CloudNote:
        of = f"no answer within {PATIENCE:.0f} s"
        return _CloudNote(self._monotonic(), losses, error=UnknownError(_ASKED, "the cloud", of))

    def _places(self, reread: bool = False) -> tuple[str, Mapping[str, Witnesses]]:
        if self._known is None or reread:
            try:
                self._known = self._where()
            except NotFoundError:
                return "", {}  # before the first site there is nothing to change
        return self._known

    def _ask(self, cloud: str, facts: Witnesses, site: str, losses: int) -> None:
        """Read one cloud, in a thread of its own, which may end late."""
        try:
            note = facts.witness(site)
            behind = is_behind(self._database, note, cloud, again=lambda: facts.witness(site))
            note_behind(self._database, cloud, behind)
            look = _CloudNote(self._monotonic(), losses, note, behind)
        except WeftError as error:
            look = _CloudNote(self._monotonic(), losses, error=error)
        except Exception as error:
            log.exception("cloud %s: defect in weft", cloud)
            look = _CloudNote(
                self._monotonic(), losses, error=UnknownError(_ASKED, cloud, type(error).__name__)
            )
        self._keep(cloud, look)

    def _keep(self, cloud: str, look: _CloudNote) -> None:
        if look.error and not _lasts(self._looks.get(cloud), look.losses) and self._was_behind(cloud):
            look = replace(look, behind=True, error=None)
        accepted = look.error is not None and self._is_over(cloud, look.losses)
        with self._writing:
            known = self._looks.get(cloud)
            if look.error and known and _lasts(known, look.losses) and not accepted:
                look = replace(known, at=look.at)
            self._looks = {**self._looks, cloud: look}

    def _is_over(self, cloud: str, losses: int) -> bool:
        """Whether a cloud counts as behind here, and by the same database no longer: another process has read it since,
        or an operator has accepted the database."""
        known = self._looks.get(cloud)
        if known is None or not known.behind or known.losses != losses:
            return False
        try:
            return not was_behind(self._database, cloud)
        except WeftError:
            return False

    def _was_behind(self, cloud: str) -> bool:
        try:
            return was_behind(self._database, cloud)
        except WeftError:
            return False  # the database is silent, so the state is unknown


def _lasts(known: _CloudNote | None, losses: int) -> bool:
    """Whether an answer stays valid if a later look fails or is late: it came from this server, which hasn't been
    replaced since; or the database was behind, which no other connection changes."""
    return known is not None and not known.error and (known.behind or known.losses == losses)


def _has(look: _CloudNote, count: int) -> bool:
    return look.note is not None and look.note.number >= count


class GateKeeper(Periodic):
    """Keeps the gate's readings fresh: one in each process, also in those that only serve requests."""

    def __init__(self, gate: Gate, pulse: Pulse | None = None) -> None:
        self._gate = gate
        gate.hurry = self.hurry
        super().__init__("gate", self._turn_, pulse, LIMIT, again=AGAIN)

    def _turn_(self) -> float:
        self._gate.tend()
        return TURN
