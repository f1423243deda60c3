"""Refusals: one class for each gRPC status that openvipu answers with. The text is one clear sentence."""

from __future__ import annotations


class Refusal(Exception):  # noqa: N818 - a refusal is no defect
    """A request that is refused; nothing was changed."""


class BadRequest(Refusal):
    """A field's value is not allowed, whatever the state is (INVALID_ARGUMENT)."""


class NotFound(Refusal):
    """The named thing doesn't exist, or this user may not see it (NOT_FOUND)."""


class AlreadyExists(Refusal):
    """The name is taken (ALREADY_EXISTS)."""


class NoRoom(Refusal):
    """Allowed, but there is no free place for it now (RESOURCE_EXHAUSTED)."""


class Conflict(Refusal):
    """Allowed, but not in the present state (FAILED_PRECONDITION)."""


class Unauthenticated(Refusal):
    """No user, or a wrong key (UNAUTHENTICATED)."""


class Forbidden(Refusal):
    """A known user without the right (PERMISSION_DENIED)."""


class Unavailable(Refusal):
    """An agent didn't answer (UNAVAILABLE); try again."""


class Busy(Refusal):
    """The queue of this allocation didn't get to the request within its deadline (ABORTED); try again."""


class StateError(Exception):
    """The state file can't be read; the text says what is wrong and where."""
