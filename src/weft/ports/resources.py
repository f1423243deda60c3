"""Port: something that can find, create, update and delete resources of some kinds, each safe to repeat."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from weft.model.mark import Mark
from weft.model.owner import Owner
from weft.model.resources import AnyKind, Marked, Observed, Outcome, Resource


def _nothing() -> None:
    pass


@dataclass(frozen=True, slots=True)
class Scope:
    """For whom: the owner and its project.

    Attributes:
        fence: raises if the owner is in other hands by now. Called right before each thing is changed outside: a worker
            that slept may hold up a call for hours.
        waited: seconds since what is to be created was first asked for. Nothing sleeps in a driver: where a thing comes
            up by itself, that decides when it is made after all.
    """

    site: str
    owner: Owner
    name: str
    project_id: str
    fence: Callable[[], None] = field(default=_nothing, compare=False, repr=False)
    waited: float = field(default=0.0, compare=False, repr=False)

    def mark(self, key: str) -> Mark:
        return Mark(self.site, self.owner, key)


class ResourceDriver(Protocol):
    """Batches in, batches out, because every call saved counts (`find` is one listing, ports are one bulk POST).

    Every method may raise `TemporaryError`, `UnknownError` or `PermanentError` for the whole batch; an error of one
    resource is that resource's `Outcome`. All are safe to repeat, also after a lost answer: `create` first looks for
    the name and mark (or relies on the name being found again by `find`), `delete` of what is absent is fine.
    `ids` maps keys of needed resources to their outside ids.
    """

    @property
    def kinds(self) -> frozenset[AnyKind]: ...

    def find(
        self, scope: Scope, wanted: Sequence[Resource], ids: Mapping[str, str]
    ) -> Mapping[str, Observed]:
        """What was seen of every one of `wanted`. Raises `UnknownError` if it can't tell.

        What is not there comes as `Observed.absent` with its proof, or not at all: a key left out is unknown.
        A thing whose id is known is the pod's, whatever a tenant has written on it. Of several that bear the pod's
        mark, the one whose id is known counts, else the oldest; the others come as `Marked` in the audit.
        """
        ...

    def create(
        self, scope: Scope, wanted: Sequence[Resource], ids: Mapping[str, str]
    ) -> Mapping[str, Outcome]: ...

    def update(
        self, scope: Scope, wanted: Sequence[Resource], ids: Mapping[str, str]
    ) -> Mapping[str, Outcome]:
        """Repair what `find` said differs, where it can be changed in place; else a `PermanentError` outcome."""
        ...

    def delete(
        self, scope: Scope, wanted: Sequence[Resource], ids: Mapping[str, str]
    ) -> Mapping[str, Outcome]:
        """Ask for removal; whether it is gone is only ever seen by `find`.

        Touches only things whose id we were given, or that bear the pod's mark.
        """
        ...

    def marked(self, site: str, projects: Sequence[str]) -> Sequence[Marked]:
        """Everything in those projects (all that can be seen, if empty) that bears this site's mark."""
        ...

    def remove_marked(self, things: Sequence[Marked]) -> Mapping[str, Outcome]:
        """id -> outcome: remove things that the audit found, after checking their mark again.

        An outcome without id and error means that the thing was seen to be absent: to know that it is gone, ask again.
        """
        ...


@runtime_checkable
class Acceptance(Protocol):
    """What a `ResourceDriver` may offer besides: to try out what it made before the pod is handed over."""

    def prove(self, scope: Scope, resources: Sequence[Resource]) -> str:
        """Use once what the pod is for, as its tenant. A sentence for the pod's events.

        Raises `NotYetError` until it was seen to work: ask again; `TemporaryError` or `PermanentError` if it can't be
        done. Where the tenant's own use leaves no room, that is the proof. Safe to repeat, also after a lost answer.
        """
        ...

    def clear_proof(self, scope: Scope, resources: Sequence[Resource]) -> None:
        """Take away what `prove` made. Raises `NotYetError` until that was seen to be gone: ask again."""
        ...
