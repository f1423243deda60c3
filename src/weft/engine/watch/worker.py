"""A worker: claims owners that are due, visits each in a thread, sends heartbeats, hands them back, and runs the queue.

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

from weft.engine.base.database import Database, Row
from weft.engine.base.listener import Listener
from weft.engine.base.pulse import Pulse
from weft.engine.base.tuning import tune
from weft.engine.base.unreadable import UnreadableError
from weft.engine.hold.defects import said
from weft.engine.hold.fence import HOLD_SECONDS, ChangedError, LostError
from weft.engine.hold.held import Held
from weft.engine.hold.heldpod import HeldPod
from weft.engine.hold.lane import Lane
from weft.engine.hold.ownerclaims import (
    ClaimedOwners,
    UnchangedOwners,
    UnreadableOwner,
    claim_ready,
    claim_work,
    extend_holds,
)
from weft.engine.hold.settings import LoopSettings
from weft.engine.queue.dispatcher import Dispatcher
from weft.engine.store.store import Store
from weft.engine.visit.reconciler import Reconciler
from weft.engine.visit.tools import NextVisit
from weft.model.errors import WeftError
from weft.model.logtext import visiting
from weft.model.messages import pods
from weft.model.pod import Cause

log = logging.getLogger(__name__)

LONGEST_SLEEP = 5.0
"""The longest sleep without a notification: leases of pods end, workers elsewhere die."""
PAUSE_AFTER_ERROR = 2.0
LOOKS_OF_A_PLACE = 4
"""READY pods that are claimed at once for each place of their lane."""
SIGN_SECONDS = 5.0
"""Least seconds between two heartbeats of the process."""
SEEN_SECONDS = 1.0
"""Longest time for which an unchanged owner is held back to be handed back in a batch: another process may want it."""
HEARTBEAT_AGAIN = 1.0
"""Seconds until the next heartbeat of owners whose rows were locked by another transaction."""
QUEUE_PAUSE = 0.2
"""Least seconds between two looks at the queue: notifications come with every event."""
TURN_LIMIT, HEARTBEAT_LIMIT, QUEUE_LIMIT = 60.0, 60.0, 900.0
"""Seconds without an iteration after which a thread counts as stuck. A look at the queue asks the clouds, which may
take
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
        self._unchanged = UnchangedOwners(database)
        self._said = float("-inf")
        aside, wake = settings.aside_at_once, listener.wake
        self._releases = Lane("release", settings.releases_at_once, aside, freed=wake)
        self._work = Lane("visit", settings.pods_at_once, aside, freed=wake, first=self._releases, ahead=True)
        self._looks = Lane(
            "look", settings.looks_at_once, hanging=aside, batch=LOOKS_OF_A_PLACE, first=self._releases
        )

    def start(self) -> None:
        """Begin the threads of visits, of the queue and of heartbeats."""
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
        """Claim no more owners; wait for the visits under way, which hand back at their next step."""
        deadline = time.monotonic() + timeout
        self._stop.set()
        self._listener.wake()
        for lane in (self._work, self._releases, self._looks):
            lane.close()
        self._hand_back_unchanged()
        while self.busy() and time.monotonic() < deadline:
            time.sleep(0.02)
            self._hand_back_unchanged()
        self._over.set()  # heartbeats until here: an owner handed back in time delays no other worker
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
        """Claim one owner that is due and visit it in this thread; False if none was. For tests and tools."""
        taken = self._claim_work(0, 1) or self._claim_work(1, 0) or self._claim_ready(1)
        for held in taken:
            self._visit(held)
        return bool(taken)

    def tend_queue(self) -> float:
        """Release expired leases, start queued orders. Seconds until there is something to do again.

        A restored database may not know that a lease was extended: none ends in it, nor in a cloud whose note can't be
        read.
        """
        due, gate = self._store.due(), self._database.gate
        if due.leases:
            unread = gate.unread()  # first: what is read a moment later, and is behind, counts
            if not gate.is_behind():
                self._store.end_leases(unread)
        return due.queue if due.queue > 0 else self._dispatcher.run_due()

    def _rounds(self, turn: Callable[[], None], name: str, limit: float, end: threading.Event) -> None:
        """Run `turn` until the end. No exception of a turn ends the thread."""
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
        if (self._unchanged.age or 0.0) >= SEEN_SECONDS:
            self._hand_back_unchanged()
        self._work.hand_back()
        while not self._stop.is_set() and self._hand_out_work():
            pass
        due = self._database.row("next_owner_at")
        assert due is not None
        looks = self._until_looks(due)
        if looks is not None and looks <= 0:
            for held in self._claim_ready(self._looks.free):
                self._begin(held, self._looks)
        self._listener.wait(mark, self._pause(due))

    def _hand_out_work(self) -> bool:
        """Returns whether more may be due for which there are places."""
        most, releases = self._work.free, self._releases.free
        if not most and not releases:
            return False
        taken = self._claim_work(most, releases)
        for held in taken:
            self._begin(held, self._releases if held.owner.wanted == "absent" else self._work)
        return len(taken) == most + releases

    def _begin(self, held: Held, lane: Lane) -> None:
        held.lane = lane
        lane.begin(lambda: self._visit(held, lane), lambda: self._hand_back_unvisited(held))

    def _hand_back_unvisited(self, held: Held) -> None:
        """Hand back an owner on which nothing was begun, for any worker that has time."""
        try:
            held.hand_back_unvisited()
        except WeftError as error:
            log.warning("%s (%s) can't be handed back: %s", held.owner, held.owner.id, error)
        self._forget(held)

    def _forget(self, *given: Held) -> None:
        """Drop owners that this worker doesn't hold any more, unless it has claimed them again since."""
        with self._lock:
            for held in given:
                if self._held.get(held.owner.id) is held:
                    del self._held[held.owner.id]

    def _until_looks(self, due: Row) -> float | None:
        """Seconds until READY pods are claimed: many at once, when the last visit of those under way has ended; but one
        that hangs doesn't delay the others."""
        if not self._looks.free or due["looks"] is None:  # always asked: `free` puts hanging visits aside
            return None
        return due["looks"] if self._looks.idle else due["looks"] + LONGEST_SLEEP

    def _pause(self, due: Row) -> float:
        """Seconds to sleep until the next owner of any lane is due; a lane without free places doesn't count."""
        # In a full lane a visit that ends wakes us; due READY pods wait for the last visit of those under way.
        known = [
            due["releases"] if self._releases.free else None,
            due["work"] if self._work.free else None,
            self._until_looks(due),
            None if self._unchanged.age is None else SEEN_SECONDS,
        ]
        soonest = min((seconds for seconds in known if seconds is not None), default=LONGEST_SLEEP)
        return min(max(soonest, 0.05), LONGEST_SLEEP)

    def _claim_work(self, most: int, releases: int) -> Sequence[Held]:
        late = self._settings.late
        return self._register(claim_work(self._database, self.name, late, most, releases, self._stop))

    def _claim_ready(self, most: int) -> Sequence[Held]:
        return self._register(claim_ready(self._database, self.name, self._settings.late, most, self._stop))

    def _register(self, taken: ClaimedOwners) -> Sequence[Held]:
        """Register claimed owners; park those whose rows can't be read."""
        with self._lock:
            self._held.update({held.owner.id: held for held in taken.readable})
        for unread in taken.unreadable:
            self._park(unread)
        return taken.readable

    def _visit(self, held: Held, lane: Lane | None = None) -> None:
        """Visit an owner; every line that is logged meanwhile has its id."""
        with visiting(str(held.owner.id) if isinstance(held, HeldPod) else ""):
            self._visit_logged(held, lane)

    def _visit_logged(self, held: Held, lane: Lane | None) -> None:
        """Visit an owner and log every error; after one, the owner is claimed again when the hold runs out."""
        seen = False
        try:
            if self._stop.is_set():
                held.hand_back_unvisited()
            else:
                seen = self._one_visit(held)
        except LostError:
            log.warning("%s (%s) was taken over by another worker", held.owner, held.owner.id)
        except UnreadableError as error:
            self._park(
                UnreadableOwner(held.owner.id, held.owner.token, held.owner.woken, error, held.notes.lands)
            )
        except WeftError as error:
            log.warning("%s (%s): %s", held.owner, held.owner.id, error)
        except Exception:
            log.exception("%s (%s): defect in the loop", held.owner, held.owner.id)
        finally:
            self._ended(held, lane, seen)

    def _one_visit(self, held: Held) -> bool:
        """Visit an owner; whether that changed nothing, so that it can be handed back in a batch."""
        look = self._guarded(held)
        if held.fence.lost.is_set():
            return False
        if held.notes.unchanged_nodes() is not None and not look.failures:
            self._unchanged.add(held, look.delay)
            return True
        try:
            held.hand_back(look.delay, look.failures)
        except ChangedError:
            held.hand_back_unwritten(0.0, held.owner.failures)
        return False

    def _ended(self, held: Held, lane: Lane | None, seen: bool) -> None:
        """End a visit; unchanged owners are handed back in batches."""
        if not seen:
            self._forget(held)
        last = lane is None or lane.ended()
        if lane is not self._looks or last or self._unchanged.many:
            self._hand_back_unchanged()
        if lane is None or last or (lane is not self._looks and lane.free):
            self._listener.wake()

    def _hand_back_unchanged(self) -> None:
        self._forget(*self._unchanged.hand_back())

    def _park(self, unread: UnreadableOwner) -> None:
        """Park an owner whose rows can't be read; if that fails, its hold runs out."""
        try:
            self._store.park(unread)
        except WeftError as error:
            log.warning("owner %s: %s, after %s", unread.id, error, unread.error)

    def _guarded(self, held: Held) -> NextVisit:
        """Visit an owner. A defect of weft in a visit must not end the loop, and what wasn't observed isn't healthy."""
        try:
            return self._reconciler.visit(held)
        except ChangedError:
            return NextVisit(0.0)
        except (LostError, WeftError):
            raise
        except Exception as error:
            log.exception("%s (%s): defect in the loop", held.owner, held.owner.id)
            failures = held.owner.failures + 1
            held.explain(said(error), Cause.UNREADABLE)
            held.alarm(pods.STATE(state=held.status.state, why=said(error)))
            return NextVisit(self._settings.delay(failures), failures)

    def _heartbeat_turn(self) -> None:
        self._over.wait(self._signs_of_life())

    def _signs_of_life(self) -> float:
        """Send heartbeats for every owner held; returns seconds until the next."""
        with self._lock:
            held = list(self._held.values())
        again = extend_holds(self._database, held)
        if time.monotonic() - self._said >= SIGN_SECONDS:
            self._store.worker_lives(self.name)
            self._said = time.monotonic()
        return HEARTBEAT_AGAIN if again else HOLD_SECONDS / 3
