"""Nodes that operators hold until they are accepted: by whom, for what, and what is still missing."""

from __future__ import annotations

from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

from tests.engine.dumps import dump, restore
from tests.engine.house import House
from tests.engine.ipuhouse import IpuHouse
from tests.engine.ipuhouse import order as ipus
from tests.engine.life.test_parts import small
from tests.engine.queue.test_spares import spared
from tests.engine.timehouse import HandClock, look, make
from weft.app.desk import Desk
from weft.app.policy import Policy
from weft.app.redact import redacted
from weft.app.service import Service
from weft.app.verbs import Request
from weft.engine.base.database import Database
from weft.engine.rows.holds import MOST_HOLDS
from weft.model.errors import ConflictError, ForbiddenError, NotFoundError, RefusedError
from weft.model.pod import PodState
from weft.model.site import AcceptancePolicy
from weft.model.views import AuditLogSearch


@pytest.fixture
def ipu(database: Database, database_url: str) -> Generator[IpuHouse]:
    house = IpuHouse(database, database_url)
    yield house
    house.close()


def states(house: House) -> dict[str, str]:
    return {n.name: n.state for n in house.service.nodes.list(house.operator)}


def missing(house: House, node: str) -> list[str]:
    return [h.what for h in house.service.nodes.show(house.operator, node).holds]


def removed(refused: RefusedError) -> dict[str, Any]:
    """Filter -> its report in a refusal."""
    explanation: Any = refused.detail["explanation"]
    return {report["filter"]: report for report in explanation["filters"]}


def test_held_node_is_not_assigned_until_it_is_accepted(house: House) -> None:
    """The refusal says how many nodes are held and for what; capacity counts one node less."""
    verbs, operator = house.service, house.operator
    free = verbs.capacity.show(operator).rows[0].free
    shown = verbs.nodes.hold(operator, "gpu03", "burn-in")
    assert (shown.state, shown.reason, [h.held_by for h in shown.holds]) == (
        "held",
        "held for burn-in",
        [operator.caller.user_name],
    )
    assert verbs.capacity.show(operator).rows[0].free == free - 1
    with pytest.raises(RefusedError) as refused:
        house.order(make("all", 16))
    reports = removed(refused.value)
    assert (reports["hold"]["removed"], reports["hold"]["examples"]) == (1, ["gpu03: held for burn-in"])
    assert "gpu03" not in house.order(make("most", 15)).nodes
    done = verbs.nodes.accept(operator, "gpu03")
    assert ([h.what for h in done.accepted], done.missing) == (["burn-in"], ())
    assert house.order(make("last", 1)).nodes == ("gpu03",)
    found = verbs.audits.log(operator, AuditLogSearch())
    logged = [(e.action, e.subject) for e in found if e.action.startswith("node")]
    assert logged == [("node accept", "gpu03"), ("node hold", "gpu03: burn-in")]


def test_each_hold_of_a_node_is_ended_by_its_own_name(house: House) -> None:
    """The same again changes nothing; without a name only a single hold ends; one more than the limit is refused."""
    verbs, operator = house.service, house.operator
    first = verbs.nodes.hold(operator, "gpu03", "burn-in").holds
    assert verbs.nodes.hold(operator, "gpu03", "burn-in").holds == first
    verbs.nodes.hold(operator, "gpu03", "firmware")
    with pytest.raises(ConflictError, match="burn-in, firmware"):
        verbs.nodes.accept(operator, "gpu03")
    with pytest.raises(ConflictError, match="isn't held for 'cabling'"):
        verbs.nodes.accept(operator, "gpu03", "cabling")
    done = verbs.nodes.accept(operator, "gpu03", "burn-in")
    assert [h.what for h in done.missing] == missing(house, "gpu03") == ["firmware"]
    verbs.nodes.accept(operator, "gpu03")
    with pytest.raises(ConflictError, match="nothing to accept"):
        verbs.nodes.accept(operator, "gpu03")
    for number in range(MOST_HOLDS):
        verbs.nodes.hold(operator, "gpu03", f"check {number}")
    with pytest.raises(ConflictError, match="already"):
        verbs.nodes.hold(operator, "gpu03", "one more")
    verbs.nodes.hold(operator, "gpu03", "check 0")
    assert len(verbs.nodes.accept(operator, "gpu03", every=True).accepted) == MOST_HOLDS
    for ask in (verbs.nodes.hold, verbs.nodes.accept):
        with pytest.raises(NotFoundError):
            ask(operator, "nix", "burn-in")
    with pytest.raises(NotFoundError):
        verbs.nodes.show(operator, "nix")


def test_hold_of_a_pods_node_begins_when_the_pod_ends(house: House) -> None:
    """The pod stays READY; after the release, and a restart, the node isn't assigned."""
    pod = house.ready()
    node = pod.nodes[0]
    assert house.service.nodes.hold(house.operator, node, "new firmware").state == "busy"
    pod = house.run(pod, PodState.READY)
    assert look(house, pod).nodes == pod.nodes
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    house.restart()
    assert states(house)[node] == "held"
    assert node not in house.order(make("next", 15)).nodes


def test_held_node_of_a_booking_is_replaced_by_another(house: House, clock: HandClock) -> None:
    """As a node in quarantine is."""
    house.order(make("later", 4, start=clock.now() + timedelta(hours=2)))
    node = house.store.capacity().bookings[0].nodes[0]
    house.service.nodes.hold(house.operator, node, "burn-in")
    clock.forward(minutes=1)
    house.worker.tend_queue()
    booked = house.store.capacity().bookings[0].nodes
    assert len(booked) == 4 and node not in booked


def test_node_that_leaves_the_site_and_returns_is_still_held(house: House) -> None:
    """While it is away the hold is listed, and can be ended."""
    verbs, operator = house.service, house.operator
    for node in ("gpu15", "gpu16"):
        verbs.nodes.hold(operator, node, "burn-in")
    away = {"gpu15", "gpu16"}
    site = house.store.site().site
    less = site.model_copy(
        update={
            "nodes": tuple(n for n in site.nodes if n.name not in away),
            "links": tuple(x for x in site.links if x.a.partition("/")[0] not in away),
        }
    )
    house.store.activate_site(less, "test")
    assert [h.node for h in verbs.nodes.holds(operator)] == ["gpu15", "gpu16"]
    verbs.nodes.accept(operator, "gpu16")
    house.store.activate_site(site, "test")
    assert (states(house)["gpu15"], states(house)["gpu16"]) == ("held", "free")


def test_operators_at_once_hold_and_accept_each_hold_once(house: House) -> None:
    """Two accept the same hold: one succeeds, the other finds nothing to accept."""
    verbs, operator = house.service, house.operator
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: verbs.nodes.hold(operator, "gpu03", "burn-in"), range(4)))

        def accept(_: int) -> bool:
            try:
                verbs.nodes.accept(operator, "gpu03", "burn-in")
            except ConflictError:
                return False
            return True

        assert sum(pool.map(accept, range(4))) == 1
    assert missing(house, "gpu03") == []


def test_database_that_lacks_only_a_hold_is_detected(house: House) -> None:
    """Otherwise the node would be assigned before it is accepted."""
    house.ready()
    dump(house.database.url)
    house.service.nodes.hold(house.operator, "gpu09", "burn-in")
    restore(house.database.url)
    house.restart()
    with pytest.raises(ConflictError, match="--accept"):
        house.order(make("next", 1))


def test_program_with_the_rule_for_holds_accepts_them_and_reads_nothing_else(
    house: House, tmp_path: Path
) -> None:
    """A role that the policy file names lists holds and ends them; it can't hold, list nodes or clear."""
    file = tmp_path / "policy.yaml"
    file.write_text("nodes:accept: role:acceptor\nnodes:list_holds: rule:operator or role:acceptor\n")
    rules = Policy(file)
    service = Service(Desk(house.store, house.keeper, rules, house.time, house.listener, house.pulse))
    verbs, program, tenant = redacted(service, rules), house.request("tests", "acceptor"), house.request()
    house.service.nodes.hold(house.operator, "gpu03", "burn-in")
    house.service.nodes.hold(house.operator, "gpu03", "firmware")
    assert [(h.node, h.what) for h in verbs.nodes.holds(program)] == [
        ("gpu03", "burn-in"),
        ("gpu03", "firmware"),
    ]
    with pytest.raises(ConflictError) as refused:
        verbs.nodes.accept(program, "gpu03")
    assert "burn-in, firmware" in str(refused.value)
    assert [h.what for h in verbs.nodes.accept(program, "gpu03", "burn-in").missing] == ["firmware"]
    with pytest.raises(NotFoundError, match="no node 'nix'"):
        verbs.nodes.accept(program, "nix")
    refusals: list[tuple[Request, str, tuple[str, ...]]] = [
        (program, "nodes.hold", ("gpu03", "x")),
        (program, "nodes.list", ()),
        (program, "nodes.show", ("gpu03",)),
        (program, "nodes.clear", ("gpu03",)),
        (tenant, "nodes.holds", ()),
        (tenant, "nodes.accept", ("gpu03",)),
    ]
    for request, verb, given in refusals:
        with pytest.raises(ForbiddenError):
            attrgetter(verb)(verbs)(request, *given)
    assert missing(house, "gpu03") == ["firmware"]


def test_held_machine_and_host_take_no_pod_of_ipus(ipu: IpuHouse) -> None:
    """An IPU-Machine by the filter of its name; a Poplar host says why it takes no server."""
    ipu.service.nodes.hold(ipu.operator, "ipum2", "cable")
    with pytest.raises(RefusedError) as refused:
        ipu.order(ipus("wide", 16))
    reports = removed(refused.value)
    assert reports["hold"]["removed"] == 1
    ipu.service.nodes.accept(ipu.operator, "ipum2")
    ipu.service.nodes.hold(ipu.operator, "poplar1", "cable")
    with pytest.raises(RefusedError, match="held for cable"):
        ipu.order(ipus("one", 4))


def accepts(house: House, *after: str) -> None:
    site = house.store.site().site
    wanted = AcceptancePolicy.model_validate({"after": after, "what": "burn-in"})
    house.store.activate_site(site.model_copy(update={"acceptance": wanted}), "test")


def test_site_holds_nodes_that_pods_have_left(house: House) -> None:
    """Those on which something was, from then on, and not spares; a later site keeps what is held."""
    pod = house.ready(spared("train", 2, 1))
    accepts(house, "pod")
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    found = states(house)
    assert [found[n] for n in (*pod.nodes, *pod.spares)] == ["held", "held", "free"]
    (hold, _) = house.service.nodes.holds(house.operator)
    assert (hold.what, hold.held_by) == ("burn-in", "weft") and "a pod has left" in hold.why
    assert not {*pod.nodes} & {*house.order(make("next", 3)).nodes}
    house.service.nodes.accept(house.operator, pod.nodes[0])
    accepts(house)
    assert states(house)[pod.nodes[0]] == "free" and states(house)[pod.nodes[1]] == "held"
    entries = house.service.nodes.history(house.operator, pod.nodes[0]).entries
    assert [e.code for e in entries[:2]] == ["NODE_ACCEPTED", "NODE_HELD"]


def test_withdrawn_claim_of_a_project_holds_no_node(house: House) -> None:
    """A project could take a site out of service by orders that it withdraws at once."""
    accepts(house, "pod")
    pod = house.order(make("train", 2))
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    assert not house.service.nodes.holds(house.operator)


def test_site_holds_nodes_that_were_in_quarantine(house: House) -> None:
    """Without `quarantine` in the site, nothing is held."""
    for after, expected in (((), []), (("pod",), []), (("pod", "quarantine"), ["gpu03"])):
        accepts(house, *after)
        house.service.nodes.quarantine(house.operator, "gpu03", "ECC errors")
        house.service.nodes.clear(house.operator, "gpu03")
        assert [h.node for h in house.service.nodes.holds(house.operator)] == expected


def test_shared_node_is_held_after_its_last_pod(house: House) -> None:
    accepts(house, "pod")
    first, second = (house.run(house.order(small(name, 1)), PodState.READY) for name in ("a", "b"))
    assert first.nodes == second.nodes
    house.release(first)
    house.run(first, PodState.RELEASED)
    assert not house.service.nodes.holds(house.operator)
    house.release(second)
    house.run(second, PodState.RELEASED)
    assert [h.node for h in house.service.nodes.holds(house.operator)] == list(first.nodes)
