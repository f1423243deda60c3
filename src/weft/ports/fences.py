"""Port: the proof that a worker still holds an owner, checked right before each external change."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence

Fence = Callable[[], None]
"""The proof that this worker still holds the owner: raises if another worker holds it by now."""


def unfenced() -> None:
    """A fence that always passes, where no other worker can hold the owner."""


class JointFence(ABC):
    """A `Fence` whose proof can be renewed together with others of its kind, in one request."""

    @abstractmethod
    def __call__(self) -> None: ...

    @abstractmethod
    def renew(self, fences: Sequence[JointFence]) -> None:
        """Renew the proofs of all these. One that can't be renewed raises when it is called.

        Raises `TemporaryError` or `PermanentError` if the request fails.
        """


def renew(fences: Iterable[Fence]) -> None:
    """Renew in one request all fences that allow it, before they are called one by one. Raises the same errors as
    `JointFence.renew`."""
    joint = [f for f in fences if isinstance(f, JointFence)]
    if len(joint) > 1:
        joint[0].renew(joint)
