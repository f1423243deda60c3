"""Arista's switches: port modes, suspended VLANs, abandoned sessions, and Arista's own client."""

from __future__ import annotations

import ssl
from pathlib import Path

import pyeapi
import pytest

from tests.drivers.switches.onefront import OTHER, VLAN, One, one_of, ordered, results
from tests.drivers.switches.rigs import scope
from weft.drivers.switches import eos as driver
from weft.drivers.switches.vlans import EVERY, PARK, Batch, PortEdit, PortVlans
from weft.model.errors import UnknownError
from weft.model.fabrictypes import Mode
from weft.model.problem import ProblemKind
from weft.model.resources import Status
from weftlab.switches.eapi import Eapi, Port, Vlan
from weftlab.switches.eapishow import show_switchports
from weftlab.switches.front import PARKING, PASSWORD, USER, Answer, Request
from weftlab.switches.plan import Speaks


def eapi(one: One) -> Eapi:
    assert isinstance(one.front, Eapi)
    return one.front


def test_aristas_client_reads_wefts_changes(eos: One) -> None:
    """pyeapi parses VLANs and switchports after weft's change, and weft reads pyeapi's change."""
    trunk = {eos.ports[1]: PortEdit(PARK, frozenset({VLAN, OTHER}))}
    eos.put(0, VLAN)
    eos.session.change(lambda state: Batch({OTHER: "weft-other"}, frozenset(), trunk))
    url = eos.fronts.urls["leaf1"]
    host, port = url.removeprefix("https://").split(":")
    context = ssl.create_default_context(cafile=str(eos.fronts.ca))
    connection = pyeapi.connect(
        transport="https", host=host, port=int(port), username=USER, password=PASSWORD, context=context
    )
    node = pyeapi.client.Node(connection)
    assert node.api("vlans").get(str(VLAN))["name"] == "weft-name"
    access = node.api("switchports").get(eos.ports[0])
    assert (access["mode"], access["access_vlan"]) == ("access", str(VLAN))
    tagged = node.api("switchports").get(eos.ports[1])
    assert (tagged["mode"], tagged["trunk_allowed_vlans"]) == ("trunk", f"{VLAN}-{OTHER}")
    with pytest.raises(pyeapi.eapilib.CommandError) as refused:
        node.config(["interface Ethernet99", "switchport access vlan 5"])
    assert refused.value.error_code == 1002
    assert node.api("switchports").set_access_vlan(eos.ports[2], str(OTHER))
    assert eos.untagged(2) == OTHER


def test_suspended_vlan_carries_nothing_and_is_activated(eos: One) -> None:
    """It is defined with its members, but passes no frames."""
    spec, wanted = ordered(eos, 0, 1)
    eos.fabric.create(scope(), [wanted], {})
    assert eos.fabric.find(scope(), [wanted], {})["partition"].status is Status.SETTLED
    eapi(eos).running.vlans[VLAN].state = "suspend"
    assert eos.fabric.find(scope(), [wanted], {})["partition"].status is Status.PENDING
    problems = eos.fabric.check(spec, eos.fabric.snapshot()).problems
    assert {p.kind for p in problems} == {ProblemKind.NOT_MEMBER} and "suspended" in str(problems[0])
    assert eos.fabric.update(scope(), [wanted], {})["partition"].error is None
    assert eapi(eos).running.vlans[VLAN].state == "active"
    assert eos.fabric.check(spec, eos.fabric.snapshot()).problems == ()
    assert eos.fabric.find(scope(), [wanted], {})["partition"].status is Status.SETTLED


def test_forwarding_parking_vlan_does_not_isolate(eos: One) -> None:
    """Made by hand or activated again: parked hosts reach each other, former members among them."""
    eapi(eos).running.vlans[PARKING].state = "active"
    [problem] = [
        p for m in eos.fabric.status().managers if m.name == "leaf1" for p in m.problems if "Ethernet1 " in p
    ]
    assert "is in the parking VLAN, and reaches others in it" in problem
    spec, wanted = ordered(eos, 0)
    assert eos.fabric.create(scope(), [wanted], {})["partition"].error is None
    assert eapi(eos).running.vlans[PARKING].state == "suspend", "each change suspends it"
    assert eos.fabric.delete(scope(), [wanted], {})["partition"].error is None
    assert results(eos.fabric, spec) == {"clean"}
    eapi(eos).running.vlans[PARKING].state = "active"
    left = [i for i in eos.fabric.clean(spec, eos.fabric.snapshot()).items if i.result != "clean"]
    assert [i.plane for i in left] == ["switch port"] and "reaches others" in left[0].seen
    del eapi(eos).running.vlans[PARKING]
    assert results(eos.fabric, spec) == {"clean"}, "the parking VLAN isn't defined"


def test_parking_vlan_in_use_is_noted_before_it_is_suspended(eos: One) -> None:
    """The site may name a VLAN in use as the parking VLAN."""
    assert not [n for n in eos.fabric.live_check().notes if "parking" in n]
    eapi(eos).running.vlans[PARKING] = Vlan("production")
    eapi(eos).running.ports["Ethernet60"] = Port(access=PARKING)
    [note] = [n for n in eos.another().live_check().notes if "parking" in n]
    assert note.startswith("switch leaf1 forwards in the parking VLAN") and "Ethernet60" in note


@pytest.mark.parametrize("mode", ["tap", "tool", "dot1q-tunnel"])
def test_port_in_an_unknown_mode_does_not_hide_the_switch(eos: One, mode: str) -> None:
    """Whether the site names the port or not, all other ports are known."""
    stranger = Port(access=VLAN, mode=mode)
    eapi(eos).running.ports["Ethernet60"] = stranger
    state = eos.session.read()
    assert state.ports["Ethernet60"].numbers == {VLAN}, "counted as in its access VLAN"
    eapi(eos).running.ports[eos.ports[2]].mode = mode
    spec, wanted = ordered(eos, 0)
    del eapi(eos).running.ports["Ethernet60"]
    assert eos.fabric.create(scope(), [wanted], {})["partition"].error is None
    assert eos.fabric.check(spec, eos.fabric.snapshot()).problems == ()
    seen = eos.fabric.snapshot().ports[f"leaf1/{eos.ports[2]}"]
    if mode == "dot1q-tunnel":
        assert seen.unread == ""
        return
    assert f"in switchport mode {mode}" in seen.unread
    spec, wanted = ordered(eos, 0, 2)
    error = eos.fabric.update(scope(), [wanted], {})["partition"].error
    assert f"it has port {eos.ports[2]} in switchport mode {mode}" in str(error)


@pytest.mark.parametrize("nothing", ["vlans", "switchports"])
def test_answer_without_vlans_or_ports_is_unknown(eos: One, nothing: str) -> None:
    """VLAN 1 always exists. A spine that is starting doesn't prove the pod's VLAN absent."""
    spec, wanted = ordered(eos, 0)
    assert eos.fabric.create(scope(), [wanted], {})["partition"].error is None

    def emptied(_: Request, answer: Answer) -> Answer:
        results_ = answer.body.get("result", []) if isinstance(answer.body, dict) else []
        return Answer(
            200, {**answer.body, "result": [{**r, nothing: {}} if nothing in r else r for r in results_]}
        )

    eos.fronts.by_name["spine1"].faults.instead = emptied
    seen = eos.fabric.snapshot()
    assert "spine1" in seen.unread and "leaf1" in seen.states
    assert any("spine1 could not be read" in u for i in eos.fabric.clean(spec, seen).items for u in i.unread)


def test_routed_port_is_in_no_vlan_and_refused(eos: One) -> None:
    spec, wanted = ordered(eos, 0, 1)
    assert eos.fabric.create(scope(), [wanted], {})["partition"].error is None
    eapi(eos).running.ports[eos.ports[1]].routed = True
    error = eos.fabric.update(scope(), [wanted], {})["partition"].error
    assert f"it has port {eos.ports[1]} as a routed one" in str(error)
    assert any(
        f"leaf1 has port {eos.ports[1]} as a routed one" in p for p in eos.fabric.live_check().problems
    )
    assert eos.fabric.delete(scope(), [wanted], {})["partition"].error is None
    assert results(eos.fabric, spec) == {"clean"}


@pytest.mark.parametrize("listed", [False, True], ids=["left out", "among the switchports"])
def test_port_that_joined_an_aggregation_is_unread_and_refused(eos: One, listed: bool) -> None:
    """EOS takes VLANs for it, shows them if it lists it at all, and forwards by those of the Port-Channel."""
    spec, wanted = ordered(eos, 0, 1)
    assert eos.fabric.create(scope(), [wanted], {})["partition"].error is None
    name = eos.ports[1]
    there = show_switchports(eapi(eos).running)["switchports"][name]
    eapi(eos).running.ports[name].member = True

    def listing(_: Request, answer: Answer) -> Answer:
        for one in answer.body.get("result", []) if isinstance(answer.body, dict) else []:
            if "switchports" in one:
                one["switchports"][name] = there
        return answer

    if listed:
        eos.front.faults.instead = listing
    why = f"leaf1 has port {name} as a member of Port-Channel"
    assert why in eos.fabric.snapshot().ports[f"leaf1/{name}"].unread
    assert any(why in p for p in eos.fabric.live_check().problems)
    assert results(eos.fabric, spec) != {"clean"}
    error = eos.another().update(scope(), [wanted], {})["partition"].error
    assert "as a member of Port-Channel" in str(error)


def test_interface_without_vlans_of_its_own_does_not_hide_the_switch(eos: One) -> None:
    """Such as one of a type that `show interfaces status` says less of."""

    def more(_: Request, answer: Answer) -> Answer:
        for one in answer.body.get("result", []) if isinstance(answer.body, dict) else []:
            if "interfaceStatuses" in one:
                one["interfaceStatuses"]["Management1"] = {"linkStatus": "connected"}
        return answer

    eos.front.faults.instead = more
    assert eos.session.read().ports[eos.ports[0]] == PortVlans()


def test_factory_default_port_is_parked_after_its_first_pod(eos: One) -> None:
    """Also if it was a trunk meanwhile: else its untagged frames would reach every unconfigured port."""
    name = eos.ports[0]
    eapi(eos).running.ports[name] = Port(access=1)
    _, wanted = ordered(eos, 0, mode=Mode.TRUNK)
    assert eos.fabric.create(scope(), [wanted], {})["partition"].error is None
    assert eos.session.read().ports[name] == PortVlans(None, frozenset({VLAN}), True)
    assert eos.fabric.delete(scope(), [wanted], {})["partition"].error is None
    assert eos.session.read().ports[name] == PortVlans()


@pytest.mark.parametrize("listed", [False, True], ids=["every VLAN", "a list"])
@pytest.mark.parametrize("speaks", ["eos", "nvue"])
def test_trunk_is_removed_from_the_default_vlan(tmp_path: Path, speaks: Speaks, listed: bool) -> None:
    """After `switchport mode trunk`, or being put in the bridge, untagged frames reach all such ports. After its
    last pod it is parked.
    """
    with one_of(tmp_path, speaks) as one:
        name = one.ports[0]
        if isinstance(one.front, Eapi):
            one.front.running.ports[name] = Port("trunk", 1, 1, frozenset({1, OTHER}) if listed else EVERY)
        else:
            mine = {"vlan": {str(OTHER): {}}} if listed else {}
            one.front.running["bridge"]["domain"]["br_default"]["vlan"][str(OTHER)] = {}
            one.front.running["interface"][name]["bridge"] = {"domain": {"br_default": mine}}
        assert one.untagged(0) == 1
        _, wanted = ordered(one, 0, mode=Mode.TRUNK)
        left = frozenset({OTHER}) if listed else frozenset[int]()
        assert one.fabric.create(scope(), [wanted], {})["partition"].error is None
        assert one.session.read().ports[name] == PortVlans(None, frozenset({VLAN}) | left, True)
        assert one.fabric.delete(scope(), [wanted], {})["partition"].error is None
        assert one.session.read().ports[name] == PortVlans(None, left, listed)


def test_default_vlan_is_removed_with_the_last_tag(eos: One) -> None:
    """It was set from outside while a pod was there."""
    name = eos.ports[0]
    _, wanted = ordered(eos, 0, mode=Mode.TRUNK)
    assert eos.fabric.create(scope(), [wanted], {})["partition"].error is None
    eapi(eos).running.ports[name] = Port("trunk", 1, 1, frozenset({1, VLAN}))
    assert eos.fabric.delete(scope(), [wanted], {})["partition"].error is None
    assert eos.session.read().ports[name] == PortVlans()


def test_abandoned_sessions_are_aborted_later(eos: One, monkeypatch: pytest.MonkeyPatch) -> None:
    """The link fails after a failed command; EOS allows five sessions. Sessions of others stay."""
    sessions = eapi(eos)._sessions  # pyright: ignore[reportPrivateUsage]
    sessions["operators"] = []
    for _ in range(4):
        eos.front.faults.fail_after, eos.front.faults.cut = 4, "abort"
        with pytest.raises(UnknownError, match="internal error"):
            eos.put(0, VLAN)
    eos.front.faults.cut = ""
    with pytest.raises(UnknownError, match="Maximum number of pending sessions"):
        eos.put(0, VLAN)
    assert len(sessions) == 5, "they may be another worker's current sessions"
    monkeypatch.setattr(driver, "LEFT_SECONDS", -1.0)
    with pytest.raises(UnknownError, match="Maximum number of pending sessions"):
        eos.put(0, VLAN)
    assert list(sessions) == ["operators"]
    eos.put(0, VLAN)
    assert eos.untagged(0) == VLAN
