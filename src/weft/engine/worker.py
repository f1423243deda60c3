"""A worker: takes pods that are due, visits each in a thread, gives signs of life, lets go; and tends the queue.

Any number may run.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

from weft.engine.database import Database
from weft.engine.dispatcher import Dispatcher
from weft.engine.fence import HOLD_SECONDS, ChangedError, LostError
from weft.engine.held import Held
from weft.engine.listener import Listener
from weft.engine.pulse import Pulse
from weft.engine.reconciler import Reconciler
from weft.engine.settings import LoopSettings
from weft.engine.store import Store
from weft.engine.takes import Seen, Take, Taken, take_looks, take_work
from weft.engine.unreadable import UnreadableError
from weft.engine.visitor import Look
from weft.model.errors import WeftError
from weft.model.pod import Cause

log = logging.getLogger(__name__)

LONGEST_SLEEP = 5.0
"""Also when nobody wakes us we look this often: leases of pods end, workers elsewhere die."""
PAUSE_AFTER_ERROR = 2.0
LOOKS_OF_A_THREAD = 4
"""So many READY pods are taken at once for each thread that looks at them."""
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
        self._looking = 0
        self._seen = Seen(database)
        self._work = ThreadPoolExecutor(settings.pods_at_once, thread_name_prefix="visit")
        self._looks = ThreadPoolExecutor(settings.looks_at_once, thread_name_prefix="look")

    def start(self) -> None:
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
        for pool in (self._work, self._looks):
            pool.shutdown(wait=False)
        while self.busy() and time.monotonic() < deadline:
            time.sleep(0.02)
        self._over.set()  # signs of life until here: who lets go in time leaves nothing for others to wait for
        for thread in self._threads:
            thread.join(max(0.1, deadline - time.monotonic()))

    def busy(self) -> int:
        """How many pods it holds now."""
        with self._lock:
            return len(self._held)

    def run_once(self) -> bool:
        """Take one pod that is due and visit it, here and now; False if none was. For tests and tools."""
        for take in (take_work, take_looks):
            taken = self._take(take, 1)
            for held in taken.readable:
                self._visit(held)
                return True
        return False

    def tend_queue(self) -> float:
        """Release expired leases, start queued orders. Seconds until there is something to do again."""
        due = self._store.due()
        if due.leases:
            self._store.end_leases()
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
        self._hand_out(take_work, self._settings.pods_at_once, self._work)
        with self._database.statement() as tx:
            due = tx.row("next_owner_at")
        assert due is not None
        if not self._looking and due["looks"] is not None and due["looks"] <= 0:
            self._hand_out(take_looks, self._settings.looks_at_once * LOOKS_OF_A_THREAD, self._looks)
        self._listener.wait(mark, self._pause(due["work"], due["looks"]))

    def _hand_out(self, take: Take, most: int, pool: ThreadPoolExecutor) -> None:
        """Take what is due until there is no more, or enough is being visited."""
        looks = pool is self._looks
        while not self._stop.is_set() and (free := most - self._visited(looks)) > 0:
            taken = self._take(take, free)
            for held in taken.readable:
                with self._lock:
                    self._looking += looks
                try:
                    pool.submit(self._visit, held, looks)
                except RuntimeError:  # it was told to stop since
                    self._visit(held, looks)
            if taken.number < free or looks:
                break

    def _visited(self, looks: bool) -> int:
        with self._lock:
            return self._looking if looks else len(self._held) - self._looking

    def _pause(self, work: float | None, looks: float | None) -> float:
        """Seconds to sleep, if the next work and the next look are due after so many; None: there is none."""
        if self._visited(looks=False) >= self._settings.pods_at_once:
            work = None  # a finished visit wakes us
        # Looks that are due wait for those under way, the last of which wakes us.
        known = [work, None if self._looking else looks]
        due = min((seconds for seconds in known if seconds is not None), default=LONGEST_SLEEP)
        return min(max(due, 0.05), LONGEST_SLEEP)

    def _take(self, take: Take, most: int) -> Taken:
        """Owners that are due; those whose rows can't be read are set apart."""
        taken = take(self._database, self.name, self._settings.late, most, self._stop)
        with self._lock:
            self._held.update({held.owner.id: held for held in taken.readable})
        for owner_id, error in taken.unreadable.items():
            self._park(owner_id, error)
        return taken

    def _visit(self, held: Held, look: bool = False) -> None:
        """What goes wrong here is told in the log at least; the pod is taken again when the hold runs out."""
        seen = False
        try:
            if self._stop.is_set():
                held.give_up(0.0)
            else:
                seen = self._one_visit(held)
        except LostError:
            log.warning("%s (%s) was taken over by another worker", held.owner, held.owner.id)
        except UnreadableError as error:
            self._set_apart(held, error)
        except WeftError as error:
            log.warning("%s (%s): %s", held.owner, held.owner.id, error)
        except Exception:
            log.exception("%s (%s): defect in the loop", held.owner, held.owner.id)
        finally:
            self._ended(held, look, seen)

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
            held.give_up(0.0)
        return False

    def _ended(self, held: Held, look: bool, seen: bool) -> None:
        """Those of which there is nothing to be said are let go of together."""
        with self._lock:
            self._looking -= look
            last = not self._looking
            if not seen:
                self._held.pop(held.owner.id, None)
        if not look or last or self._seen.many:
            self._let_go_seen()
        if not look or last:
            self._listener.wake()

    def _let_go_seen(self) -> None:
        ids = self._seen.let_go()
        with self._lock:
            for owner_id in ids:
                self._held.pop(owner_id, None)

    def _set_apart(self, held: Held, error: UnreadableError) -> None:
        """First what was asked for without a note of it must be known; if that can't be written, its hold runs out."""
        try:
            held.give_up(self._settings.last_delay)
        except WeftError as other:
            log.warning("%s (%s): %s, after %s", held.owner, held.owner.id, other, error)
        else:
            self._park(held.owner.id, error)

    def _park(self, owner_id: UUID, error: UnreadableError) -> None:
        try:
            self._store.park(owner_id, error)
        except WeftError as other:
            log.warning("owner %s: %s", owner_id, other)

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
        with self._lock:
            held = list(self._held.values())
        for one in held:
            try:
                one.extend()
            except WeftError as error:
                log.warning("sign of life for %s (%s): %s", one.owner, one.owner.id, error)
            except Exception:
                log.exception("sign of life for %s (%s): defect in weft", one.owner, one.owner.id)
        self._over.wait(HOLD_SECONDS / 3)
