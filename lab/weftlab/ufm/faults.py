"""What can be made to go wrong. Planted by tests in the process, or by the control of the program."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass
class Faults:
    """Nothing is planted at first. Counters count down with each question they hit.

    Attributes:
        job_polls: how many times a job says Running before it is done; its change is made only then.
        jobs: outcome of jobs: `fail` (Completed With Errors, nothing made), `lie` (Completed, nothing made),
            `forget` (nothing made, asked for it is `[]`), `forget done` (made, and `[]`), `abort`.
        hold: changes are accepted, and passed to the subnet manager only once this is lifted.
        stale: P_Keys are read as they were when this was planted.
        statuses: the next questions are answered with these, and not looked at (0: the connection is closed).
        lose_answers: how many of the next changes are made with their answers lost.
        hang: seconds before each answer to a change.
        texts: the next questions are answered 200 with these texts instead of JSON.
        starting: it answers 502 to everything, as while UFM starts.
        drop_gets: fields of each P_Key that answers lack, such as `guids`.
        without_default: the listing lacks 0x7fff.
    """

    job_polls: int = 0
    jobs: Literal["", "fail", "lie", "forget", "forget done", "abort"] = ""
    hold: bool = False
    stale: bool = False
    statuses: deque[int] = field(default_factory=deque[int])
    lose_answers: int = 0
    hang: float = 0.0
    texts: deque[str] = field(default_factory=deque[str])
    starting: bool = False
    drop_gets: tuple[str, ...] = ()
    without_default: bool = False

    def plant(self, wanted: dict[str, Any]) -> None:
        """Set some of them. Raises ValueError for a name that isn't one."""
        for name, value in wanted.items():
            if name not in self.__dataclass_fields__:
                raise ValueError(f"{name}: not a fault; there are {', '.join(self.__dataclass_fields__)}")
            kind = type(getattr(self, name))
            setattr(self, name, kind(value) if kind in (deque, tuple) else value)

    def lift(self) -> None:
        """End all faults."""
        self.plant(vars(Faults()))
