"""Repairs of drifted ports, for many pods at a time: repairs that wait are combined into one request to the agent.

An agent repairs one request after the other, and its manager is queried for each port. So each request is of few
ports: in the order in which pods came, as many pods as these ports suffice for, and never part of a pod's. The agent
writes nothing but what its manager believes, so that a pod's ports may be repaired together with another's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from weft.drivers.joined import Queued, Submission, make_all, still_asked
from weft.drivers.wire.items import listing
from weft.model.agentapi import RepairQuery, RepairResult
from weft.model.errors import PermanentError, UnknownError, WeftError
from weft.model.ids import format_guid
from weft.model.resources import Observed
from weft.ports.fences import Fence

log = logging.getLogger(__name__)

REPAIRED_AT_ONCE = 32
"""Drifted ports that one request repairs. The rest of a pod's shows as pending until its next update, which begins with
those that were repaired longest ago."""
APART_SECONDS = 60.0
"""Seconds for which repairs that were refused together are tried one by one."""


@dataclass(frozen=True, slots=True)
class Drift:
    """What one caller wants repaired.

    Attributes:
        ports: GUIDs, at most `REPAIRED_AT_ONCE`.
        strays: GUIDs that no caller is responsible for, repaired where a request has room left.
        vacant: P_Keys (15 bits) that are removed from vacant leaf ports.
    """

    ports: tuple[int, ...]
    strays: tuple[int, ...]
    vacant: frozenset[int]


class RepairQueue(Queued[Submission[Drift]]):
    """Queue of one agent's repairs. Thread-safe.

    Args:
        send: sends a request to the agent, in bounded time.
        agent: its name, for errors.
        changed: called after each request, before its callers return; also after a failed one, since it may have been
            done.
    """

    def __init__(
        self,
        send: Callable[[RepairQuery], RepairResult],
        agent: str,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(self._make, "repairs", "repair ports", f"fabric agent {agent}", fitting=_fitting)
        self._send, self._agent, self._changed = send, agent, changed
        self._turn, self._last = 0, dict[int, int]()  # port GUID -> its last turn
        self._unrepaired: Mapping[int, str] = {}

    def repair(
        self,
        ports: Sequence[int],
        fence: Fence,
        vacant: Collection[int] = (),
        strays: Sequence[int] = (),
    ) -> None:
        """Repair some ports, and return when their request has been answered. See `Drift`.

        Raises what the fence raises right before the request, and:
            UnknownError: the agent doesn't respond.
            PermanentError: it refuses the request, also for this caller's ports alone.
        """
        if not (ports or vacant or strays):
            return
        mine = sorted(ports, key=lambda guid: self._last.get(guid, 0))[:REPAIRED_AT_ONCE]
        self.line.ask(Submission(Drift(tuple(mine), tuple(strays), frozenset(vacant)), fence=fence)).result()

    def explain(self, seen: Observed) -> Observed:
        """What was observed, with what the agent said of ports that differ when it was last asked to repair them.

        The first few, as with all reasons.
        """
        differing = [d.field for d in seen.differences]
        said = [
            why
            for guid, why in self._unrepaired.items()
            if any(format_guid(guid) in field for field in differing)
        ]
        return replace(seen, reason=f"{seen.reason}; not repaired: {listing(said)}") if said else seen

    def _make(self, parts: Sequence[Submission[Drift]]) -> None:
        make_all(parts, self._attempt, self._no_time, APART_SECONDS)

    def _attempt(self, parts: Sequence[Submission[Drift]]) -> None:
        if not (batch := still_asked(parts)):
            return
        ports = dict.fromkeys(guid for part in batch for guid in part.edit.ports)
        strays = dict.fromkeys(guid for part in batch for guid in part.edit.strays if guid not in ports)
        chosen = (*ports, *list(strays)[: max(0, REPAIRED_AT_ONCE - len(ports))])
        keys = frozenset[int]().union(*(part.edit.vacant for part in batch))
        self._turn += 1
        self._last |= dict.fromkeys(chosen, self._turn)
        try:
            result = self._send(RepairQuery(port_guids=chosen, vacant_keys=tuple(sorted(keys))))
            self._note(chosen, result)
        except WeftError as error:
            refused = len(batch) > 1 and isinstance(error, PermanentError)
            for part in batch:
                part.fail(error, apart=refused)
        finally:
            self._changed()

    def _note(self, asked: Collection[int], result: RepairResult) -> None:
        for problem in result.problems:
            log.warning("fabric agent %s couldn't repair %s", self._agent, problem)
        # Each names its port: agents of all versions say no more.
        said = {
            g: why for g in asked if (why := next((p for p in result.problems if format_guid(g) in p), ""))
        }
        self._unrepaired = {g: why for g, why in self._unrepaired.items() if g not in asked} | said

    def _no_time(self) -> UnknownError:
        return self._unknown(f"others' were repaired one by one for {APART_SECONDS:.0f} s before it")


def _fitting(parts: Sequence[Submission[Drift]]) -> int:
    """How many of these repairs, from the first on, fit into one request."""
    ports = set[int]()
    for count, part in enumerate(parts):
        ports.update(part.edit.ports)
        if count and len(ports) > REPAIRED_AT_ONCE:
            return count
    return len(parts)
