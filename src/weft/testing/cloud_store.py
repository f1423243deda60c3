"""The inside of the fake cloud: what exists, how long things take, and where faults strike."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from weft.engine.base.clock import SystemClock
from weft.model.errors import OutsideError, PermanentError, TakenError, TemporaryError, UnknownError
from weft.model.mark import Mark
from weft.model.resources import AnyKind, Kind, Outcome, Resource
from weft.ports.clock import Clock
from weft.ports.occupants import Ended, Ending
from weft.ports.resources import Scope
from weft.ports.servers import Action
from weft.ports.witness import Witness
from weft.testing.cloud_rules import VLAN_IN_USE, bind_ports, failed_boot, host_of, refusal_of_deletion
from weft.testing.cloud_state import Fault, Offers, Planted, Seeded, Thing, Trunk

REQUEST_SECONDS = 0.2
SETTLE_SECONDS: Mapping[AnyKind, float] = {Kind.SERVER: 3.0, Kind.SHARE: 1.0, Kind.SHARE_ACCESS: 0.5}
DELETE_SECONDS: Mapping[AnyKind, float] = {Kind.SERVER: 1.0}
"""What a small real cloud takes; `latency` scales all of it."""


class CloudStore:
    """Things, faults and time of a `FakeCloud`.

    Args:
        seed: same seed, same ids and same latencies (for the same order of calls).
        name: the cloud's name, which is the `where` of its resources.
        latency: 1.0: as slow as a small real cloud; 0: no latency.
        clock: None: the real one.

    Attributes:
        trunks: id -> a trunk that someone created.
        offers: images, flavors, quotas, hosts, key pairs, tokens: change them as you like.
        unlisted: ids of networks and ports that a listing of tenants' networks omits although they exist.
        unseen_projects: whose networks and ports weft's user is no longer shown, in a listing or by id.
        calls: `verb kind` -> number of calls that a real cloud would have received.
    """

    def __init__(
        self, seed: int = 1, name: str = "lab", latency: float = 0.01, clock: Clock | None = None
    ) -> None:
        self.name = name
        self.latency = latency
        self.clock: Clock = clock or SystemClock()
        self.offers = Offers()
        self.faults: list[Planted] = []
        self.calls: Counter[str] = Counter()
        self._seeded = Seeded(random.Random(seed))
        self._things: dict[str, Thing] = {}
        self.trunks: dict[str, Trunk] = {}
        self._endings: dict[str, Ending] = {}
        self.witnesses: dict[str, Witness] = {}
        self._sequence = 0
        self.acts: list[tuple[str, Action]] = []
        self._lock = threading.RLock()
        self.unlisted: set[str] = set()
        self.unseen_projects: set[str] = set()
        self._meanwhile: dict[str, Callable[[], object]] = {}

    def meanwhile(self, verb: str, work: Callable[[], object]) -> None:
        """Do something right before the next call of a verb, as someone else might at that moment."""
        self._meanwhile[verb] = work

    def plant(
        self,
        fault: Fault,
        *,
        verb: str | None = None,
        kind: AnyKind | None = None,
        key: str = "*",
        times: int | None = 1,
        reason: str = "",
        seconds: float = 1.0,
    ) -> Planted:
        """Plant a fault for the next `times` matching calls (None: until it is lifted).

        Args:
            verb: find, create, update, delete, marked, remove, check, facts, occupants, endings; by default what
                suits the fault.
            key: pattern of the resource's key. Without one, a fault of the whole call (lost answer, error 500,
                unreachable, refused) raises for the whole batch; with one it is that resource's outcome.
            reason: what the cloud says.
        """
        of_fault = {
            Fault.LOST_ANSWER: "create",
            Fault.REFUSED: "create",
            Fault.BROKEN: "create",
            Fault.STUCK: "create",
            Fault.UNDELETABLE: "delete",
        }
        planted = Planted(fault, verb or of_fault.get(fault), kind, key, times, reason, seconds)
        with self._lock:
            self.faults.append(planted)
        return planted

    def add(
        self, kind: AnyKind, name: str, project: str, mark: Mark | None = None, **fields: object
    ) -> Thing:
        """Add something as another user: an orphan with a mark, or a foreign thing without."""
        with self._lock:
            return self._put(kind, name, project, mark, dict(fields))

    def lose(self, thing: Thing) -> None:
        """Delete a thing as another user."""
        with self._lock:
            self._end(self._things.pop(thing.id, thing))

    def ends(self, server: str, ending: Ending) -> None:
        """Set what Nova's record says about a server's end."""
        with self._lock:
            self._endings[server] = ending

    def bring_back(self, thing: Thing) -> None:
        """Restore what was deleted, as it was: a restored backup, `nova restore`."""
        with self._lock:
            thing.gone_at = None
            self._things[thing.id] = thing

    def things(self, kind: AnyKind | None = None) -> list[Thing]:
        """Everything that is there, oldest first."""
        with self._lock:
            self._forget_the_gone()
            return [t for t in self._things.values() if kind is None or t.kind is kind]

    def thing(self, key: str) -> Thing:
        """The oldest thing whose mark has this key. KeyError if there is none."""
        found = [t for t in self.things() if t.mark and t.mark.key == key]
        if not found:
            raise KeyError(key)
        return found[0]

    @property
    def servers(self) -> list[Thing]:
        """All servers, those of others included."""
        return self.things(Kind.SERVER)

    @property
    def ports(self) -> list[Thing]:
        """All ports, those of others included."""
        return self.things(Kind.PORT)

    # -- for the ports ---------------------------------------------------------------------------------------

    def _mine(self, scope: Scope, ids: Mapping[str, str]) -> dict[str, list[Thing]]:
        """Key -> things of the pod: the one whose id is given, then those with its mark, the oldest first."""
        key_of_id = {thing_id: key for key, thing_id in ids.items()}
        mine: dict[str, list[Thing]] = {}
        for thing in sorted(self.things(), key=lambda t: (t.id not in key_of_id, t.sequence)):
            mark = thing.mark
            if thing.id in key_of_id:
                mine.setdefault(key_of_id[thing.id], []).append(thing)
            elif (
                not scope.by_id
                and mark
                and not thing.hidden
                and (thing.ours or thing.kind is not Kind.SERVER)
                and (mark.site, mark.owner) == (scope.site, scope.owner)
            ):
                mine.setdefault(mark.key, []).append(thing)
        return mine

    def _put(
        self, kind: AnyKind, name: str, project_id: str, mark: Mark | None, fields: dict[str, object]
    ) -> Thing:
        self._sequence += 1
        settle = self._seeded.around(SETTLE_SECONDS.get(kind, 0.0)) * self.latency
        thing = Thing(
            kind, self._seeded.id(), name, project_id, mark, self._sequence, fields,
            ready_at=self.clock.monotonic() + settle, created=self.clock.now(),
        )  # fmt: skip
        self._things[thing.id] = thing
        bind_ports(thing, self._things, self.offers)
        if kind is Kind.FLOATING_IP:
            thing.facts["address"] = f"203.0.113.{self._sequence % 254 + 1}"
        if kind is Kind.NETWORK and fields.get("segment", 0) is None:
            thing.facts |= {"type": "geneve", "segment": self._sequence}
        return thing

    def _remove(self, thing: Thing, key: str) -> Outcome:
        refusal = refusal_of_deletion(thing, self.things(), self.trunks.values())
        if refusal is not None:
            return Outcome(error=TemporaryError(f"delete {thing.kind} {thing.name}", self.name, refusal))
        if any(p.strikes("delete", thing.kind, key) for p in self._planted(Fault.UNDELETABLE)):
            thing.undeletable = True
        elif thing.gone_at is None and not thing.undeletable:
            delay = self._seeded.around(DELETE_SECONDS.get(thing.kind, 0.0)) * self.latency
            thing.gone_at = self.clock.monotonic() + delay
        return Outcome(thing.id)

    def _forget_the_gone(self) -> None:
        now = self.clock.monotonic()
        for thing in [t for t in self._things.values() if t.gone_at is not None and t.gone_at <= now]:
            self._end(self._things.pop(thing.id, thing))
            bind_ports(thing, self._things, self.offers, away=True)

    def _end(self, thing: Thing) -> None:
        """Record how a server ended: only in Nova's database if its nova-compute is down. A network takes its subnets
        along."""
        if thing.kind is Kind.NETWORK:
            for one in list(self._things.values()):
                if one.kind is Kind.SUBNET and one.fields.get("network") == thing.id:
                    self._things.pop(one.id, None)
        if thing.kind is not Kind.SERVER:
            return
        for one in list(self._things.values()):
            if one.kind is Kind.VOLUME_ATTACHMENT and one.fields.get("server") == thing.id:
                one.gone_at = self.clock.monotonic()  # a server that is gone has no volumes
        self._note_host(thing)
        host, left = host_of(thing), tuple(sorted(thing.left_on))
        if host and self._is_down(host):
            said = f"deleted while {host} was down"
            self._endings[thing.id] = Ending(Ended.NOT_DESTROYED, said, hosts=tuple(sorted({host, *left})))
        elif left:
            said = f"{', '.join(left)} never removed it"
            self._endings[thing.id] = Ending(Ended.LEFT_BEHIND, said, hosts=left)
        elif not host:
            self._endings[thing.id] = Ending(Ended.NEVER_RAN, "it never had a host")
        else:
            self._endings[thing.id] = Ending(Ended.DESTROYED, "destroyed by its host", self.clock.now())

    def _note_host(self, server: Thing) -> None:
        """Record which hosts had a server, as Nova's record of actions does by its events' hosts."""
        host, before = host_of(server), server.had_by
        if host and before and host != before and self._is_down(before):
            server.left_on.add(before)
        server.left_on.discard(host)
        server.had_by = host or before

    def _is_down(self, host: str) -> bool:
        return self.offers.hosts.get(host, "down").startswith("down")

    def _each(
        self, verb: str, wanted: Sequence[Resource], one: Callable[[Resource], Outcome]
    ) -> dict[str, Outcome]:
        """Do `one` for each resource; faults of single resources become their outcomes."""
        lost = [self._call(verb, kind) for kind in sorted({r.kind for r in wanted})]
        outcomes: dict[str, Outcome] = {}
        with self._lock:
            for resource in wanted:
                planted = self._strike(verb, resource.kind, resource.key)
                if planted is None:
                    outcomes[resource.key] = one(resource)
                    continue
                if planted.fault is Fault.LOST_ANSWER:
                    one(resource)
                asked = f"{verb} {resource.kind} {resource.name}"
                outcomes[resource.key] = Outcome(error=self._error(planted, asked))
        for error in lost:
            if error is not None:
                raise error
        return outcomes

    def _call(self, verb: str, kind: AnyKind | None) -> OutsideError | None:
        """One call, with its latency; faults of whole calls strike here.

        A lost answer is returned, not raised: the work must be done first.
        """
        if work := self._meanwhile.pop(verb, None):
            work()
        with self._lock:
            self.calls[f"{verb} {kind}" if kind else verb] += 1
            seconds = self._seeded.around(REQUEST_SECONDS) * self.latency
            slow = [p for p in self._planted(Fault.SLOW) if p.strikes(verb, kind, "*")]
            seconds += sum(p.seconds for p in slow)
            whole = [p for p in self._planted(*_OF_CALLS) if p.key == "*" and p.strikes(verb, kind, "*")]
        if seconds:
            self.clock.sleep(seconds)
        if not whole:
            return None
        error = self._error(whole[0], f"{verb} {kind}" if kind else verb)
        if whole[0].fault is Fault.LOST_ANSWER and verb not in _READING:
            return error
        raise error

    def _strike(self, verb: str, kind: AnyKind, key: str) -> Planted | None:
        """A fault of one call that was planted for keys."""
        for planted in self._planted(*_OF_CALLS):
            if planted.key != "*" and planted.strikes(verb, kind, key):
                return planted
        return None

    def _spoil(self, thing: Thing, resource: Resource) -> None:
        """Apply faults to what was created."""
        thing.broken = failed_boot(thing, self.things(), self.offers)
        for planted in self._planted(Fault.BROKEN, Fault.STUCK):
            if planted.strikes("create", resource.kind, resource.key):
                if planted.fault is Fault.BROKEN:
                    thing.broken = planted.reason or "No valid host was found."
                else:
                    thing.stuck = planted.reason or "DOWN"

    def _planted(self, *faults: Fault) -> list[Planted]:
        return [p for p in self.faults if p.fault in faults and p.left != 0]

    def _error(self, planted: Planted, asked: str) -> OutsideError:
        of = f"fake cloud {self.name}"
        if planted.fault is Fault.REFUSED:
            return PermanentError(asked, of, planted.reason or "refused", "change the order or the cloud")
        if planted.fault is Fault.UNREACHABLE:
            return UnknownError(asked, of, planted.reason or "connection refused", delay=self._delay())
        answer = planted.reason or ("no answer" if planted.fault is Fault.LOST_ANSWER else "HTTP 500")
        return TemporaryError(asked, of, answer, delay=self._delay())

    def _delay(self) -> float:
        return 5.0 * self.latency

    def _refused(self, verb: str, resource: Resource, why: str) -> Outcome:
        asked = f"{verb} {resource.kind} {resource.name}"
        if why.startswith(VLAN_IN_USE):
            return Outcome(error=TakenError(asked, f"fake cloud {self.name}", why, resource.key))
        return Outcome(error=PermanentError(asked, f"fake cloud {self.name}", why, "remove the cause first"))


_OF_CALLS = (Fault.LOST_ANSWER, Fault.ERROR_500, Fault.UNREACHABLE, Fault.REFUSED)
_READING = frozenset(
    {"find", "marked", "check", "facts", "occupants", "endings", "made_by", "segments", "networks"}
)
