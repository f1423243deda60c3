"""Links of hosts' ports at switches."""

from __future__ import annotations

from typing import NamedTuple


class LinkStates(NamedTuple):
    """Ids of hosts' ports, as in `Membership`, whose links are up or down; of others that isn't known."""

    up: frozenset[str]
    down: frozenset[str]
