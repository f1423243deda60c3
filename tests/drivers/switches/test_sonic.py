"""SONiC by its public models of 2019 and of today: requests and answers, empty tables, errors."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from tests.drivers.switches.onefront import OTHER, VLAN, One, change_every_way, ordered, results
from tests.drivers.switches.rigs import scope
from tests.drivers.switches.sonicyang import wrong
from weft.drivers.switches import access
from weft.drivers.switches.parts import UndoneError
from weft.drivers.switches.vlans import Batch, PortEdit, PortVlans
from weft.model.errors import PermanentError, UnknownError
from weftlab.switches.front import Answer, Request
from weftlab.switches.restconf import Restconf


def restconf(one: One) -> Restconf:
    assert isinstance(one.front, Restconf)
    return one.front


@pytest.mark.parametrize("modern", [True, False], ids=["today", "2019"])
def test_requests_and_answers_match_the_yang_models(sonic: One, modern: bool) -> None:
    """Ports in a VLAN, as a trunk, parked; VLANs made and deleted. A LAG has the same requests."""
    restconf(sonic).modern = modern
    exchanged: list[tuple[str, str, Any]] = []

    def noted(request: Request, answer: Answer) -> Answer:
        is_read = request.method == "GET" and answer.status == 200
        exchanged.append((request.method, request.path, answer.body if is_read else request.body))
        return answer

    sonic.front.faults.instead = noted
    change_every_way(sonic)
    data = [one for one in exchanged if one[1].startswith("/restconf/data/")]
    assert {method for method, _, _ in data} == {"GET", "PATCH", "DELETE"}
    assert [w for method, path, body in data for w in wrong(modern, method, path, body)] == []
    assert any(w for method, path, body in data for w in wrong(not modern, method, path, body))


def test_upgraded_switch_is_addressed_by_its_new_models(sonic: One) -> None:
    """Its models say how a port is named in a member's row."""
    restconf(sonic).modern = False
    sonic.put(0, VLAN)
    restconf(sonic).modern = True
    sonic.put(1, OTHER)
    assert [sonic.untagged(n) for n in (0, 1)] == [VLAN, OTHER]


@pytest.mark.parametrize(("mine", "left"), [(VLAN, OTHER), (OTHER, VLAN)])
def test_port_untagged_in_two_vlans_is_in_both(sonic: One, mine: int, left: int) -> None:
    """Models before 2024 allow it, as after a late change next to the next pod's. Both VLANs send to the port."""
    front = restconf(sonic)
    front.modern = False
    (former, leaves), (spec, stays) = ordered(sonic, 0, number=left), ordered(sonic, 0, number=mine)
    assert sonic.fabric.create(scope(2), [stays], {})["partition"].error is None
    with front.lock:
        front.running["vlans"].add(f"Vlan{left}")
        front.running["members"][f"Vlan{left}", sonic.ports[0]] = "untagged"
    assert sonic.session.read().ports[sonic.ports[0]].numbers == {VLAN, OTHER}
    assert "not clean" in results(sonic.fabric, former)
    assert sonic.fabric.check(spec, sonic.fabric.snapshot()).problems
    assert sonic.fabric.delete(scope(1), [leaves], {})["partition"].error is None
    assert results(sonic.fabric, former) == {"clean"} and sonic.untagged(0) == mine
    assert sonic.fabric.check(spec, sonic.fabric.snapshot()).problems == ()


def test_port_untagged_in_two_vlans_is_repaired(sonic: One) -> None:
    front = restconf(sonic)
    front.modern = False
    sonic.put(0, OTHER)
    with front.lock:
        front.running["vlans"].add(f"Vlan{VLAN}")
        front.running["members"][f"Vlan{VLAN}", sonic.ports[0]] = "untagged"
    spec, wanted = ordered(sonic, 0, number=OTHER)
    assert sonic.fabric.update(scope(), [wanted], {})["partition"].error is None
    assert sonic.session.read().ports[sonic.ports[0]] == PortVlans(OTHER)
    assert [v for v, p in front.running["members"] if p == sonic.ports[0]] == [f"Vlan{OTHER}"]
    assert sonic.fabric.check(spec, sonic.fabric.snapshot()).problems == ()


def test_violated_constraint_is_a_refusal(sonic: One) -> None:
    """The framework answers 500 for it; earlier requests of the change are undone."""
    sonic.put(0, OTHER)
    sonic.put(1, OTHER)
    before = sonic.session.read()
    edits = {sonic.ports[0]: PortEdit(VLAN)}
    with pytest.raises(PermanentError, match="Dependent data exists"):
        sonic.session.change(lambda _: Batch({VLAN: ""}, frozenset({OTHER}), edits))
    after = sonic.session.read()
    assert (after.vlans, after.ports) == (before.vlans, before.ports)


def test_concurrent_transaction_of_sonic_changes_nothing_and_can_be_retried(sonic: One) -> None:
    """It answers "Please try again"."""
    sonic.front.faults.fail_after = 0
    with pytest.raises(UndoneError, match="try again") as exchanged:
        sonic.put(0, VLAN)
    assert exchanged.value.lands == 0.0
    sonic.put(0, VLAN)
    assert sonic.untagged(0) == VLAN


@pytest.mark.parametrize(("status", "kind"), [(404, "protocol"), (404, ""), (503, "")])
def test_missing_model_is_not_an_empty_table(sonic: One, status: int, kind: str) -> None:
    """An image without it, or a proxy's answer: the switch's state is unknown."""
    sonic.put(0, VLAN)
    body = (
        {"ietf-restconf:errors": {"error": [{"error-type": kind, "error-tag": "invalid-value"}]}}
        if kind
        else None
    )
    gone = Answer(status, body)
    sonic.front.faults.instead = lambda request, said: gone if "sonic-vlan" in request.path else said
    with pytest.raises(UnknownError):
        sonic.session.read()


@pytest.mark.parametrize("model", ["sonic-vlan", "sonic-port"])
def test_empty_answer_is_not_an_empty_table(sonic: One, model: str) -> None:
    """An empty object is one; the framework never answers without text."""
    sonic.put(0, VLAN)
    sonic.front.faults.instead = lambda request, said: Answer(200) if model in request.path else said
    with pytest.raises(UnknownError, match="nothing is in it"):
        sonic.another().session("leaf1").read()


@pytest.mark.parametrize("body", [None, {}, {"sonic-config-mgmt:output": {}}])
def test_save_without_a_result_has_not_saved(sonic: One, body: object) -> None:
    sonic.front.faults.instead = lambda request, said: Answer(200, body) if request.method == "POST" else said
    with pytest.raises(UnknownError, match="save"):
        sonic.put(0, VLAN)
    assert sonic.session.read().unsaved


def test_missing_feature_of_an_image_is_named(sonic: One) -> None:
    """Unreadable settings and neighbours aren't empty; a change that can't be saved needs a person."""
    front = restconf(sonic)
    front.missing = frozenset({"sonic-port-qos-map", "openconfig-lldp", "sonic-config-mgmt"})
    assert sonic.session.qos() == "its RESTCONF has no sonic-port-qos-map:sonic-port-qos-map/PORT_QOS_MAP"
    assert sonic.session.neighbours(sonic.ports) == "its RESTCONF has no openconfig-lldp:lldp/interfaces"
    with pytest.raises(PermanentError, match="sonic-config-mgmt:copy"):
        sonic.put(0, VLAN)


def test_body_of_another_media_type_is_rejected(sonic: One) -> None:
    """The framework's operations accept only `application/yang-data+json`."""
    own = partial(access.credentials_for, "leaf1", str(sonic.fronts.credentials))
    api = access.Api("leaf1", sonic.fronts.urls["leaf1"], own, str(sonic.fronts.ca))
    tree = {"sonic-vlan:sonic-vlan": {"VLAN": {"VLAN_LIST": [{"name": f"Vlan{VLAN}", "vlanid": VLAN}]}}}
    reply = api.ask("PATCH", "/restconf/data/sonic-vlan:sonic-vlan", tree)
    api.close()
    assert reply.status == 415 and VLAN not in sonic.session.read().vlans


def test_malformed_port_table_is_unknown(sonic: One) -> None:
    for rows in ({"PORT_LIST": [{"alias": "no name"}]}, {"PORT_LIST": 7}, {"PORT_LIST": ["Ethernet0"]}, []):
        answer = Answer(200, {"sonic-port:PORT": rows})
        sonic.front.faults.instead = lambda *_, answer=answer: answer
        with pytest.raises(UnknownError):
            sonic.session.read()


def test_switch_without_vlans_must_list_its_ports(sonic: One) -> None:
    """404 means that a table is empty, but not from a server that answers everything with 404."""
    sonic.put(0, VLAN)
    sonic.session.read()
    empty = {"ietf-restconf:errors": {"error": [{"error-type": "application", "error-tag": "invalid-value"}]}}
    sonic.front.faults.instead = lambda *_: Answer(404, empty)
    with pytest.raises(UnknownError, match="names no port"):
        sonic.session.read()


def test_change_reads_the_ports_once(sonic: One) -> None:
    """Each table is a request, and a VLAN doesn't change which ports exist. A new port is looked up."""

    def asked() -> list[str]:
        found = [f"{r.method} {r.path.rpartition('/')[2]}" for r in sonic.front.requests]
        sonic.front.requests.clear()
        return found

    sonic.session.read()
    asked()
    sonic.put(0, VLAN)
    tree = "sonic-vlan:sonic-vlan"
    assert asked() == [f"GET {tree}", f"PATCH {tree}", f"GET {tree}", "POST sonic-config-mgmt:copy"]
    limits = sonic.session.limits
    sonic.session.limits = type(limits)(limits.vlans, limits.ports | {"Ethernet800"}, limits.parking)
    sonic.put(0, OTHER)
    assert "GET PORT" in asked()
