"""What every verb needs: the components, and the audit log around each change."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager

from weft.app.policy import Policy
from weft.app.verbs import Request
from weft.app.worldkeeper import WorldKeeper
from weft.engine.base.listener import Listener
from weft.engine.base.pulse import Pulse
from weft.engine.store.store import Store
from weft.engine.watch.eventlookout import EventLookout
from weft.engine.watch.lookout import Lookout
from weft.model.errors import InputError, WeftError
from weft.ports.clock import Clock


def project_id(given: str, known: Mapping[str, str], field: str) -> str:
    """Id of a project by its id or name. Raises `InputError` if it is unknown.

    Args:
        known: id -> name of the projects that weft serves.
    """
    ids = [given] if given in known else sorted(id_ for id_, name in known.items() if name == given)
    if len(ids) != 1:
        allowed = "the id of one: several projects have this name" if ids else "projects that weft serves"
        raise InputError(field, given, allowed)
    return ids[0]


class Desk:
    """Base of the verbs; stateless."""

    def __init__(
        self,
        store: Store,
        keeper: WorldKeeper,
        policy: Policy,
        clock: Clock,
        listener: Listener,
        pulse: Pulse | None = None,
        worker: Callable[[], Mapping[str, str]] | None = None,
    ) -> None:
        self._store, self._keeper, self._policy = store, keeper, policy
        self._clock = clock
        self._pulse, self._worker = pulse or Pulse(), worker
        self._lookout = Lookout(store.database, listener, self._pulse)
        self._event_lookout = EventLookout(store.database, listener, self._pulse)

    @contextmanager
    def _logged(self, request: Request, action: str, subject: str) -> Generator[None]:
        """Log who did what, when, from where, with what result; refusals are logged, too."""
        with self._refusals(request, action, subject):
            yield
        self._write(request, action, subject, "done", counted=False)

    @contextmanager
    def _refusals(self, request: Request, action: str, subject: str) -> Generator[None]:
        """Only refusals are logged."""
        try:
            yield
        except WeftError as error:
            counted = not self._policy.is_operator(request.caller)
            self._write(request, action, subject, f"{type(error).__name__}: {error}", counted)
            raise
        except Exception as error:
            self._write(request, action, subject, f"defect: {type(error).__name__}", counted=False)
            raise

    def _write(self, request: Request, action: str, subject: str, outcome: str, counted: bool) -> None:
        caller = request.caller
        self._store.records.log(
            user_id=caller.user_id,
            user_name=caller.user_name,
            user_domain_id=caller.user_domain_id,
            project_id=caller.project_id,
            project_domain_id=caller.project_domain_id,
            action=action,
            subject=subject[:255],
            address=request.address,
            user_agent=request.user_agent,
            request_id=request.request_id,
            outcome=outcome[:500],
            counted=counted,
        )
