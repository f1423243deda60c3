"""A worker: takes pods that are due, visits each in a thread, gives signs of life, lets go; and tends the queue.

Any number may run.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from uuid import UUID

from weft.engine.database import Database, Row
from weft.engine.dispatcher import Dispatcher
from weft.engine.fence import HOLD_SECONDS, ChangedError, LostError
from weft.engine.held import Held
from weft.engine.lane import Lane
from weft.engine.listener import Listener
from weft.engine.pulse import Pulse
from weft.engine.reconciler import Reconciler
from weft.engine.settings import LoopSettings
from weft.engine.store import Store
from weft.engine.takes import Seen, Taken, Unread, extend, take_looks, take_work
from weft.engine.tuning import tune
from weft.engine.unreadable import UnreadableError
from weft.engine.visitor import Look
from weft.model.errors import WeftError
from weft.model.pod import Cause

log = logging.getLogger(__name__)

LONGEST_SLEEP = 5.0
"""Also when nobody wakes us we look this often: leases of pods end, workers elsewhere die."""
PAUSE_AFTER_ERROR = 2.0
LOOKS_OF_A_PLACE = 4
"""So many READY pods are taken at once for each that is looked at at a time."""
SIGN_SECONDS = 5.0
"""At least so many seconds between two signs of life of the process."""
SEEN_SECONDS = 1.0
"""So long at most an owner of which there is nothing to say is kept for others like it: somebody may want it."""
HEARTBEAT_AGAIN = 1.0
"""Seconds until a sign of life is given again for what somebody else had locked."""
QUEUE_PAUSE = 0.2
"""Wake-ups come with every event; the queue need not be asked more often than this."""
TURN_LIMIT, HEARTBEAT_LIMIT, QUEUE_LIMIT = 60.0, 60.0, 900.0
"""Seconds without a turn after which a thread counts as stuck. A look at the queue asks the clouds, which may take
their timeouts one after the other; the other two only ask the database."""


class Worker:
    """Runs until `stop`. Several in one process, or on many machines, share the work by the database alone."""

    def __init__(
        self,
        database: Database,
        listener: Listener,
        reconciler: Reconciler,
        settings: LoopSettings,
        dispatcher: Dispatcher,
        name: str | None = None,
        pulse: Pulse | None = None,
    ) -> None:
        self._database, self._listener, self._reconciler = database, listener, reconciler
        self._settings, self._dispatcher = settings, dispatcher
        self._store = Store(database)
        self._pulse = pulse or Pulse()
        self.name = name or f"{socket.gethostname()}/{os.getpid()}"
        self._stop, self._over = threading.Event(), threading.Event()
        self._held: dict[UUID, Held] = {}
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._seen = Seen(database)
        self._said = float("-inf")
        aside, wake = settings.aside_at_once, listener.wake
        self._releases = Lane("release", settings.releases_at_once, aside, freed=wake)
        self._work = Lane("visit", settings.pods_at_once, aside, freed=wake, first=self._releases, ahead=True)
        self._looks = Lane(
            "look", settings.looks_at_once, hanging=aside, batch=LOOKS_OF_A_PLACE, first=self._releases
        )

    def start(self) -> None:
        tune()
        for turn, name, limit, end in (
            (self._turn, "worker", TURN_LIMIT, self._stop),
            (self._queue_turn, "queue", QUEUE_LIMIT, self._stop),
            (self._heartbeat_turn, "heartbeat", HEARTBEAT_LIMIT, self._over),
        ):
            thread = threading.Thread(
                target=self._rounds, args=(turn, name, limit, end), name=name, daemon=True
            )
            thread.start()
            self._threads.append(thread)

    def stop(self, timeout: float = 20.0) -> None:
        """Take no more pods; wait for the visits under way, which let go at their next step."""
        deadline = time.monotonic() + timeout
        self._stop.set()
        self._listener.wake()
        for lane in (self._work, self._releases, self._looks):
            lane.close()
        self._let_go_seen()
        while self.busy() and time.monotonic() < deadline:
            time.sleep(0.02)
            self._let_go_seen()
        self._over.set()  # signs of life until here: who lets go in time leaves nothing for others to wait for
        for thread in self._threads:
            thread.join(max(0.1, deadline - time.monotonic()))
        try:
            self._store.worker_ends(self.name)
        except WeftError as error:
            log.warning("worker %s counts as alive for a while: %s", self.name, error)

    def busy(self) -> int:
        """How many pods it holds now."""
        with self._lock:
            return len(self._held)

    def run_once(self) -> bool:
        """Take one pod that is due and visit it, here and now; False if none was. For tests and tools."""
        taken = self._take_work(0, 1) or self._take_work(1, 0) or self._take_looks(1)
        for held in taken:
            self._visit(held)
        return bool(taken)

    def tend_queue(self) -> float:
        """Release expired leases, start queued orders. Seconds until there is something to do again.

        A database that was restored may not know that one was extended: none ends in it, nor in a cloud whose note
        can't be read.
        """
        due, gate = self._store.due(), self._database.gate
        if due.leases:
            unread = gate.unread()  # first: what is read a moment later, and is behind, counts
            if not gate.is_behind():
                self._store.end_leases(unread)
        return due.queue if due.queue > 0 else self._dispatcher.run_due()

    def _rounds(self, turn: Callable[[], None], name: str, limit: float, end: threading.Event) -> None:
        """Turn after turn until the end. Nothing that a turn raises ends the thread."""
        self._pulse.turn(name, limit)
        while not end.is_set():
            try:
                turn()
            except Exception as error:
                if isinstance(error, WeftError):
                    log.warning("worker %s, %s: %s", self.name, name, error)
                else:
                    log.exception("worker %s, %s: defect in weft", self.name, name)
                self._pulse.trouble(name, error)
                end.wait(PAUSE_AFTER_ERROR)
            else:
                self._pulse.turn(name, limit)

    def _queue_turn(self) -> None:
        mark = self._listener.mark()
        pause = self.tend_queue()
        self._stop.wait(QUEUE_PAUSE)
        self._listener.wait(mark, min(pause, LONGEST_SLEEP))

    def _turn(self) -> None:
        mark = self._listener.mark()
        if (self._seen.age or 0.0) >= SEEN_SECONDS:
            self._let_go_seen()
        self._work.hand_back()
        while not self._stop.is_set() and self._hand_out_work():
            pass
        with self._database.statement() as tx:
            due = tx.row("next_owner_at")
        assert due is not None
        looks = self._until_looks(due)
        if looks is not None and looks <= 0:
            for held in self._take_looks(self._looks.free):
                self._begin(held, self._looks)
        self._listener.wait(mark, self._pause(due))

    def _hand_out_work(self) -> bool:
        """Whether there may be more that is due, and places for it."""
        most, releases = self._work.free, self._releases.free
        if not most and not releases:
            return False
        taken = self._take_work(most, releases)
        for held in taken:
            self._begin(held, self._releases if held.owner.wanted == "absent" else self._work)
        return len(taken) == most + releases

    def _begin(self, held: Held, lane: Lane) -> None:
        held.way = lane
        lane.begin(lambda: self._visit(held, lane), lambda: self._hand_back(held))

    def _hand_back(self, held: Held) -> None:
        """Nothing was begun on it: it is for whoever has time."""
        try:
            held.hand_back()
        except WeftError as error:
            log.warning("%s (%s) can't be handed back: %s", held.owner, held.owner.id, error)
        self._forget(held)

    def _forget(self, *given: Held) -> None:
        """They aren't in its hands any more; what it has taken again since is."""
        with self._lock:
            for held in given:
                if self._held.get(held.owner.id) is held:
                    del self._held[held.owner.id]

    def _until_looks(self, due: Row) -> float | None:
        """Seconds until looks are taken: many at once, when the last of those under way has ended; but one that hangs
        doesn't keep the others waiting."""
        if not self._looks.free or due["looks"] is None:  # asked always: it puts those aside that hang
            return None
        return due["looks"] if self._looks.idle else due["looks"] + LONGEST_SLEEP

    def _pause(self, due: Row) -> float:
        """Seconds to sleep, if the next ones of each sort are due after so many; None: there is none."""
        # Where there is no place, a finished visit wakes us; looks that are due wait for the last of those under way.
        known = [
            due["releases"] if self._releases.free else None,
            due["work"] if self._work.free else None,
            self._until_looks(due),
            None if self._seen.age is None else SEEN_SECONDS,
        ]
        soonest = min((seconds for seconds in known if seconds is not None), default=LONGEST_SLEEP)
        return min(max(soonest, 0.05), LONGEST_SLEEP)

    def _take_work(self, most: int, releases: int) -> Sequence[Held]:
        late = self._settings.late
        return self._in_hand(take_work(self._database, self.name, late, most, releases, self._stop))

    def _take_looks(self, most: int) -> Sequence[Held]:
        return self._in_hand(take_looks(self._database, self.name, self._settings.late, most, self._stop))

    def _in_hand(self, taken: Taken) -> Sequence[Held]:
        """Owners that were taken; those whose rows can't be read are set apart."""
        with self._lock:
            self._held.update({held.owner.id: held for held in taken.readable})
        for unread in taken.unreadable:
            self._park(unread)
        return taken.readable

    def _visit(self, held: Held, lane: Lane | None = None) -> None:
        """What goes wrong here is told in the log at least; the pod is taken again when the hold runs out."""
        seen = False
        try:
            if self._stop.is_set():
                held.hand_back()
            else:
                seen = self._one_visit(held)
        except LostError:
            log.warning("%s (%s) was taken over by another worker", held.owner, held.owner.id)
        except UnreadableError as error:
            self._park(Unread(held.owner.id, held.owner.token, held.owner.woken, error, held.lands))
        except WeftError as error:
            log.warning("%s (%s): %s", held.owner, held.owner.id, error)
        except Exception:
            log.exception("%s (%s): defect in the loop", held.owner, held.owner.id)
        finally:
            self._ended(held, lane, seen)

    def _one_visit(self, held: Held) -> bool:
        """Whether there is nothing to be said of it, but that it is to be let go of."""
        look = self._guarded(held)
        if held.lost.is_set():
            return False
        if held.only_seen() is not None and not look.failures:
            self._seen.add(held, look.delay)
            return True
        try:
            held.let_go(look.delay, look.failures)
        except ChangedError:
            held.give_up(0.0, held.owner.failures)
        return False

    def _ended(self, held: Held, lane: Lane | None, seen: bool) -> None:
        """Those of which there is nothing to be said are let go of together."""
        if not seen:
            self._forget(held)
        last = lane is None or lane.ended()
        if lane is not self._looks or last or self._seen.many:
            self._let_go_seen()
        if lane is None or last or (lane is not self._looks and lane.free):
            self._listener.wake()

    def _let_go_seen(self) -> None:
        self._forget(*self._seen.let_go())

    def _park(self, unread: Unread) -> None:
        """If it can't be written, its hold runs out."""
        try:
            self._store.park(unread)
        except WeftError as error:
            log.warning("owner %s: %s, after %s", unread.id, error, unread.error)

    def _guarded(self, held: Held) -> Look:
        """A defect of ours in one pod must not end the loop for all, and what it kept from being seen isn't fine."""
        try:
            return self._reconciler.visit(held)
        except ChangedError:
            return Look(0.0)
        except (LostError, WeftError):
            raise
        except Exception as error:
            log.exception("%s (%s): defect in the loop", held.owner, held.owner.id)
            failures = held.owner.failures + 1
            why = (
                f"defect in weft ({type(error).__name__}: {str(error)[:200]}); please report it with the log"
            )
            held.explain(f"unknown: {why}", Cause.UNREADABLE)
            held.alarm(f"{held.state}: {why}")
            return Look(self._settings.delay(failures), failures)

    def _heartbeat_turn(self) -> None:
        self._over.wait(self._signs_of_life())

    def _signs_of_life(self) -> float:
        """For all that it holds; seconds until the next ones."""
        with self._lock:
            held = list(self._held.values())
        again = extend(self._database, held)
        if time.monotonic() - self._said >= SIGN_SECONDS:
            self._store.worker_lives(self.name)
            self._said = time.monotonic()
        return HEARTBEAT_AGAIN if again else HOLD_SECONDS / 3
