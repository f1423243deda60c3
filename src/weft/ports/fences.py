"""Port: the proof that a worker still holds an owner, which is asked for right before each external change."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence

Fence = Callable[[], None]
"""Raises if another worker holds the owner by now."""


def unfenced() -> None:
    """Where nobody else is in charge."""


class JointFence(ABC):
    """A `Fence` whose proof can be renewed together with those of others of its kind, with one question."""

    @abstractmethod
    def __call__(self) -> None: ...

    @abstractmethod
    def renew(self, fences: Sequence[JointFence]) -> None:
        """Renew the proofs of all these. Whose can't be renewed is told so when it is called.

        Raises `TemporaryError` or `PermanentError` if nobody can be asked.
        """


def renew(fences: Iterable[Fence]) -> None:
    """Before many of them are called one after the other: ask together what can be. Raises as `JointFence.renew`."""
    joint = [f for f in fences if isinstance(f, JointFence)]
    if len(joint) > 1:
        joint[0].renew(joint)
