"""A fake cloud that costs next to nothing: `FakeCloud` without its refusals and faults, to measure weft.

It indexes its contents by pod and host, where the tests' fake searches everything: with thousands of pods that would
take most of the time.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from weft.model.errors import OutsideError
from weft.model.order import Order
from weft.model.resources import NOTHING, AnyKind, Graph, Kind, Observed, Outcome, Resource
from weft.model.site import Flavor
from weft.model.uses import Use
from weft.ports.cloud import QuotaRow
from weft.ports.listings import SharedListings
from weft.ports.occupants import Ended, Ending, Occupant, OnHost
from weft.ports.resources import Scope
from weft.testing.cloud import FakeCloud
from weft.testing.cloud_state import Thing, wanted_fields


class LeanCloud(FakeCloud):
    """See the module.

    Args:
        boot: seconds from the creation of a server until it is ACTIVE.
    """

    def __init__(self, name: str, boot: float = 0.0) -> None:
        super().__init__(seed=1, name=name, latency=0.0)
        self.boot = boot
        self._of_pod: dict[str, dict[str, Thing]] = {}
        self._on_hosts: dict[str, dict[str, Thing]] = {}
        self._seen_on_hosts: dict[str, OnHost] | None = None
        self._others: tuple[str, ...] = ()
        self._numbers: dict[str, set[int]] = {}
        self._boots: list[tuple[float, str]] = []
        """When each server is ready, and its id, sorted, since all servers boot for the same time."""

    def _call(self, verb: str, kind: AnyKind | None) -> OutsideError | None:
        self.calls[f"{verb} {kind}" if kind else verb] += 1
        return None

    # -- resources ----------------------------------------------------------------------------------------------

    def find(
        self, scope: Scope, wanted: Sequence[Resource], ids: Mapping[str, str]
    ) -> Mapping[str, Observed]:
        self._call("find", wanted[0].kind if wanted else None)
        with self._lock:
            mine, now = self._of_pod.get(scope.owner.id, {}), self.clock.monotonic()
            known = {**{key: thing.id for key, thing in mine.items()}, **ids}
            return {
                r.key: mine[r.key].observed(scope.mark(r.key), wanted_fields(r, known), now)
                if r.key in mine
                else Observed.absent("not among those listed")
                for r in wanted
            }

    def create(
        self, scope: Scope, wanted: Sequence[Resource], ids: Mapping[str, str]
    ) -> Mapping[str, Outcome]:
        scope.fence()
        self._call("create", wanted[0].kind if wanted else None)
        with self._lock:
            return {r.key: Outcome(self._made(scope, r, ids).id) for r in wanted}

    def _made(self, scope: Scope, resource: Resource, ids: Mapping[str, str]) -> Thing:
        mine = self._of_pod.setdefault(scope.owner.id, {})
        if resource.key in mine:
            return mine[resource.key]
        now, server = self.clock.monotonic(), resource.kind is Kind.SERVER
        thing = Thing(
            resource.kind,
            self._seeded.id(),
            resource.name,
            scope.project_id,
            scope.mark(resource.key),
            0,
            wanted_fields(resource, ids),
            ready_at=now + self.boot if server else now,
            created=self.clock.now(),
        )
        mine[resource.key] = thing
        if server:
            self._on_hosts.setdefault(str(thing.fields["host"]), {})[thing.id] = thing
            self._seen_on_hosts = None
            self._boots.append((thing.ready_at, thing.id))
        elif thing.kind is Kind.NETWORK and isinstance(segment := thing.fields["segment"], int):
            # an overlay of Neutron's own has none
            self._numbers.setdefault(str(thing.fields["physical_network"]), set()).add(segment)
        return thing

    def update(
        self, scope: Scope, wanted: Sequence[Resource], ids: Mapping[str, str]
    ) -> Mapping[str, Outcome]:
        scope.fence()
        with self._lock:
            mine = self._of_pod.get(scope.owner.id, {})
            for resource in wanted:
                mine[resource.key].fields.update(wanted_fields(resource, ids))
            return {r.key: Outcome(mine[r.key].id) for r in wanted}

    def delete(
        self, scope: Scope, wanted: Sequence[Resource], ids: Mapping[str, str]
    ) -> Mapping[str, Outcome]:
        scope.fence()
        self._call("delete", wanted[0].kind if wanted else None)
        with self._lock:
            mine = self._of_pod.get(scope.owner.id, {})
            for resource in wanted:
                thing = mine.pop(resource.key, None)
                if thing is None:
                    continue
                if thing.kind is Kind.SERVER:
                    self._on_hosts[str(thing.fields["host"])].pop(thing.id)
                    self._seen_on_hosts = None
                    self._endings[thing.id] = Ending(
                        Ended.DESTROYED, "destroyed by its host", self.clock.now()
                    )
                elif thing.kind is Kind.NETWORK and isinstance(segment := thing.fields["segment"], int):
                    self._numbers[str(thing.fields["physical_network"])].discard(segment)
            if not mine:
                self._of_pod.pop(scope.owner.id, None)
            return {r.key: Outcome() for r in wanted}

    # -- facts --------------------------------------------------------------------------------------------------

    def check_order(self, project_id: str, order: Order, flavor: str, counted: Flavor | None = None) -> None:
        self._call("facts", None)

    def unfit(self, project_id: str, image: str, flavor: str) -> Mapping[str, str]:
        return {}

    def built(self, since: datetime, awaited: Callable[[], Collection[str]]) -> Collection[str]:
        with self._lock:
            at = self.clock.monotonic()
            from_ = at - (self.clock.now() - since).total_seconds()
            first = bisect_left(self._boots, from_, key=lambda boot: boot[0])
            last = bisect_right(self._boots, at, key=lambda boot: boot[0])
            return [server for _, server in self._boots[first:last]]

    def exceeded_quotas(
        self, project_id: str, graph: Graph, flavor: str, freed: Graph = NOTHING
    ) -> Sequence[QuotaRow]:
        return ()

    def servers_on_hosts(self) -> Mapping[str, OnHost]:
        with self._lock:
            if self._seen_on_hosts is None:  # as in the real driver: the same until the next listing
                self._seen_on_hosts = {
                    host: OnHost(tuple(Occupant(i, "", nova=True) for i in self._on_hosts.get(host, ())))
                    for host in self.offers.hosts
                }
                self._seen_on_hosts |= {
                    host: OnHost((Occupant(host, "", nova=True),)) for host in self._others
                }
            return self._seen_on_hosts

    def list_on(self, hosts: Iterable[str]) -> None:
        """Add a server on each of these hosts to listings, besides what was created."""
        self._others, self._seen_on_hosts = tuple(hosts), None

    def on_hosts(self, hosts: Collection[str]) -> Mapping[str, OnHost]:
        self._call("occupants", None)
        with self._lock:
            return {
                host: OnHost(tuple(Occupant(i, "", True, True) for i in sorted(self._on_hosts.get(host, ()))))
                for host in hosts
            }

    def endings(
        self, project_id: str, servers: Collection[str], whole: Mapping[str, str] | None = None
    ) -> Mapping[str, Ending]:
        with self._lock:
            unknown = Ending(Ended.NO_RECORD, "Nova has no record of its actions")
            return {server: self._endings.get(server, unknown) for server in servers}

    def segments(self, physical_networks: Collection[str]) -> Mapping[str, frozenset[int]]:
        with self._lock:
            return {name: frozenset(self._numbers.get(name, ())) for name in physical_networks}

    def on_networks(
        self, project_id: str, networks: Collection[str], listings: SharedListings | None = None
    ) -> Sequence[Use]:
        self._call("networks", None)
        return ()


class Meter:
    """CPU seconds of calls to fakes, in all threads; nested calls count once.

    Attributes:
        seconds: the total so far.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self._inside = threading.local()
        self._lock = threading.Lock()

    def watch(self, fake: object, calls: Iterable[str]) -> None:
        """Measure these methods of it from now on."""
        for name in calls:
            setattr(fake, name, self._measured(getattr(fake, name)))

    def _measured(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def measured(*args: Any, **kwargs: Any) -> Any:
            if getattr(self._inside, "is_so", False):
                return call(*args, **kwargs)
            self._inside.is_so, began = True, time.thread_time()
            try:
                return call(*args, **kwargs)
            finally:
                self._inside.is_so = False
                with self._lock:
                    self.seconds += time.thread_time() - began

        return measured
