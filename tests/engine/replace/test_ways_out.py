"""Every state that can last has a way out: each moment of a pod's life meets each cause, and is left by its verb.

The table is whole: a moment and a cause without a row is an error, and so is a lasting state that no row reaches. After
each verb the pod serves as ordered, or is released: what is clean was proved, and what isn't keeps its node.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from itertools import product
from typing import NamedTuple

import pytest

from tests.engine.hold.test_ownerclaims import sql
from tests.engine.house import QUICK, House
from tests.engine.replace.test_repairs import repairs
from tests.engine.timehouse import dispatching, look, make, queue
from weft.engine.hold.settings import LoopSettings
from weft.engine.rows.records import PodRecord
from weft.model.change import Replacement
from weft.model.pod import PodState
from weft.model.resources import Kind
from weft.model.views import DrainRequest
from weft.testing.cloud import Fault

MOMENTS = ("queue", "claim", "network", "server", "check", "serving", "replacement", "release")
CAUSES = (
    "no room",
    "no worker",
    "database behind",
    "cloud silent",
    "cloud refuses",
    "never settles",
    "comes broken",
    "fabric silent",
    "deleted by its tenant",
    "host down",
    "not deleted",
    "drain releases",
)
TALKS = replace(QUICK, patience=0.0, patience_servers=0.0, verify_patience=0.0)
LASTING = frozenset(PodState) - {PodState.READY, PodState.RELEASED, PodState.VERIFYING}
"""A pod that isn't verified within `verify_patience` is DEGRADED."""


class Way(NamedTuple):
    """Attributes: state: in which the pod stays; verbs: each leaves it, alone."""

    state: PodState
    verbs: tuple[str, ...]


S = PodState
WAYS: Mapping[tuple[str, str], Way] = {
    ("queue", "no room"): Way(S.PENDING, ("room", "withdraw")),
    ("claim", "no worker"): Way(S.PLACED, ("worker", "release, worker")),
    ("network", "database behind"): Way(S.WIRING, ("accept", "accept, release")),
    ("network", "cloud silent"): Way(S.WIRING, ("mend", "mend, release")),
    ("network", "cloud refuses"): Way(S.FAILED, ("mend, retry", "release")),
    ("network", "fabric silent"): Way(S.WIRING, ("mend", "mend, release", "release, abandon")),
    ("server", "database behind"): Way(S.BOOTING, ("accept", "accept, release")),
    ("server", "cloud silent"): Way(S.BOOTING, ("mend", "mend, release")),
    ("server", "cloud refuses"): Way(S.FAILED, ("mend, retry", "release")),
    ("server", "never settles"): Way(S.BOOTING, ("release",)),
    ("server", "comes broken"): Way(S.FAILED, ("mend, retry", "release")),
    ("check", "fabric silent"): Way(S.DEGRADED, ("mend", "mend, release", "release, abandon")),
    ("serving", "database behind"): Way(S.READY, ("accept",)),
    ("serving", "cloud silent"): Way(S.DEGRADED, ("mend", "mend, release", "release, abandon")),
    ("serving", "comes broken"): Way(S.DEGRADED, ("repair", "replace", "release")),
    ("serving", "fabric silent"): Way(S.DEGRADED, ("mend", "mend, release", "release, abandon")),
    ("serving", "deleted by its tenant"): Way(S.DEGRADED, ("repair", "replace", "release")),
    ("serving", "host down"): Way(S.READY, ("mend", "replace, mend", "release, abandon")),
    ("serving", "drain releases"): Way(S.READY, ("time", "undrain, time", "replace, time", "release")),
    ("replacement", "database behind"): Way(S.DEGRADED, ("accept", "accept, release")),
    ("replacement", "cloud silent"): Way(S.DEGRADED, ("mend", "mend, release", "release, abandon")),
    ("replacement", "cloud refuses"): Way(S.DEGRADED, ("mend", "mend, replace", "release")),
    ("replacement", "never settles"): Way(S.READY, ("mend, replace", "release")),
    ("replacement", "comes broken"): Way(S.DEGRADED, ("mend, replace", "release")),
    ("replacement", "fabric silent"): Way(S.READY, ("mend", "mend, release", "release, abandon")),
    ("replacement", "deleted by its tenant"): Way(S.DEGRADED, ("repair", "release")),
    ("replacement", "host down"): Way(S.READY, ("limit", "release, abandon")),
    ("replacement", "not deleted"): Way(S.READY, ("mend", "release, mend", "release, abandon")),
    ("release", "database behind"): Way(S.DEGRADED, ("accept",)),
    ("release", "cloud silent"): Way(S.RELEASING, ("mend", "abandon")),
    ("release", "fabric silent"): Way(S.RELEASING, ("mend", "abandon")),
    ("release", "host down"): Way(S.RELEASING, ("abandon",)),
    ("release", "not deleted"): Way(S.RELEASING, ("mend", "abandon")),
}
CANNOT: Mapping[tuple[str, str], str] = {
    **{("queue", c): "an order that waits asks nothing outside" for c in CAUSES if c != "no room"},
    **{
        ("claim", c): "nothing is asked outside after the claim before the network is"
        for c in CAUSES
        if c != "no worker"
    },
    **{(m, "no worker"): "it stays as it is, as after its claim" for m in MOMENTS if m != "claim"},
    **{(m, "no room"): "it has its nodes" for m in MOMENTS if m != "queue"},
    **{(m, "not deleted"): "nothing is deleted then" for m in MOMENTS if m not in ("replacement", "release")},
    **{
        (m, c): "nothing runs there yet"
        for m in ("network", "server")
        for c in ("deleted by its tenant", "host down")
    },
    **{
        (m, "drain releases"): "it keeps nothing from being built: as while it serves"
        for m in ("claim", "network", "server", "check", "replacement")
    },
    ("release", "drain releases"): "it is being released already",
    ("network", "never settles"): "networks settle when they are created",
    ("network", "comes broken"): "only servers and ports do, with the next moment",
    (
        "server",
        "fabric silent",
    ): "the segment was created before; what is read of it comes with the next moment",
    **{
        ("check", c): "as while it serves: it is only read"
        for c in CAUSES
        if c not in ("fabric silent", "no room", "no worker", "not deleted")
    },
    ("serving", "cloud refuses"): "nothing is created",
    ("serving", "never settles"): "nothing is created",
    ("release", "cloud refuses"): "a refused deletion is one that isn't done: the row `not deleted`",
    ("release", "never settles"): "nothing is created",
    ("release", "comes broken"): "what is broken is deleted like anything else",
    ("release", "deleted by its tenant"): "what is gone needs no deletion",
}


def visits(house: House, pod: PodRecord, number: int = 6) -> PodRecord:
    for _ in range(number):
        house.store.wake(pod.id)
        house.worker.run_once()
    return look(house, pod)


class Case:
    """A pod in trouble."""

    def __init__(self, house: House, moment: str, cause: str) -> None:
        self.house, self.moment, self.cause = house, moment, cause
        self.other: PodRecord | None = None
        self.request, self.operator = house.request(), house.operator
        house.worker = house.new_worker("says why", TALKS)
        self.pod = getattr(self, f"at_{moment}")()

    # -- the moments: `trouble` begins when the pod is there

    def at_queue(self) -> PodRecord:
        self.other = self.house.order(make("all", 16))
        return queue(self.house, "train", 2)

    def at_claim(self) -> PodRecord:
        return self.house.order(make("train", 2))

    def at_network(self) -> PodRecord:
        pod = self.house.order(make("train", 2))
        self.plant(Kind.NETWORK, "create") if "cloud" in self.cause else None
        if self.cause == "database behind":
            self.plant(Kind.NETWORK, "create", Fault.UNREACHABLE)
            visits(self.house, pod, 1)
        if "cloud" not in self.cause:
            self.trouble(pod)
        return visits(self.house, pod)

    def at_server(self) -> PodRecord:
        pod = self.house.order(make("train", 2))
        if self.cause == "database behind":
            self.plant(Kind.SERVER, "create", Fault.STUCK)
            visits(self.house, pod, 2)
            self.trouble(pod)
        else:
            faults = {"never settles": Fault.STUCK, "comes broken": Fault.BROKEN}
            self.plant(Kind.SERVER, "create", faults.get(self.cause))
        return visits(self.house, pod, 12)

    def at_check(self) -> PodRecord:
        self.plant(Kind.SERVER, "create", Fault.STUCK)
        pod = self.house.order(make("train", 2))
        visits(self.house, pod, 3)
        self.house.cloud.faults.clear()
        for server in self.house.cloud.servers:
            server.stuck = ""
        self.trouble(pod)
        return visits(self.house, pod)

    def at_serving(self) -> PodRecord:
        more = {"on_drain": "release"} if self.cause == "drain releases" else {}
        pod = self.house.ready(make("train", 2, **more))
        self.trouble(pod)
        return visits(self.house, pod)

    def at_replacement(self) -> PodRecord:
        """A node is being replaced; the other one keeps its server, unless the tenant deletes it."""
        house, pod = self.house, self.house.ready(make("train", 2))
        faults = {"never settles": Fault.STUCK, "comes broken": Fault.BROKEN, "cloud refuses": Fault.REFUSED}
        if self.cause == "not deleted":
            self.plant(Kind.SERVER, "delete", Fault.UNDELETABLE)
        elif self.cause in faults:
            self.plant(Kind.SERVER, "create", faults[self.cause])
        self.do_replace(pod)
        if self.cause == "deleted by its tenant":
            house.cloud.lose(house.cloud.thing(f"server/{pod.nodes[1]}"))
        elif self.cause != "not deleted" and self.cause not in faults:
            self.trouble(pod)
        return visits(house, pod, 12)

    def at_release(self) -> PodRecord:
        pod = self.house.ready(make("train", 2))
        if self.cause == "not deleted":
            self.plant(Kind.SERVER, "delete", Fault.UNDELETABLE)
        elif self.cause == "database behind":
            self.house.service.pods.release(self.request, str(pod.id))
            self.trouble(pod)
        else:
            self.trouble(pod)
        if self.cause != "database behind":
            self.house.service.pods.release(self.request, str(pod.id))
        return visits(self.house, pod)

    # -- the causes

    def plant(self, kind: Kind, verb: str, fault: Fault | None = None) -> None:
        known = {"cloud silent": Fault.UNREACHABLE, "cloud refuses": Fault.REFUSED}
        self.house.cloud.plant(fault or known[self.cause], verb=verb, kind=kind, times=None)

    def trouble(self, pod: PodRecord) -> None:
        house = self.house
        match self.cause:
            case "database behind":
                house.behind()
            case "cloud silent":
                house.cloud.plant(Fault.UNREACHABLE, times=None)
            case "fabric silent":
                for manager in house.fabric.managers:
                    manager.reachable = False
            case "comes broken":
                house.cloud.thing(f"server/{pod.nodes[0]}").broken = "an error"
            case "deleted by its tenant":
                house.cloud.lose(house.cloud.thing(f"server/{pod.nodes[0]}"))
            case "drain releases":
                by = house.database.now() + timedelta(hours=1)
                house.service.nodes.drain(self.operator, DrainRequest(target=pod.nodes[0], by=by))
            case "host down":
                house.cloud.offers.hosts[house.site.node_by_name[pod.nodes[0]].nova_host] = "down"
            case _:
                raise AssertionError(self.cause)

    # -- the verbs

    def do_replace(self, pod: PodRecord) -> None:
        asked = Replacement(node=pod.nodes[0])
        self.house.service.pods.replace_node(self.operator, str(pod.id), asked)

    def do(self, verb: str) -> None:
        house, pod = self.house, self.pod
        match verb:
            case "mend":
                house.cloud.faults.clear()
                for manager in house.fabric.managers:
                    manager.reachable = True
                for thing in house.cloud.servers:  # deletions that were accepted are done
                    thing.gone_at, thing.undeletable = (0.0 if thing.undeletable else thing.gone_at), False
                house.cloud.offers.hosts |= dict.fromkeys(house.cloud.offers.hosts, "up")
            case "accept":
                house.cloud.faults.clear()
                for server in house.cloud.servers:
                    server.stuck = ""
                house.service.audits.accept_database(self.operator)
            case "room":
                assert self.other is not None
                house.release(self.other)
                house.run(self.other, PodState.RELEASED)
                dispatching(house, 1)[0]()
            case "worker":
                visits(house, pod, 1)
            case "withdraw" | "release":
                house.service.pods.release(self.request, str(pod.id))
            case "retry":
                house.service.pods.retry(self.request, str(pod.id))
            case "repair":
                house.store.request_repair(pod.id)
            case "replace":
                self.do_replace(pod)
            case "limit":  # that of a release is over
                now = replace(TALKS, limits={**TALKS.limits, PodState.RELEASING: 0.0})
                house.worker = house.new_worker("at the limit", now)
            case "undrain":
                house.service.nodes.undrain(self.operator, pod.nodes[0])
            case "time":
                sql(house, "UPDATE drain SET until_at = since")
                repairs(house).tend()
            case "abandon":
                visits(house, pod, 3)
                assert look(house, pod).state is PodState.RELEASING
                house.service.pods.abandon(self.operator, str(pod.id), "it can't end")
            case _:
                raise AssertionError(verb)


def test_table_of_ways_out_has_each_lasting_state() -> None:
    """Each moment with each cause; each lasting state is reached, and has a limit after which it alarms, or waits for
    room or a person."""
    assert WAYS.keys() | CANNOT.keys() == set(product(MOMENTS, CAUSES))
    assert not WAYS.keys() & CANNOT.keys()
    assert {way.state for way in WAYS.values()} - {PodState.READY} == LASTING
    assert LASTING - LoopSettings().limits.keys() == {PodState.FAILED}


@pytest.mark.parametrize(
    ("moment", "cause", "verbs"),
    [
        pytest.param(*at, verbs, id=f"{'-'.join(at)}-{verbs}")
        for at, way in WAYS.items()
        for verbs in way.verbs
    ],
)
def test_state_that_lasts_is_left_by_its_verb(house: House, moment: str, cause: str, verbs: str) -> None:
    """It says why while it lasts. Nothing is lost: the pod serves as ordered, or each node is free or quarantined; and
    a receipt is clean only if all was proved."""
    case = Case(house, moment, cause)
    assert case.pod.state is WAYS[moment, cause].state, f"{case.pod.state}: {case.pod.reason}"
    assert case.pod.state in (PodState.READY, PodState.PLACED) or str(case.pod.reason)
    for verb in verbs.split(", "):
        case.do(verb)
    ends = "release" in verbs or verbs in ("withdraw", "abandon", "time") or moment == "release"
    now = visits(house, case.pod, 30)
    if not ends:
        assert now.state is PodState.READY, f"{now.state}: {now.reason}"
        assert len(now.nodes) == 2 and now.ready_generation == now.generation
        there = {t.mark.key for t in house.cloud.servers if t.mark and t.mark.owner.id == str(now.id)}
        assert there == {f"server/{n}" for n in now.nodes}
        return
    assert now.state is PodState.RELEASED, f"{now.state}: {now.reason}"
    signed, abandoned = house.store.records.receipt(now.id), "abandon" in verbs
    if moment == "queue":
        assert signed is None
        return
    assert signed is not None and signed.receipt.clean is not abandoned
    capacity = house.store.capacity()
    assert not capacity.holds and set(capacity.quarantines) == set(signed.receipt.quarantined)
    mine = [t for t in house.cloud.things() if t.mark and t.mark.owner.id == str(now.id)]
    assert abandoned or not mine
    assert {t.fields.get("host") for t in mine if t.kind is Kind.SERVER} <= {
        house.site.node_by_name[n].nova_host for n in capacity.quarantines
    }, "a node with a server of the pod is free"
