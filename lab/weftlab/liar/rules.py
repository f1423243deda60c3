"""Which requests get a lie. Rules are planted while the liar runs; each counts its matches and its lies."""

from __future__ import annotations

import re
import threading
from collections import deque
from dataclasses import dataclass, field
from random import Random
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from weftlab.liar.lies import LIES
from weftlab.liar.messages import Asked

CALLS_KEPT = 20_000


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from None
    return text


class Rule(BaseModel):
    """One lie, and the requests that get it.

    Attributes:
        lie: name in `LIES`.
        service: as in the lab's catalog (`nova`); empty: every one.
        method: empty: every one.
        path: regular expression, found anywhere in path and query.
        skip: how many matching requests are answered truly first.
        times: most lies; None: until the rule is lifted.
        chance: of one request that matches; drawn from `seed`, so that the same requests meet the same lies.
        seconds: for lies that take time.
        rows: for `hidden_rows`: regular expression found in a row's JSON.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    lie: str
    service: str = ""
    method: str = ""
    path: str = ""
    skip: int = Field(default=0, ge=0)
    times: int | None = Field(default=None, ge=1)
    chance: float = Field(default=1.0, gt=0, le=1)
    seed: int = 0
    seconds: float = Field(default=3.0, ge=0, le=600)
    rows: str = ""

    _patterns = field_validator("path", "rows")(_pattern)

    @field_validator("lie")
    @classmethod
    def _known(cls, name: str) -> str:
        if name not in LIES:
            raise ValueError(f"one of {', '.join(LIES)}")
        return name

    def matches(self, asked: Asked) -> bool:
        """Whether the rule is about this request."""
        return (
            self.service in ("", asked.service)
            and self.method in ("", asked.method)
            and re.search(self.path, asked.path) is not None
        )


@dataclass(slots=True)
class Planted:
    """A rule at work. `seen`: requests that matched; `sent`: lies sent."""

    id: int
    rule: Rule
    seen: int = 0
    sent: int = 0
    chance: Random = field(default_factory=Random, repr=False)

    def view(self) -> dict[str, Any]:
        """The document that the control shows: id, rule, and how often it matched and lied."""
        said = self.rule.model_dump(exclude_defaults=True)
        return {"id": self.id, **said, "seen": self.seen, "sent": self.sent}


class Book:
    """All planted rules, and the latest calls. Thread-safe."""

    def __init__(self) -> None:
        self._planted: dict[int, Planted] = {}
        self._next = 1
        self._calls: deque[dict[str, Any]] = deque(maxlen=CALLS_KEPT)
        self._count = 0
        self._lock = threading.Lock()

    def plant(self, rule: Rule) -> int:
        """Add a rule; returns its id."""
        with self._lock:
            number, self._next = self._next, self._next + 1
            self._planted[number] = Planted(number, rule, chance=Random(rule.seed))
            return number

    def lift(self, number: int | None = None) -> bool:
        """Remove one rule, or all of them; False if there was none."""
        with self._lock:
            if number is not None:
                return self._planted.pop(number, None) is not None
            there = bool(self._planted)
            self._planted.clear()
            return there

    def chosen(self, asked: Asked) -> Planted | None:
        """The rule that applies to this request: the oldest that is due; it is counted as sent."""
        with self._lock:
            for planted in self._planted.values():
                rule = planted.rule
                if not rule.matches(asked):
                    continue
                planted.seen += 1
                due = planted.seen > rule.skip and (rule.times is None or planted.sent < rule.times)
                if due and (rule.chance == 1.0 or planted.chance.random() < rule.chance):
                    planted.sent += 1
                    return planted
            return None

    def not_sent(self, planted: Planted) -> None:
        """Take back the count of `chosen`: the true answer left nothing to lie about."""
        with self._lock:
            planted.sent -= 1

    def note(self, asked: Asked, status: int, lie: str) -> None:
        """Remember a request with its status and its lie, if any."""
        with self._lock:
            self._count += 1
            call = {"service": asked.service, "method": asked.method, "path": asked.path}
            self._calls.append({"number": self._count, **call, "status": status, "lie": lie})

    def rules(self) -> list[dict[str, Any]]:
        """All planted rules with their counts."""
        with self._lock:
            return [planted.view() for planted in self._planted.values()]

    def calls(self, after: int = 0) -> list[dict[str, Any]]:
        """What was asked, and what was answered; `status` 0: nothing."""
        with self._lock:
            return [call for call in self._calls if call["number"] > after]
