"""Changes without an answer, whose outcome is unknown."""

from __future__ import annotations

import pytest

from tests.drivers.switches.onefront import MAKES, OTHER, VLAN, One, ordered, results
from tests.drivers.switches.rigs import scope
from weft.drivers.switches import switch
from weft.drivers.switches.parts import UndoneError
from weft.drivers.switches.vlans import Batch, PortEdit, PortVlans, SwitchState
from weft.drivers.switches.wanted import removal_for
from weft.model.errors import UnknownError
from weftlab.switches.front import PASSWORD

TAKES = {
    "eos": ("switchport access vlan 4000", "no vlan 257"),
    "nvue": ('"257": null', '"br_default": null'),
    "sonic": ("VLAN_MEMBER_LIST=Vlan257,Ethernet0", "VLAN_LIST=Vlan257"),
}
"""The texts that remove a VLAN from a port, and from the switch."""


def test_pending_membership_is_removed_even_if_not_visible(one: One) -> None:
    """The change may still take effect, so its removal is sent explicitly."""
    spec, wanted = ordered(one, 0)
    speaks = one.front.plan.speaks
    one.front.faults.late = MAKES[speaks]
    with pytest.raises(UnknownError) as caught:
        one.fabric.create(scope(), [wanted], {})
    assert caught.value.lands == one.session.lands_seconds >= switch.DOUBT_SECONDS
    with pytest.raises(UnknownError, match="may not show"):
        one.session.read()
    one.front.requests.clear()
    assert one.fabric.delete(scope(), [wanted], {})["partition"].error is None
    sent = "\n".join(r.line for r in one.front.requests if r.method != "GET")
    assert all(text in sent for text in TAKES[speaks]), sent
    assert results(one.fabric, spec) == {"clean"}


def test_pending_tag_is_removed_even_if_not_visible(one: One) -> None:
    """The port stays a trunk for other pods."""
    port, speaks = one.ports[0], one.front.plan.speaks

    def tag(number: int) -> Batch:
        return Batch({number: "weft-name"}, frozenset(), {port: PortEdit(add=frozenset({number}))})

    one.session.change(lambda _: tag(OTHER))
    one.front.faults.late = MAKES[speaks]
    with pytest.raises(UnknownError):
        one.session.change(lambda _: tag(VLAN))
    one.front.requests.clear()
    one.session.change(lambda state: removal_for("leaf1", state, VLAN, {"weft-name"}, one.fabric.cabling))
    sent = "\n".join(r.line for r in one.front.requests if r.method != "GET")
    said = {"eos": "allowed vlan remove 257", "nvue": '"vlan": {"257": null', "sonic": "Vlan257,"}
    assert said[speaks] in sent, sent
    assert one.session.read().ports[port] == PortVlans(None, frozenset({OTHER}), True)


def test_other_change_does_not_clear_a_doubt(one: One) -> None:
    """The earlier change may still affect its own port."""
    one.front.faults.late = MAKES[one.front.plan.speaks]
    with pytest.raises(UnknownError):
        one.put(0, VLAN)
    one.put(1, OTHER)
    with pytest.raises(UnknownError, match="may not show"):
        one.session.read()


def test_change_refused_at_login_leaves_no_doubt(one: One) -> None:
    """The next reading is believed."""
    right, before = one.fronts.credentials.read_text(), one.session.read()

    def edit(state: SwitchState) -> Batch:
        one.fronts.credentials.write_text(right.replace(PASSWORD, "another"))
        return Batch({VLAN: "weft-name"}, frozenset(), {one.ports[0]: PortEdit(VLAN)})

    with pytest.raises(UndoneError, match="access denied") as caught:
        one.session.change(edit)
    assert caught.value.lands == 0.0
    one.fronts.credentials.write_text(right)
    assert one.session.read().ports == before.ports


def test_lost_commit_is_unknown_and_repeated(one: One) -> None:
    one.front.faults.lose_commit = True
    with pytest.raises(UnknownError):
        one.put(0, VLAN)
    one.put(0, VLAN)
    assert one.untagged(0) == VLAN


def test_lost_answer_is_unknown_and_the_change_is_found(one: One) -> None:
    one.front.faults.lose_answer = True
    with pytest.raises(UnknownError):
        one.put(0, VLAN)
    one.put(0, VLAN)
    assert one.untagged(0) == VLAN and not one.session.read().unsaved
