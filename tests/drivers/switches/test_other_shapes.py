"""Answers with another spelling or shape in one place: read correctly or unknown, never as an idle port."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from tests.drivers.switches.onefront import VLAN, One
from weft.drivers.bounded import read_json
from weft.drivers.switches.vlans import PortVlans
from weft.model.errors import OutsideError
from weftlab.switches.front import Answer, Request

Change = Callable[[Any, str], None]
"""Changes the body of an answer, given the port."""


def changed(one: One, change: Change) -> None:
    """Apply the change to all further answers that contain what it changes."""

    def instead(request: Request, answer: Answer) -> Answer:
        body = copy.deepcopy(answer.body)
        try:
            change(body, one.ports[0])
        except (KeyError, TypeError, IndexError, AttributeError):
            return answer
        return Answer(answer.status, body)

    one.front.faults.instead = instead


def unread(one: One) -> bool:
    """Whether the first port can't be read."""
    try:
        state = one.session.read()
    except OutsideError:
        return True
    return one.ports[0] not in state.ports


def eos_info(**values: object) -> Change:
    def change(body: Any, port: str) -> None:
        body["result"][0]["switchports"][port]["switchportInfo"].update(values)

    return change


def eos_row(**values: object) -> Change:
    return lambda body, port: body["result"][0]["switchports"][port].update(values)


def eos_status(**values: object) -> Change:
    return lambda body, port: body["result"][1]["interfaceStatuses"][port]["vlanInformation"].update(values)


def eos_vlan(**values: object) -> Change:
    return lambda body, port: body["result"][2]["vlans"][str(VLAN)].update(values)


@pytest.mark.parametrize(
    "change",
    [
        eos_info(accessVlanId=None),
        eos_info(accessVlanId="none"),
        eos_info(accessVlanId=True),
        eos_info(accessVlanId=4095),
        eos_info(mode="trunk", trunkAllowedVlans=None),
        eos_info(mode="trunk", trunkAllowedVlans=str(VLAN), trunkingNativeVlanId=None),
        eos_row(enabled=None),
        eos_row(enabled="false"),
        eos_status(vlanExplanation=None),
        eos_vlan(interfaces=None),
    ],
)
def test_eos_port_of_another_shape_is_unknown(eos: One, change: Change) -> None:
    eos.put(0, VLAN)
    changed(eos, change)
    assert unread(eos)


@pytest.mark.parametrize(
    "change",
    [
        eos_info(accessVlanId=str(VLAN)),
        eos_info(mode="trunk", trunkAllowedVlans=f" {VLAN}", trunkingNativeVlanId=str(VLAN)),
    ],
)
def test_eos_numbers_as_text_are_numbers(eos: One, change: Change) -> None:
    eos.put(0, VLAN)
    changed(eos, change)
    assert eos.untagged(0) == VLAN


def test_eos_trunk_of_every_vlan_in_lower_case_is_read(eos: One) -> None:
    for text in ("all", "ALL", "1-4094"):
        changed(eos, eos_info(mode="trunk", trunkAllowedVlans=text))
        assert VLAN in eos.session.read().ports[eos.ports[0]].numbers


def test_eos_vlan_in_an_unknown_state_may_forward(eos: One) -> None:
    eos.put(0, VLAN)
    for status in ("Active", "act/unsup"):
        changed(eos, eos_vlan(status=status))
        assert VLAN not in eos.session.read().suspended


def nvue_row(row: object) -> Change:
    def change(body: Any, port: str) -> None:
        body["interface"][port] = row

    return change


def nvue_bond(body: Any, port: str) -> None:
    body["interface"].pop(port)
    domain = {"br_default": {"access": VLAN}}
    body["interface"]["bond7"] = {"bond": {"member": {port: {}}}, "bridge": {"domain": domain}}


def nvue_key(key: str, **more: object) -> Change:
    """Move the first port's row under a key that means several ports."""

    def change(body: Any, port: str) -> None:
        body["interface"] = {k: v for k, v in body["interface"].items() if k != port} | more
        body["interface"][key] = {"bridge": {"domain": {"br_default": {"access": VLAN}}}}

    return change


@pytest.mark.parametrize("key", ["swp1-2", "swp1,swp9", "swp9,swp1-1"])
def test_nvue_row_of_several_ports_is_read_for_each(nvue: One, key: str) -> None:
    nvue.put(0, VLAN)
    assert nvue.ports[:2] == ["swp1", "swp2"]

    def change(body: Any, port: str) -> None:
        body["interface"].pop("swp2")
        nvue_key(key)(body, port)

    changed(nvue, change)
    assert nvue.untagged(0) == VLAN


def test_nvue_bond_of_a_range_of_ports_has_its_members(nvue: One) -> None:
    bond = {"bond": {"member": {"swp1-2": {}}}, "bridge": {"domain": {"br_default": {"access": VLAN}}}}
    changed(nvue, lambda body, port: body["interface"].update(bond7=bond))
    assert unread(nvue) and "as a member of bond7" in nvue.session.read().unfit["swp2"]


@pytest.mark.parametrize(
    "change",
    [
        lambda body, port: body["interface"].update({"swp1-2": {}}),
        nvue_row(None),
        nvue_row([]),
        nvue_row({"bridge": None}),
        nvue_row({"bridge": {"domain": []}}),
        nvue_row({"bridge": {"domain": {"br_default": None}}}),
        nvue_row({"bridge": {"domain": {"br_default": {"access": "none"}}}}),
        nvue_row({"bridge": {"domain": {"br_tenants": {"access": VLAN}}}}),
        nvue_bond,
    ],
)
def test_nvue_port_of_another_shape_is_unknown(nvue: One, change: Change) -> None:
    """Also one whose VLANs are another bridge's, or those of a bond that it belongs to."""
    nvue.put(0, VLAN)
    changed(nvue, change)
    assert unread(nvue)


def sonic_member(**values: object) -> Change:
    def change(body: Any, port: str) -> None:
        rows = body["sonic-vlan:sonic-vlan"]["VLAN_MEMBER"]["VLAN_MEMBER_LIST"]
        next(r for r in rows if port in r.values()).update(values)

    return change


def sonic_below(body: Any, port: str) -> None:
    tree = body["sonic-vlan:sonic-vlan"]
    tree["sonic-vlan:VLAN_MEMBER"] = tree.pop("VLAN_MEMBER")


def sonic_list(body: Any, port: str) -> None:
    table = body["sonic-vlan:sonic-vlan"]["VLAN_MEMBER"]
    table["sonic-vlan:VLAN_MEMBER_LIST"] = table.pop("VLAN_MEMBER_LIST")


@pytest.mark.parametrize(
    "change",
    [
        sonic_below,
        sonic_list,
        sonic_member(port=None, ifname=None),
        sonic_member(name=None),
        sonic_member(name=f"Vlan {VLAN}x"),
        sonic_member(tagging_mode=None),
        sonic_member(tagging_mode="access"),
    ],
)
def test_sonic_member_of_another_shape_is_unknown(sonic: One, change: Change) -> None:
    sonic.put(0, VLAN)
    changed(sonic, change)
    assert unread(sonic)


def test_sonic_member_of_a_link_aggregation_is_unknown(sonic: One) -> None:
    """It has no VLANs of its own and can't be put in one."""

    rows = [{"name": "PortChannel7", "port": sonic.ports[0]}]
    table = {"sonic-portchannel:PORTCHANNEL_MEMBER": {"PORTCHANNEL_MEMBER_LIST": rows}}

    def instead(request: Request, answer: Answer) -> Answer:
        return Answer(200, table) if request.path.endswith("/PORTCHANNEL_MEMBER") else answer

    sonic.front.faults.instead = instead
    assert unread(sonic)
    assert sonic.session.read().lacks(sonic.ports[0]).endswith("as a member of PortChannel7")


def test_sonic_port_that_the_site_has_by_its_alias_is_named(sonic: One) -> None:
    """As operators read it in `show interfaces status`."""
    mine = {"name": "Ethernet400", "alias": sonic.ports[0]}

    def instead(request: Request, answer: Answer) -> Answer:
        if request.path.endswith("sonic-port/PORT"):
            rows = answer.body["sonic-port:PORT"]["PORT_LIST"]
            rows[:] = [mine, *(row for row in rows if sonic.ports[0] not in row.values())]
        return answer

    sonic.front.faults.instead = instead
    said = f"leaf1 has port {sonic.ports[0]} only as an alias (its name is Ethernet400), which the site names"
    assert any(said in problem for problem in sonic.fabric.live_check().problems)


def test_answer_with_a_repeated_key_is_unknown() -> None:
    """Parsers keep either of the two."""
    for text in (b'{"vlan": 1, "vlan": 2}', b'{"a": [{"b": 0, "b": 0}]}', b'{"a": 1e999}', b"[" * 100_000):
        with pytest.raises(ValueError):
            read_json(text)
    assert read_json(b'{"a": [{"b": 1.5}, {"b": null}]}') == {"a": [{"b": 1.5}, {"b": None}]}


def test_sonic_tagging_mode_in_capitals_is_read(sonic: One) -> None:
    sonic.put(0, VLAN)
    changed(sonic, sonic_member(tagging_mode="UNTAGGED"))
    assert sonic.session.read().ports[sonic.ports[0]] == PortVlans(VLAN)
