"""What the agent does for each request, independent of HTTP: it reads (`weft.fabricagent.observer`), and changes."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence

from weft.fabricagent.compare import compare
from weft.fabricagent.config import AgentConfig
from weft.fabricagent.observer import Observer
from weft.fabricagent.opensm import digest
from weft.fabricagent.repair import Repairer
from weft.fabricagent.wire import MAX_AGE
from weft.generate.partitions_conf import WeftPartition, parse, rewrite
from weft.model.agentapi import (
    ChangeResult,
    PartitionsChange,
    PortMismatch,
    RepairQuery,
    RepairResult,
    WeftPartitionDocument,
)
from weft.model.errors import ConflictError, InputError, RefusedError
from weft.model.mark import Mark

_MAX_NAP = 0.05
_DRIFT_SECONDS = 0.3
_MAP_SECONDS = 3600
"""While a change settles, an old map suffices: `tables` verifies each port's identity."""


class Agent(Observer):
    """The agent next to one subnet manager. Thread-safe; changes of the partition file are serialized."""

    def __init__(self, config: AgentConfig) -> None:
        super().__init__(config)
        self._repairer = Repairer(self._wire, config)
        self._changing = threading.Lock()

    def change(self, change: PartitionsChange) -> ChangeResult:
        """Replace weft's section, notify the subnet manager, and wait if requested.

        Raises:
            ConflictError: the file is not the expected one, read it again.
            InputError: another site's section, or an invalid mark.
            RefusedError: OpenSM would misread the new file; nothing was written.
        """
        if change.site != self._config.site:
            raise InputError("site", change.site, f"{self._config.site}, the site of agent {self.name}")
        wanted = [WeftPartition(d.pkey, _mark(d), d.members) for d in change.weft]
        with self._changing:
            old = self._file.read()
            if digest(old) != change.expected_digest:
                raise ConflictError(f"the partition file of {self.name} has changed: read it again")
            new = self._new_text(old, wanted)
            if new != old:
                self._file.write(new, change.expected_digest)
            self._log.mark(time.monotonic())
            pid = self._process.reload() if change.reload else None
        mismatches: tuple[PortMismatch, ...] = ()
        settled = False
        if change.wait_seconds and pid is not None:
            mismatches, settled = self._settle(old, new, change.wait_seconds)
        return ChangeResult(
            digest=digest(new),
            process=pid,
            settled=settled,
            mismatches=mismatches,
            problems=self._log.since_mark(),
        )

    def _new_text(self, old: str | None, wanted: Sequence[WeftPartition]) -> str:
        site = self._config.site
        new = rewrite(old, site, wanted)
        fatal = parse(new, site).fatal
        if fatal:
            raise RefusedError(
                f"{self._config.opensm.partitions_file} of {self.name} would not be read as it is meant;"
                f" nothing was written: {'; '.join(map(str, fatal))}"
            )
        return new

    def _settle(self, old: str | None, new: str, seconds: float) -> tuple[tuple[PortMismatch, ...], bool]:
        """Poll the ports affected by the change, then compare all others once. Takes at most `seconds`."""
        end = time.monotonic() + seconds
        hosts = list(self._wire.hosts(_MAP_SECONDS))
        before, after = self._expected(old, hosts), self._expected(new, hosts)
        changed = [g for g in hosts if before[g] != after[g]]
        left = self._poll(changed, after, end)
        others = [g for g in hosts if before[g] == after[g]]
        # The sweep doesn't write these ports: their differences are drift, which waiting won't repair.
        left += self._poll(others, after, min(end, time.monotonic() + _DRIFT_SECONDS))
        return tuple(left), not left

    def _poll(
        self, guids: Sequence[int], expected: Mapping[int, frozenset[int]], end: float
    ) -> list[PortMismatch]:
        nap = 0.001
        mismatches: list[PortMismatch] = []
        todo = list(guids)
        while todo:
            mismatches = [m for r in self._wire.poll(todo) for m in compare(r, expected[r.port_guid])]
            bad = {m.port_guid for m in mismatches}
            todo = [g for g in todo if g in bad]
            # Waiting doesn't bring back a disconnected port.
            if all(m.unreachable for m in mismatches) or time.monotonic() + nap > end:
                break
            time.sleep(nap)
            nap = min(2 * nap, _MAX_NAP)
        return mismatches

    def repair(self, query: RepairQuery) -> RepairResult:
        """Repair drift that the subnet manager doesn't notice; see `weft.fabricagent.repair`."""
        with self._changing:
            hosts = list(self._wire.hosts(MAX_AGE))
            return self._repairer.repair(query, self._expected(self._file.read(), hosts))


def _mark(document: WeftPartitionDocument) -> Mark:
    mark = Mark.parse(document.mark)
    if mark is None:
        raise InputError("mark", document.mark, "the text of a mark: weft site=… pod=… key=…")
    return mark
