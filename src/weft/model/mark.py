"""The mark on everything that weft makes: by it, and by nothing else, a sweep may touch a thing."""

from __future__ import annotations

import re
from dataclasses import dataclass

_NAME = re.compile(r"weft-([0-9a-f]{8})-(.+)\Z")
_TEXT = re.compile(r"weft site=(\S+) pod=([0-9a-f-]{36}) key=(\S+)\Z")


@dataclass(frozen=True, slots=True)
class Mark:
    """Who owns a thing: `text()` goes into its description, `tags()` into its tags where it has any."""

    site: str
    pod_id: str
    key: str

    def text(self) -> str:
        return f"weft site={self.site} pod={self.pod_id} key={self.key}"

    def tags(self) -> tuple[str, ...]:
        return ("weft", f"weft-site={self.site}", f"weft-pod={self.pod_id}")

    def name(self) -> str:
        """The deterministic name of the thing that bears this mark."""
        return outside_name(self.pod_id, self.key)

    @classmethod
    def parse(cls, text: str) -> Mark | None:
        """The mark in a description, or None if there is none."""
        match = _TEXT.match(text or "")
        return cls(*match.groups()) if match else None


def outside_name(pod_id: str, key: str) -> str:
    """The deterministic name of a resource outside: a lost answer is found again by it, not made twice."""
    return f"weft-{pod_id[:8]}-{key.replace('/', '-')}"


def short_id_of(name: str) -> str | None:
    """First eight digits of the pod's id in an outside name, or None if it is not one of ours."""
    match = _NAME.match(name or "")
    return match.group(1) if match else None
