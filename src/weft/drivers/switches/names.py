"""The name that weft gives a VLAN: its mark in the 32 characters that switches allow."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass
from uuid import UUID

from weft.model.mark import Mark
from weft.model.owner import OWNER_KINDS, Owner, OwnerKind

_KINDS: dict[str, OwnerKind] = {kind[0]: kind for kind in OWNER_KINDS}
_NAME = re.compile(r"weft([a-z])([A-Za-z0-9_-]{22})([A-Za-z0-9_-]{3})([A-Za-z0-9_-]{2})\Z")


@dataclass(frozen=True, slots=True)
class Named:
    """A parsed name: the VLAN's owner, and whether this site's weft named it."""

    owner: Owner
    ours: bool


def vlan_name(mark: Mark) -> str:
    """`weft`, the owner's kind, its id, and short digests of site and key: 32 characters, letters, digits, - and _."""
    who = base64.urlsafe_b64encode(UUID(mark.owner.id).bytes).decode().rstrip("=")
    return f"weft{mark.owner.kind[0]}{who}{_short(mark.site, 3)}{_short(mark.key, 2)}"


def read_name(text: str, site: str) -> Named | None:
    """Parse a VLAN's name; None if it isn't one of weft's."""
    match = _NAME.match(text)
    kind = _KINDS.get(match[1]) if match else None
    if match is None or kind is None:
        return None
    owner = Owner(kind, str(UUID(bytes=base64.urlsafe_b64decode(match[2] + "=="))))
    return Named(owner, match[3] == _short(site, 3))


def _short(text: str, length: int) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode()[:length]
