"""Port: finds, creates, updates and deletes resources of certain kinds; all calls are idempotent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from weft.model.errors import UnknownError, WeftError
from weft.model.mark import Mark
from weft.model.owner import Owner
from weft.model.resources import AnyKind, Marked, Observed, Outcome, Resource
from weft.ports.fences import Fence, unfenced
from weft.ports.listings import SharedListings


@dataclass(frozen=True, slots=True)
class Scope:
    """On whose behalf a driver is called: the owner and its project.

    Attributes:
        fence: raises if another worker holds the owner by now. Called right before each external change: a worker that
            was suspended may resume in the middle of a call hours later.
        waited: seconds since creation was first requested. Drivers never sleep: if a resource may appear by itself,
            this decides when it is created after all.
        patient: no caller is in a hurry: a reading may begin a moment later, to be shared by more.
        changed: for `find`: this worker just changed the resources, and all requests were answered; any reading that
            began after that is recent enough.
        glance: for `find`: a change of the resources is under way. As long as reading them alone shows that it isn't
            complete, the rest of the fabric needn't be read.
        leaving: the resources are no longer wanted. From those that stay (`Spec.stays`) `delete` removes weft's mark,
            and gives them the name under which they stay; `find` shows them as `Status.KEPT` once they have no mark.
        by_id: only resources with the given ids are the owner's, whatever else has its mark.
        listings: for `find`: shared with other calls that observe the same owner now.
    """

    site: str
    owner: Owner
    name: str
    project_id: str
    fence: Fence = field(default=unfenced, compare=False, repr=False)
    waited: float = field(default=0.0, compare=False, repr=False)
    patient: bool = field(default=False, compare=False, repr=False)
    changed: bool = field(default=False, compare=False, repr=False)
    glance: bool = field(default=False, compare=False, repr=False)
    leaving: bool = field(default=False, compare=False, repr=False)
    by_id: bool = field(default=False, compare=False, repr=False)
    listings: SharedListings | None = field(default=None, compare=False, repr=False)

    def mark(self, key: str) -> Mark:
        """The mark of the owner's resource with this key."""
        return Mark(self.site, self.owner, key)


class PartlyListedError(UnknownError):
    """A part of a listing couldn't be read.

    Args:
        found: what was read.
        unread: what wasn't read (such as `shares of project 12ab`) -> why.
    """

    def __init__(self, of: str, found: Sequence[Marked], unread: Mapping[str, WeftError]) -> None:
        listed = "; ".join(f"{what}: {why}" for what, why in list(unread.items())[:3])
        more = f" (and {len(unread) - 3} more)" if len(unread) > 3 else ""
        super().__init__("list what carries weft's mark", of, f"{listed}{more}")
        self.found, self.unread = found, unread


Ids = Mapping[str, str]
"""Key of a resource -> its id outside."""
Observations = Mapping[str, Observed]
"""Key of a resource -> what was observed of it."""
Outcomes = Mapping[str, Outcome]
"""Key of a resource -> the result of an attempt."""


class ResourceDriver(Protocol):
    """Batches in, batches out, because every call saved counts (`find` is one listing, ports are one bulk POST).

    Every method may raise `TemporaryError`, `UnknownError` or `PermanentError` for the whole batch; an error of one
    resource is that resource's `Outcome`. All are idempotent, also after a lost response: `create` first looks for
    the name and mark (or relies on the name being found again by `find`), deleting an absent resource is fine.
    `ids` maps keys of needed resources to their outside ids.
    """

    @property
    def kinds(self) -> frozenset[AnyKind]:
        """Kinds of resources that it serves."""
        ...

    def find(self, scope: Scope, wanted: Sequence[Resource], ids: Ids) -> Observations:
        """What was observed for each of `wanted`. Raises `UnknownError` if that can't be determined.

        What doesn't exist is returned as `Observed.absent` with its proof, or not at all: a missing key means unknown.
        A resource with a known id is the pod's, whatever a tenant has written on it. Of several that carry the pod's
        mark, that with the known id counts, else the oldest; the others are reported as `Marked` in the audit.
        """
        ...

    def create(self, scope: Scope, wanted: Sequence[Resource], ids: Ids) -> Outcomes:
        """Create what is missing, once; key -> outcome, with an error for each that failed."""
        ...

    def update(self, scope: Scope, wanted: Sequence[Resource], ids: Ids) -> Outcomes:
        """Repair differences reported by `find` that can be changed in place; otherwise the outcome is a
        `PermanentError`.
        """
        ...

    def delete(self, scope: Scope, wanted: Sequence[Resource], ids: Ids) -> Outcomes:
        """Request deletion; only `find` shows whether it is gone.

        Touches only resources whose id is given or that carry the pod's mark.
        """
        ...

    def marked(self, site: str, projects: Sequence[str]) -> Sequence[Marked]:
        """Everything in those projects (in all visible ones, if empty) that carries this site's mark.

        Raises `PartlyListedError` with what was found, if single projects can't be read.
        """
        ...

    def remove_marked(self, things: Sequence[Marked]) -> Mapping[str, Outcome]:
        """id -> outcome: delete what the audit found, after checking the mark again.

        An outcome without id and error means that it was seen absent: call again to know that it is gone.
        """
        ...


@runtime_checkable
class HandoverTest(Protocol):
    """Optional part of a `ResourceDriver`: test what it created before the pod is handed over."""

    def prove(self, scope: Scope, resources: Sequence[Resource]) -> str:
        """Use the pod once the way its tenant will. Returns a sentence for the pod's events.

        Raises `NotYetError` until it works: call again; `TemporaryError` or `PermanentError` if it can't be done. If
        the tenant already uses everything, that is the proof. Idempotent, also after a lost response.
        """
        ...

    def clear_proof(self, scope: Scope, resources: Sequence[Resource]) -> None:
        """Delete what `prove` created. Raises `NotYetError` until it is seen gone: call again."""
        ...
