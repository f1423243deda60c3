"""One visit to an owner of any kind: whether anything may be done, and errors as reasons and times."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar
from uuid import uuid4

from weft.engine.base.gate import ClosedError
from weft.engine.base.unreadable import UnreadableError
from weft.engine.base.world import World
from weft.engine.hold.held import Held
from weft.engine.hold.status import News
from weft.engine.visit.news import not_ready
from weft.engine.visit.tools import NextVisit, Tools
from weft.engine.visit.verifier import verify
from weft.model.errors import NotYetError, PermanentError, TemporaryError, WeftError
from weft.model.messages import outside, pods, problems
from weft.model.pod import Aspect, Cause, Phase, PodState, find
from weft.model.site import Site

log = logging.getLogger(__name__)

H = TypeVar("H", bound=Held)
H_contra = TypeVar("H_contra", bound=Held, contravariant=True)

_NO_REASON = "no reason known"


class Visits(Protocol[H_contra]):
    """What a visit does with owners of one kind."""

    def doubt(self, held: H_contra) -> TemporaryError | None:
        """Why its rows may not be acted on, although the gate is open; None: they may."""
        ...

    def present(self, held: H_contra) -> NextVisit:
        """A visit to an owner that is wanted."""
        ...

    def absent(self, held: H_contra) -> NextVisit:
        """A visit to an owner that is released."""
        ...

    def only_observe(self, held: H_contra, closed: TemporaryError) -> None:
        """Observe, while nothing may be changed."""
        ...

    def permanent(self, held: H_contra, error: PermanentError) -> None:
        """Report an error that a person must resolve."""
        ...


class Visitor(Generic[H]):
    """Compares desired and observed state, does what can be done now, says when the owner is due again.

    Keeps no state of an owner between visits, and waits for nothing within one.
    """

    def __init__(self, tools: Tools, visits: Visits[H]) -> None:
        self._tools, self._settings, self._visits = tools, tools.settings, visits
        self._life = uuid4().hex

    def visit(self, held: H, current: Callable[[Held], tuple[World, Site]]) -> NextVisit:
        """Do what can be done now. Every error becomes a reason and a time of the next visit: the loop continues."""
        try:
            held.notes.records()  # also sets `held.at`
            held.world, held.site = current(held)
            closed = self._closed(held)
            if held.wanted == "absent" or held.owner.changed_at is not None:
                held.work.count(self._life, closed is None)
            if closed is not None:
                look = self._only_observe(held, closed)
            else:
                look = self._visits.absent(held) if held.wanted == "absent" else self._visits.present(held)
        except ClosedError as error:
            look = self._only_observe(held, error)
        except UnreadableError:
            raise  # never act on rows that can't be read: the worker parks the owner
        except NotYetError as error:
            look = NextVisit(error.delay)
        except TemporaryError as error:
            look = self._again(held, error)
        except PermanentError as error:
            look = self._permanent(held, error)
        except WeftError as error:
            look = self._permanent(
                held, PermanentError(outside.SERVE_ORDER(), "weft", error.message, outside.CHANGE_ORDER())
            )
        self._watch(held)
        return look

    def _closed(self, held: H) -> TemporaryError | None:
        """Why the owner's resources may not be changed outside; None: they may."""
        held.fence.places = {r.resource.where for r in held.resources()}
        closed = held.gate.closed(held.world.clouds)
        return closed if closed or held.owner.abandoned is not None else self._visits.doubt(held)

    def _only_observe(self, held: H, closed: TemporaryError) -> NextVisit:
        """Observe without changing anything, and report the state and why nothing is done; no resource row changes."""
        self._visits.only_observe(held, closed)
        if held.wanted == "present" and held.status.phase is Phase.SERVING:
            verdict = verify(held.owner, held.resources(), held.world, self._tools.pool, lane=held.lane)
            if verdict.fine:
                known = find(held.status.conditions, Aspect.READY)
                held.become(
                    News(Aspect.READY, known.status if known else "unknown", Cause.WAITING, closed.message)
                )
            else:
                both = problems.SEVERAL(problems=[verdict.reason(), closed.message])
                held.become(not_ready(verdict)._replace(message=both))
        else:
            held.explain(closed.message)
        if closed.alarming:
            held.alarm(pods.STATE(state=held.status.state, why=closed.message))
        return NextVisit(closed.delay, held.owner.failures)  # nothing was tried

    def _again(self, held: H, error: TemporaryError) -> NextVisit:
        failures = held.owner.failures + 1
        held.explain(error.message)
        if error.alarming:
            held.alarm(pods.STATE(state=held.status.state, why=error.message))
        return NextVisit(max(error.delay, self._settings.delay(failures)), failures)

    def _permanent(self, held: H, error: PermanentError) -> NextVisit:
        failures = held.owner.failures + 1
        self._visits.permanent(held, error)
        return NextVisit(self._settings.delay(failures), failures)

    def _watch(self, held: H) -> None:
        """Raise an alarm, once, for a state that outlasts its limit."""
        changed = held.owner.changed_at
        if changed is not None and held.status.phase is Phase.SERVING:
            most = self._settings.limits.get(PodState.BOOTING, self._settings.patience_servers)
            if (lasted := (held.at - changed).total_seconds()) > most:
                held.alarm(
                    pods.CHANGE_LASTS(
                        lasted=round(lasted), limit=round(most), why=held.status.reason or _NO_REASON
                    )
                )
        limit = self._settings.limits.get(held.status.state)
        if limit is not None and (lasted := (held.at - held.status.since).total_seconds()) > limit:
            why = held.status.reason or _NO_REASON
            message = pods.STATE_LASTS(
                state=held.status.state, lasted=round(lasted), limit=round(limit), why=why
            )
            held.alarm(message)
            log.warning("%s (%s): %s", held.owner, held.owner.id, message)
