"""Who is on which link of a fabric: the paths between pods' adapters, and whose traffic explains a congestion. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.model.errors import InputError
from weft.model.linkreading import UNKNOWN_RATE, Pattern, PortRate, RouteReading
from weft.planning.fabric.equalpaths import EqualPaths
from weft.planning.fabric.forwarding import Fate, Forwarding, Ints

MOST_PATHS = 4_000_000
"""Most paths of all pods together, to bound time and memory."""
_FEW = 32
"""Adapters up to which plain loops are faster than numpy."""
CONGESTED = 0.3
"""Share of waiting above which a link is congested, in two intervals in a row."""
CAUSE = 0.8
"""Share of the bytes on a congested link from which a pod is called the cause: both of those that pods explain, and of
those that the link carried."""


class PodAdapter(NamedTuple):
    """An adapter of a pod: its port, where its node is in the tree's order, and its rail, from 0."""

    port_guid: int
    node: int
    rail: int


class LinkUser(NamedTuple):
    """What has adapters on a fabric: a pod, or a tenant's own network."""

    id: str
    adapters: tuple[PodAdapter, ...]


class OnLink(NamedTuple):
    """A user of a link. Attributes: user: its index; paths: how many of its paths use the link."""

    user: int
    paths: int


class Suspect(NamedTuple):
    """What a user sends on a link, in bytes per second, by what its adapters send, split over their paths.

    Attributes:
        sent: None: not known for all of its adapters.
    """

    user: int
    sent: float | None


@dataclass(frozen=True, slots=True)
class LinkUse:
    """Paths of all users on all links.

    Attributes:
        link, actor, paths: of each row, sorted by link; an actor is an adapter of a user that sends.
        user_of, port_of, targets: of each actor, its user, the index of its port, and how many paths it has.
        lost: user -> how many of its paths don't arrive, by their fate.
        unseen: user -> how many of its adapters no switch has a cable to.
    """

    users: tuple[LinkUser, ...]
    link: Ints
    actor: Ints
    paths: Ints
    user_of: Ints
    port_of: Ints
    targets: Ints
    lost: Mapping[int, Mapping[Fate, int]]
    unseen: Mapping[int, int]

    def _rows(self, link: int) -> slice:
        first, last = np.searchsorted(self.link, [link, link + 1])
        return slice(int(first), int(last))

    def on(self, link: int) -> list[OnLink]:
        """Users of a link, those with most paths first."""
        rows = self._rows(link)
        found: dict[int, int] = {}
        for user, paths in zip(
            self.user_of[self.actor[rows]].tolist(), self.paths[rows].tolist(), strict=True
        ):
            found[user] = found.get(user, 0) + paths
        return [OnLink(user, n) for user, n in sorted(found.items(), key=lambda i: (-i[1], i[0]))]

    def links_of(self, user: int) -> dict[int, int]:
        """Link -> how many paths of a user it has."""
        mine = self.user_of[self.actor] == user
        links, where = np.unique(self.link[mine], return_inverse=True)
        paths = np.bincount(where, self.paths[mine], len(links)).astype(int)
        return dict(zip(links.tolist(), paths.tolist(), strict=True))

    def sent_on(
        self, link: int, forwarding: Forwarding, rates: Mapping[tuple[int, int], PortRate]
    ) -> list[Suspect]:
        """What each user sends on a link, most first; where that isn't known, last."""
        rows = self._rows(link)
        found: dict[int, float | None] = {}
        for actor, paths in zip(self.actor[rows].tolist(), self.paths[rows].tolist(), strict=True):
            port = forwarding.ports[int(self.port_of[actor])]
            sent = rates.get((port.node_guid, port.port), UNKNOWN_RATE).sent
            user = int(self.user_of[actor])
            before = found.get(user, 0.0)
            known = sent is not None and before is not None
            found[user] = before + sent * paths / int(self.targets[actor]) if known else None
        suspects = [Suspect(user, sent) for user, sent in found.items()]
        return sorted(suspects, key=lambda s: (s.sent is None, -(s.sent or 0.0), s.user))


def is_congested(rate: PortRate) -> bool | None:
    """Whether a link is congested by two intervals; None: not known.

    A share that is at least something may be more, so that a low one proves nothing.
    """
    shares = [s for s in (rate.waiting, rate.waiting_before) if s is not None]
    if any(s <= CONGESTED for s in shares) and not rate.at_least:
        return False
    return True if len(shares) == 2 and all(s > CONGESTED for s in shares) else None


def cause(suspects: Sequence[Suspect], carried: float | None) -> int | None:
    """The user that explains a congestion by itself; None: none does, or not all is known.

    Args:
        carried: bytes per second that the link's port sent; what users don't explain of it is other traffic, such as
            storage's, or that of users whose paths aren't known.
    """
    if not suspects or carried is None or any(s.sent is None for s in suspects):
        return None
    total, first = sum(s.sent or 0.0 for s in suspects), suspects[0]
    return first.user if total > 0 and (first.sent or 0.0) >= CAUSE * max(total, carried) else None


@lru_cache(maxsize=8)
def forwarding_of(routes: RouteReading) -> Forwarding:
    """The tables to be followed; readings with the same tables share them."""
    if routes.equal_paths:
        return EqualPaths(routes.ports, routes.cables)
    return Forwarding(routes.tables, routes.ports, routes.cables)


@lru_cache(maxsize=16)
def link_use(routes: RouteReading, users: tuple[LinkUser, ...], pattern: Pattern) -> LinkUse:
    """Follow the paths of all users. Raises `InputError` if there are more than `MOST_PATHS`."""
    forwarding = forwarding_of(routes)
    sources: list[Ints] = []
    targets: list[Ints] = []
    ports: list[int] = []
    user_of: list[int] = []
    unseen: dict[int, int] = {}
    total = 0
    for number, user in enumerate(users):
        seen = [a for a in user.adapters if a.port_guid in forwarding.of_port]
        if missing := len(user.adapters) - len(seen):
            unseen[number] = missing
        total += _number(seen, pattern)
        if total > MOST_PATHS:
            allowed = f"another pattern: all pods together have more than {MOST_PATHS:,} paths of this one"
            raise InputError("pattern", pattern, allowed)
        first = len(ports)
        ports += [forwarding.of_port[a.port_guid] for a in seen]
        user_of += [number] * len(seen)
        for source, target in _pairs(seen, pattern):
            sources.append(source + np.int32(first))
            targets.append(target + np.int32(first))
    port_of, of = np.array(ports, np.int32), np.array(user_of, np.int32)
    actor = np.concatenate(sources) if sources else np.zeros(0, np.int32)
    goal = np.concatenate(targets) if targets else np.zeros(0, np.int32)
    actor, lids, goal = _each_lid(forwarding, port_of, actor, goal)
    followed = forwarding.follow(port_of[actor], port_of[goal], lids)
    per_actor = np.bincount(actor, minlength=len(ports)).astype(np.int32)
    keys = followed.link.astype(np.int64) * max(1, len(ports)) + actor[followed.path]
    rows, paths = np.unique(keys, return_counts=True)
    lost = _lost(of[actor], followed.fate)
    return LinkUse(
        users,
        (rows // max(1, len(ports))).astype(np.int32),
        (rows % max(1, len(ports))).astype(np.int32),
        paths.astype(np.int32),
        of,
        port_of,
        per_actor,
        lost,
        unseen,
    )


def _lost(users: Ints, fate: NDArray[np.int8]) -> dict[int, dict[Fate, int]]:
    found: dict[int, dict[Fate, int]] = {}
    for index in np.flatnonzero(fate):
        mine = found.setdefault(int(users[index]), {})
        end = Fate(int(fate[index]))
        mine[end] = mine.get(end, 0) + 1
    return found


def _each_lid(
    forwarding: Forwarding, port_of: Ints, actor: Ints, goal: Ints
) -> tuple[Ints, Ints | None, Ints]:
    """The same paths, once for each LID of their targets."""
    if not forwarding.many_lids or not len(actor):
        return actor, None, goal
    lids = [forwarding.lids(int(port_of[g])) for g in goal]
    times = np.array([len(r) for r in lids])
    all_lids = np.array([lid for r in lids for lid in r], np.int32)
    return np.repeat(actor, times), all_lids, np.repeat(goal, times)


def _number(adapters: Sequence[PodAdapter], pattern: Pattern) -> int:
    """Most paths that a pattern has between these adapters."""
    if pattern == "all":
        return len(adapters) * (len(adapters) - 1)
    rails: dict[int, int] = {}
    for one in adapters:
        rails[one.rail] = rails.get(one.rail, 0) + 1
    return sum(n if pattern == "ring" else n * (n - 1) for n in rails.values())


def _pairs(adapters: Sequence[PodAdapter], pattern: Pattern) -> Iterator[tuple[Ints, Ints]]:
    """Indexes of sources and targets, which are on different nodes."""
    groups: dict[int, list[int]] = {}
    for i, one in enumerate(adapters):
        groups.setdefault(0 if pattern == "all" else one.rail, []).append(i)
    for mine in groups.values():
        if pattern == "ring":
            mine.sort(key=lambda i: adapters[i].node)
            pairs = list(zip(mine, (*mine[1:], mine[0]), strict=True))
        elif len(mine) <= _FEW:
            pairs = [(a, b) for a in mine for b in mine]
        else:
            nodes = np.array([adapters[i].node for i in mine], np.int32)
            all_ = np.array(mine, np.int32)
            first, second = np.nonzero(nodes[:, None] != nodes[None, :])
            yield all_[first], all_[second]
            continue
        apart = [(a, b) for a, b in pairs if adapters[a].node != adapters[b].node]
        if apart:
            found = np.array(apart, np.int32)
            yield found[:, 0], found[:, 1]
