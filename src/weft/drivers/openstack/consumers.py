"""Consumers with allocations of compute hosts in Placement, and what is reserved there.

Sources: Placement's "List resource providers" (`in_tree`), "List resource provider allocations" and "List resource
provider inventories" (`reserved`: of a whole inventory by an operator, or by Nova of a device that is used once).
Allocations are listed for one provider at a time, so an overview of a cloud is read in rounds, a bounded number of
requests in each. Two listings show which of many hosts have none, and which have no new one since they were read
(`weft.drivers.openstack.providers`).
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import NamedTuple

from weft.drivers.openstack.lookups import PLACEMENT_MICROVERSION
from weft.drivers.openstack.providers import Tree, trees, unused
from weft.drivers.openstack.session import Project
from weft.model.errors import UnknownError

log = logging.getLogger(__name__)

FRESH_TREE = 300.0
"""Seconds for which a host's resource providers, and what is reserved of them, are cached: they change only with its
devices, or when an operator changes them."""
ROUND = 500
"""Most requests in one round; the last host may exceed it by the providers of its devices."""
KNOWN = 300.0
"""Seconds after which a host's last reading expires if Placement doesn't answer."""
SAME = 120.0
"""Seconds for which a reading of a host counts while the generations of its providers are the same. They limit what a
Placement that was restored from a backup, and has come to the same generations again, could hide."""
_PLACEMENT = {"OpenStack-API-Version": f"placement {PLACEMENT_MICROVERSION}"}
_NO_DEVICES = (
    "VCPU",
    "PCPU",
    "MEMORY_MB",
    "DISK_GB",
    "VGPU",
    "MEM_ENCRYPTION_CONTEXT",
    "NET_BW_",
    "NET_PACKET_RATE_",
)
"""Prefixes of resource classes (os-resource-classes) that aren't PCI devices."""
_UNKNOWN = "unknown"
"""Placeholder for the classes of an allocation that is shown without any."""

Classes = Mapping[str, frozenset[str]]
"""Consumer -> resource classes of its allocation that may be devices."""
_NONE: Classes = {}


class _Reading(NamedTuple):
    """Consumers with allocations of a host at a time (monotonic seconds), and the host's tree as listed before that.

    Attributes:
        shown: servers that Nova showed on the host before that.
        plain: nothing of the host's own provider is a device.
    """

    at: float
    tree: Tree
    classes: Classes
    shown: frozenset[str]
    plain: bool = False


@dataclass(frozen=True, slots=True)
class Overview:
    """What listings say of many hosts.

    Attributes:
        trees: provider -> its tree.
        classes: provider of a host -> the consumers with allocations there; only where the listings prove it.
        shown: provider of a host -> servers that Nova shows on the host.
    """

    trees: Mapping[str, Tree] = field(default_factory=dict[str, Tree])
    classes: Mapping[str, Classes] = field(default_factory=dict[str, Classes])
    shown: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])


NOTHING = Overview()


class Consumers:
    """Consumers of hosts, each known by the ids of its resource providers (one, except for hosts with several
    hypervisors).

    Args:
        asking: threads for requests.
        unreadable: exceptions of an answer that can't be read.
    """

    def __init__(self, asking: Executor, unreadable: tuple[type[Exception], ...]) -> None:
        self._asking, self._unreadable = asking, unreadable
        self._trees: dict[str, tuple[float, tuple[str, ...]]] = {}
        self._read: dict[str, tuple[float, Classes]] = {}
        self._withheld: dict[str, tuple[float, str]] = {}
        self._readings: dict[str, _Reading] = {}

    def overview(self, own: Project, shown: Mapping[str, Collection[str]]) -> Overview:
        """What listings of the whole cloud say now. Hosts that they say nothing about, as when Placement doesn't
        answer, are asked about one by one. An earlier reading counts if no allocation was written since, and each one
        in it is of a server that Nova shows there: removing an allocation changes no generation. One more server than
        then, and one write to the host's own provider, are that server's allocation.

        Args:
            shown: provider of a host -> servers that Nova shows on the host.
        """
        try:
            listed = trees(own)
        except self._unreadable as error:
            log.warning("Placement's resource providers can't be listed at once: %s", error)
            return NOTHING
        at, known, changed = time.monotonic(), dict[str, Classes](), list[str]()
        servers = {p: frozenset(shown[p]) for p in shown.keys() & listed.keys()}
        self._trees = {**self._trees, **{p: (at, tuple(sorted(listed[p]))) for p in servers}}
        more = dict[str, _Reading]()
        for provider, there in servers.items():
            before = self._readings.get(provider)
            if before is None or at - before.at > SAME or not before.classes.keys() <= there:
                changed.append(provider)
            elif before.tree == listed[provider]:
                known[provider] = before.classes
            elif (after := _with_one_more(before, provider, listed[provider], there)) is not None:
                known[provider], more[provider] = after.classes, after
            else:
                changed.append(provider)
        # What Nova shows a server on is used: that listing can't prove more of it.
        if len(perhaps := [p for p in changed if not servers[p]]) > 1:
            empty = self._unused(own, {p: listed[p] for p in perhaps})
            known |= dict.fromkeys(empty, _NONE)
            more |= {p: _Reading(at, listed[p], _NONE, frozenset(), plain) for p, plain in empty.items()}
        self._remember(more)
        return Overview(listed, known, servers)

    def _unused(self, own: Project, of: Mapping[str, Tree]) -> dict[str, bool]:
        """Those of these hosts' providers in whose trees nothing is used -> `_Reading.plain`."""
        try:
            free = unused(own)
        except self._unreadable as error:
            log.warning("what is used of Placement's providers can't be listed at once: %s", error)
            return {}
        found = [provider for provider, tree in of.items() if tree.keys() <= free.keys()]
        at = time.monotonic()
        open_ = {p: (at, "") for p in found if all(free[one].is_open for one in of[p])}
        self._withheld = {**self._withheld, **open_}
        return {p: all(c.startswith(_NO_DEVICES) for c in free[p].classes) for p in found}

    def _remember(self, readings: Mapping[str, _Reading]) -> None:
        at = time.monotonic()
        kept = {p: one for p, one in self._readings.items() if at - one.at <= SAME}
        self._readings = {**kept, **readings}

    def of(self, own: Project, host: str, provider: str, overview: Overview = NOTHING) -> Classes:
        """Consumers with an allocation of a host, or of only one of its devices, which may be providers of their own.
        Raises what an unreadable answer raises.
        """
        if provider in overview.classes:
            return overview.classes[provider]
        listed = overview.trees.get(provider)
        tree = self._tree(own, host, provider) if listed is None else tuple(sorted(listed))
        found, at = dict[str, frozenset[str]](), time.monotonic()
        for one in tree:
            for consumer, classes in _allocations(own, host, one).items():
                found[consumer] = found.get(consumer, frozenset()) | classes
        whole = {consumer: found[consumer] for consumer in sorted(found)}
        if listed is not None:
            self._remember({provider: _Reading(at, listed, whole, overview.shown.get(provider, frozenset()))})
        return whole

    def _tree(self, own: Project, host: str, provider: str) -> tuple[str, ...]:
        read_at, tree = self._trees.get(provider, (-math.inf, ()))
        if time.monotonic() - read_at > FRESH_TREE:
            tree = _tree(own, host, provider)
            self._trees = {**self._trees, provider: (time.monotonic(), tree)}
        return tree

    def withheld(self, own: Project, host: str, provider: str) -> str:
        """Inventories of a host that are reserved as a whole, at most `FRESH_TREE` old; empty if there are
        none, or if they can't be read. Call it after `of`. Nova itself wouldn't place a server there, so a failure to
        read is only logged.
        """
        read_at, text = self._withheld.get(provider, (-math.inf, ""))
        if time.monotonic() - read_at > FRESH_TREE:
            tree = self._trees.get(provider, (0.0, (provider,)))[1]
            try:
                text = ", ".join(one for p in tree for one in _reserved(own, host, p))
            except self._unreadable as error:
                log.warning("what Placement has reserved of host %s is not known: %s", host, error)
            self._withheld = {**self._withheld, provider: (time.monotonic(), text)}
        return text

    def forget(self, providers: Iterable[str]) -> None:
        """Forget these providers' cached trees, which may have changed."""
        gone = set(providers)
        self._trees = {p: t for p, t in self._trees.items() if p not in gone}

    def round(
        self, own: Project, hosts: Mapping[str, Iterable[str]], sentence: Callable[[Exception], str]
    ) -> tuple[Mapping[str, Classes], Mapping[str, str], Mapping[str, str]]:
        """Read some hosts; returns host -> consumers with an allocation there, as last read; host -> why that is
        unknown; and host -> what is reserved there, from the second reading on, up to `FRESH_TREE` old: allocations of
        all hosts come first. Hosts that had an allocation are read first, then those that were read longest ago. A host
        that no round has reached yet is in neither. One caller at a time.

        Args:
            hosts: host -> ids of its resource providers.
        """
        self._read = {host: known for host, known in self._read.items() if host in hosts}
        turn = sorted(hosts, key=lambda h: (not self._read.get(h, (0.0, {}))[1], self._when(h), h))
        failed: dict[str, str] = {}
        overview = (
            self.overview(own, {p: () for of in hosts.values() for p in of})
            if 1 < len(hosts) <= ROUND
            else NOTHING
        )
        for batch in self._batches(turn, hosts):
            answers = list(self._asking.map(lambda h: self._one(own, h, hosts[h], overview), batch))
            for host, answer in zip(batch, answers, strict=True):
                if isinstance(answer, Exception):
                    failed[host] = sentence(answer)
                else:
                    self._read[host] = (time.monotonic(), answer)
            if failed:
                break
        withheld = {h: text for h, own_ in hosts.items() if (text := self._known_withheld(own_))}
        if not failed:
            return {host: classes for host, (_, classes) in self._read.items()}, {}, withheld
        old = {h for h in hosts if time.monotonic() - self._when(h) > KNOWN}
        why = next(iter(failed.values()))
        known = {host: classes for host, (_, classes) in self._read.items() if host not in old}
        return known, {host: failed.get(host, why) for host in sorted(old)}, withheld

    def _known_withheld(self, providers: Iterable[str]) -> str:
        return ", ".join(text for p in providers if (text := self._withheld.get(p, (0.0, ""))[1]))

    def _when(self, host: str) -> float:
        known = self._read.get(host)
        return known[0] if known else -math.inf

    def _batches(self, turn: list[str], hosts: Mapping[str, Iterable[str]]) -> Iterable[list[str]]:
        """Batches of as many hosts as the requests of a round allow."""
        spent, batch = 0, list[str]()
        for host in turn:
            batch.append(host)
            # Inventories are read only of known trees, with about as many requests as reading the tree took.
            spent += sum(1 + len(self._trees.get(p, (0.0, (p,)))[1]) for p in hosts[host])
            if spent >= ROUND:
                break
            if len(batch) == _TOGETHER:
                yield batch
                batch = []
        if batch:
            yield batch

    def _one(
        self, own: Project, host: str, providers: Iterable[str], overview: Overview
    ) -> Classes | Exception:
        try:
            found: dict[str, frozenset[str]] = {}
            for provider in providers:
                known = provider in self._trees
                for consumer, classes in self.of(own, host, provider, overview).items():
                    found[consumer] = found.get(consumer, frozenset()) | classes
                if known:
                    self.withheld(own, host, provider)
            return found
        except self._unreadable as error:
            self.forget(providers)
            return error


def _with_one_more(before: _Reading, provider: str, tree: Tree, shown: frozenset[str]) -> _Reading | None:
    """A reading with the allocation of one more server, as it must be by now; None: what was written isn't known.

    Nova boots no server on a host before it has written its allocation, in a request of its own. Each write adds one to
    the generation of each provider that it takes from: one alone can't be another consumer's. If it took from the
    host's own provider alone, and that has no devices, it has none. The reading is no newer than the one before.
    """
    new = shown - before.shown
    if not before.plain or len(new) != 1 or tree != {**before.tree, provider: before.tree[provider] + 1}:
        return None
    return before._replace(tree=tree, classes={**before.classes, min(new): frozenset()}, shown=shown)


_TOGETHER = 16
"""Hosts that are read together: the requests in flight when Placement stops answering."""


def _tree(own: Project, host: str, provider: str) -> tuple[str, ...]:
    """A host's provider, and those of its devices: Nova's of PCI devices and GPUs, Neutron's of bandwidths."""
    asked = f"list the resource providers of host {host}"
    answer = own.placement.ask(
        asked, "GET", "/resource_providers", params={"in_tree": provider}, headers=_PLACEMENT
    )
    found = tuple(sorted(str(p["uuid"]) for p in own.placement.rows(asked, answer, "resource_providers")))
    if provider not in found:
        raise UnknownError(asked, "Placement", f"it doesn't list {provider}, the host's own")
    return found


def _allocations(own: Project, host: str, provider: str) -> dict[str, frozenset[str]]:
    asked = f"list the allocations on host {host}"
    answer = own.placement.ask(
        asked, "GET", f"/resource_providers/{provider}/allocations", headers=_PLACEMENT
    )
    rows = own.placement.part(asked, answer, "allocations")
    return {
        str(consumer): frozenset(
            c for c in map(str, row.get("resources") or [_UNKNOWN]) if not c.startswith(_NO_DEVICES)
        )
        for consumer, row in rows.items()
    }


def _reserved(own: Project, host: str, provider: str) -> list[str]:
    """Inventories that are reserved as a whole."""
    asked, path = f"list the inventories of host {host}", f"/resource_providers/{provider}/inventories"
    answer = own.placement.ask(asked, "GET", path, headers=_PLACEMENT)
    rows = own.placement.part(asked, answer, "inventories")
    whole = {name: int(r["total"]) for name, r in rows.items() if int(r["reserved"]) >= int(r["total"]) > 0}
    return [f"{total} of {total} {name} of {provider}" for name, total in sorted(whole.items())]
