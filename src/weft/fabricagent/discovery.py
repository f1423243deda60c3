"""Where ports are: the discoveries of `ibnetdiscover`, and what a series of them proves. A discovery leaves
out what didn't answer in time, reports that on stderr, and exits with 0: it is partial. What an earlier one
showed is doubted, not gone, until a second, whole discovery lacks it too.
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from weft.fabricagent.config import DiagnosticPrograms, ManagerPort
from weft.model.errors import InputError, UnknownError
from weft.model.observedfabric import ObservedFabric, shown_messages
from weft.planning.fabric.ibnetdiscover import Discovery, HostPort, parse_ibnetdiscover
from weft.planning.fabric.sightings import AGAIN_SECONDS, Sightings

PARTIAL_SECONDS = 3600.0
"""How long a partial discovery is reported."""


@dataclass
class Map:
    """A discovery, its time, and what was learned along the way.

    Attributes:
        hosts: port GUID -> its place; for doubted ports that the discovery lacks, the former place.
        switch_lids: switch GUID -> its LID, likewise.
        unsure: ends of cables that an earlier discovery had, that this one lacks, and that aren't confirmed
        as gone.
        silent: LIDs of switches that didn't answer about a port that the discovery lacks.
    """

    discovery: Discovery
    made: float
    hosts: Mapping[int, HostPort]
    switch_lids: Mapping[int, int]
    unsure: int
    capacity: dict[int, int] = field(default_factory=dict[int, int])
    enforcement: dict[int, tuple[int, bool]] = field(default_factory=dict[int, tuple[int, bool]])
    silent: set[int] = field(default_factory=set[int])
    names: dict[int, str] = field(default_factory=dict[int, str])

    def name(self, guid: int) -> str:
        return self.names.get(guid, "")

    @property
    def doubts(self) -> tuple[str, ...]:
        """Why the discovery may be incomplete; empty if it isn't."""
        lacking = f"{self.unsure} ends of cables that were discovered before aren't shown"
        return (*self.discovery.fabric.partial, *((lacking,) if self.unsure else ()))


class Discoverer:
    """Runs the diagnostic programs of one HCA port. Thread-safe.

    Args:
        monotonic, sleep: replaced in tests.
    """

    def __init__(
        self,
        hca: ManagerPort,
        tools: DiagnosticPrograms,
        monotonic: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> None:
        self._hca, self._tools = hca, tools
        self._monotonic, self._sleep = monotonic, sleep
        self._lock = threading.RLock()
        self._map: Map | None = None
        self._ends = Sightings[tuple[int, int]]()
        self._partial: tuple[float, int, tuple[str, ...]] = (-PARTIAL_SECONDS, 0, ())

    def topology(self) -> ObservedFabric:
        """What exists now; `partial` if a second discovery doesn't confirm what the first one lacks."""
        for again in (True, False):
            found = self.map(0.0)
            if not again or not (found.unsure or found.discovery.fabric.partial):
                break
            self._sleep(AGAIN_SECONDS)
        return found.discovery.fabric.model_copy(update={"partial": found.doubts})

    def partial(self) -> tuple[str, ...]:
        """Why the last discovery may lack ports; empty if it shows all. Sends no request."""
        with self._lock:
            return self._map.doubts if self._map else ()

    def troubles(self) -> list[str]:
        """What discoveries of the last hour reported on stderr, in one sentence; sends no request."""
        with self._lock:
            when, number, said = self._partial
        if self._monotonic() - when >= PARTIAL_SECONDS:
            return []
        times = f"{number} discoveries were partial" if number > 1 else "a discovery was partial"
        return [
            f"{times}, the last one {self._monotonic() - when:.0f} s ago: {self._tools.ibnetdiscover}:"
            f" {'; '.join(said)}; what it doesn't show isn't taken for gone: look for ports that don't answer"
        ]

    def map(self, max_age: float) -> Map:
        """The last discovery if it is young enough, or a new one. Raises `UnknownError`."""
        with self._lock:
            if self._map is not None and self._map.unsure and not self._map.discovery.fabric.partial:
                max_age = min(max_age, AGAIN_SECONDS)  # a second discovery decides
            if self._map is None or self._monotonic() - self._map.made > max_age:
                self._map = self._merged(self._discovered(), self._monotonic())
            return self._map

    def _discovered(self) -> Discovery:
        try:
            text, said = self._ran(self._tools.ibnetdiscover)
        except UnknownError as error:
            self._note_partial((error.answer,))
            raise
        try:
            found = parse_ibnetdiscover(text)
        except InputError as error:
            answer = "; ".join((str(error), *shown_messages(said.splitlines())))
            raise UnknownError("read the topology", "ibnetdiscover", answer) from error
        partial = shown_messages([*said.splitlines(), *found.fabric.partial])
        return replace(found, fabric=found.fabric.model_copy(update={"partial": partial}))

    def _merged(self, found: Discovery, now: float) -> Map:
        """A discovery merged with doubted entries of an earlier one."""
        partial = found.fabric.partial
        if partial:
            self._note_partial(partial)
        self._ends.note({(e.guid, e.port) for link in found.fabric.links for e in link}, now, not partial)
        doubted, before = self._ends.doubted, self._map
        hosts, lids = dict(found.hosts), dict(found.switch_lids)
        names = {n.guid: n.name for n in found.fabric.nodes}
        if before is not None and doubted:
            switches = {guid for guid, _ in doubted}
            at = {g: h for g, h in before.hosts.items() if (h.peer_guid, h.peer_port) in doubted}
            hosts = {**at, **hosts}
            lids = {**{g: lid for g, lid in before.switch_lids.items() if g in switches}, **lids}
            names = {**{g: name for g, name in before.names.items() if g in switches}, **names}
        return Map(found, now, hosts, lids, len(doubted), names=names)

    def _note_partial(self, said: tuple[str, ...]) -> None:
        now, (when, number, _) = self._monotonic(), self._partial
        self._partial = now, number + 1 if now - when < PARTIAL_SECONDS else 1, said

    def run(self, program: str, *arguments: str) -> str:
        """Output of one of the diagnostic programs. Raises `UnknownError` for a failure, a timeout, or a message on
        stderr: they exit with 0 after time-outs."""
        text, said = self._ran(program, *arguments)
        if said.strip():
            raise UnknownError(f"run {program}", "this host", "; ".join(shown_messages(said.splitlines())))
        return text

    def _ran(self, program: str, *arguments: str) -> tuple[str, str]:
        """(output, messages) of one of them. Raises `UnknownError` for a failure or a timeout."""
        where = ["-C", self._hca.device] if self._hca.device else []
        where += ["-P", str(self._hca.port)] if self._hca.port else []
        try:
            done = subprocess.run(
                [program, *where, *arguments],
                capture_output=True,
                text=True,
                errors="replace",
                timeout=self._tools.timeout_seconds,
                check=True,
            )
            return done.stdout, done.stderr
        except subprocess.CalledProcessError as error:
            answer = " ".join((error.stderr or error.stdout or "no output").split())[:300]
            raise UnknownError(
                f"run {program}", "this host", f"exit code {error.returncode}: {answer}"
            ) from error
        except (OSError, subprocess.SubprocessError) as error:
            raise UnknownError(f"run {program}", "this host", str(error)) from error

    def lack(self, ends: Iterable[tuple[int, int]]) -> frozenset[tuple[int, int]]:
        """Note missing cables. Args: ends: ports that their switch reports as down. Returns all ends whose
        cables are doubted."""
        with self._lock:
            self._ends.lack(ends, self._monotonic())
            return self._ends.doubted
