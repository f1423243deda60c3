"""The mark on everything that weft creates: a sweep only touches what carries it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from weft.model.owner import OWNER_KINDS, Owner, OwnerKind

_ID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_POD = re.compile(rf"weft site=(\S+) pod=({_ID}) key=(\S+)\Z")
_OTHERS: Mapping[str, OwnerKind] = {kind: kind for kind in OWNER_KINDS if kind != "pod"}
_OTHER = re.compile(rf"weft site=(\S+) owner=(\w+):({_ID}) key=(\S+)\Z")


@dataclass(frozen=True, slots=True)
class Mark:
    """The owner of a resource: `text()` goes into its description, `tags()` into its tags if it supports them."""

    site: str
    owner: Owner
    key: str

    def text(self) -> str:
        """`pod=ID` for a pod, `owner=KIND:ID` for every other owner."""
        return f"weft site={self.site} {_who(self.owner)} key={self.key}"

    def tags(self) -> tuple[str, ...]:
        """Tags that restrict listings to weft, a site and an owner."""
        return ("weft", f"weft-site={self.site}", owner_tag(self.owner))

    def name(self) -> str:
        """The deterministic name of the resource that carries this mark."""
        return outside_name(self.owner.id, self.key)

    @classmethod
    def parse(cls, text: str) -> Mark | None:
        """The mark in a description, or None if there is none."""
        return _parsed(text or "")


@lru_cache(65_536)
def _parsed(text: str) -> Mark | None:
    """Cached: a fabric's file has the marks of all pods and is read often."""
    if match := _POD.match(text):
        site, pod_id, key = match.groups()
        return Mark(site, Owner("pod", pod_id), key)
    if match := _OTHER.match(text):
        site, given, owner_id, key = match.groups()
        kind = _OTHERS.get(given)
        return None if kind is None else Mark(site, Owner(kind, owner_id), key)
    return None


def owner_tag(owner: Owner) -> str:
    """A tag that restricts listings to one owner's resources."""
    return f"weft-{_who(owner)}"


def _who(owner: Owner) -> str:
    return f"pod={owner.id}" if owner.kind == "pod" else f"owner={owner.kind}:{owner.id}"


def outside_name(owner_id: str, key: str) -> str:
    """The deterministic external name of a resource: after a lost response it is found by name, not created twice."""
    return f"weft-{owner_id[:8]}-{key.replace('/', '-')}"
