"""VLANs of a site's own networks: where they are, where they were, and switches that were never read. Without a
switch.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import pytest

from tests.helpers.ownports import FABRIC, own_ports
from weft.drivers.switches.cabling import Cabling
from weft.drivers.switches.names import vlan_name
from weft.drivers.switches.own import Own, foreign_ports
from weft.drivers.switches.ownedits import edit_for_own, removal_of_own
from weft.drivers.switches.ownevidence import clean_own, observe_own
from weft.drivers.switches.snapshot import EthernetSnapshot
from weft.drivers.switches.vlans import PortVlans, SwitchState
from weft.model.errors import PermanentError, UnknownError
from weft.model.fabric import Membership
from weft.model.fabrictypes import FabricKind, Mode
from weft.model.mark import Mark
from weft.model.owner import Owner
from weft.model.resources import Status
from weft.model.specs import SegmentSpec

VLAN = 50
CABLES = Cabling(
    ("l1", "l2", "l3", "s1", "s2"),
    frozenset(),
    (("l1/u", "s1/1", False), ("l2/u", "s1/2", False), ("l3/u", "s2/3", False)),
)
SITE = own_ports()
NAME = vlan_name(Mark(SITE.name, Owner("site", "11111111-1111-1111-1111-111111111111"), "vlan"))

Fabric = Mapping[str, SwitchState]


def wanted(*ports: str, former: tuple[str, ...] = ()) -> Own:
    members = tuple(Membership(port=p, mode=Mode.ACCESS) for p in ports)
    spec = SegmentSpec(
        number=VLAN, fabric_type=FabricKind.ETHERNET, members=members, shared=True, former=former
    )
    return Own(spec, NAME, ours=True)


def untouched() -> dict[str, SwitchState]:
    access, trunk = PortVlans(), PortVlans(trunk=True)
    leaf = SwitchState({}, {"a": access, "x": access, "u": trunk})
    return {
        **dict.fromkeys(("l1", "l2", "l3"), leaf),
        "s1": SwitchState({}, {"1": trunk, "2": trunk}),
        "s2": SwitchState({}, {"3": trunk}),
    }


def put(fabric: Fabric, own: Own, silent: Collection[str] = ()) -> dict[str, SwitchState]:
    """Change all switches but silent ones."""
    own = replace(own, shared=bool(foreign_ports(own, seen(fabric))))
    return {s: x if s in silent else edit_for_own(s, x, own, CABLES).on(x) for s, x in fabric.items()}


def removed(fabric: Fabric, own: Own) -> dict[str, SwitchState]:
    return {s: removal_of_own(s, x, own, CABLES).on(x) for s, x in fabric.items()}


def seen(
    fabric: Fabric, silent: Collection[str] = (), write_only: Collection[str] = (), cables: Cabling = CABLES
) -> EthernetSnapshot:
    states = {s: x for s, x in fabric.items() if s not in silent and s in cables.switches}
    return EthernetSnapshot(
        SITE, FABRIC, 0.0, cables, states, dict.fromkeys(silent, "no answer"), {}, frozenset(write_only)
    )


def nameless(fabric: Fabric) -> dict[str, SwitchState]:
    """The fabric as NVUE and SONiC have it, without VLAN names."""
    return {s: replace(x, vlans=dict.fromkeys(x.vlans, "")) for s, x in fabric.items()}


def having(fabric: Fabric) -> set[str]:
    """Switches and ports that have the VLAN."""
    ports = {f"{s}/{p}" for s, x in fabric.items() for p, now in x.ports.items() if VLAN in now.numbers}
    return {s for s, x in fabric.items() if VLAN in x.vlans} | ports


BOTH = {"l1", "l2", "s1", "l1/a", "l2/a", "l1/u", "l2/u", "s1/1", "s1/2"}


@pytest.mark.parametrize("named", [True, False])
def test_switches_no_longer_on_a_path_lose_the_vlan(named: bool) -> None:
    """Also one that was silent when the port left: it is a difference until then."""
    fabric = put(untouched(), wanted("l1/a", "l2/a"))
    fabric = fabric if named else nameless(fabric)
    assert having(fabric) == BOTH
    less = wanted("l1/a", former=("l2/a",))
    fabric = put(fabric, less, silent=("s1",))
    found = observe_own(less, seen(fabric), leaving=False)
    assert found.status is Status.PENDING and "s1" in found.reason
    fabric = put(fabric, less)
    assert having(fabric) == {"l1", "l1/a"}
    assert observe_own(less, seen(fabric), leaving=False).status is Status.SETTLED


@pytest.mark.parametrize(
    ("how", "switch"),
    [("silent", "l2"), ("silent", "s1"), ("write-only", "l2"), ("write-only", "s1"), ("gone", "l2")],
)
def test_unread_switch_prevents_a_clean_receipt(how: str, switch: str) -> None:
    """It doesn't answer, can't be read back any more, or isn't in the site any more."""
    own = wanted("l1/a", former=("l2/a",))
    fabric = removed(put(untouched(), wanted("l1/a", "l2/a")), own)
    assert not having(fabric)
    assert {i.result for i in clean_own(own.spec, seen(fabric)).items} == {"clean"}
    cables = CABLES
    if how == "gone":
        links = tuple(link for link in CABLES.links if not any(e.startswith(f"{switch}/") for e in link[:2]))
        cables = replace(CABLES, switches=tuple(s for s in CABLES.switches if s != switch), links=links)
    snapshot = seen(
        fabric, [switch] if how == "silent" else [], [switch] if how == "write-only" else [], cables=cables
    )
    with pytest.raises(UnknownError, match=switch):
        observe_own(own, snapshot, leaving=True)
    assert "unknown" in {i.result for i in clean_own(own.spec, snapshot).items}


def test_foreign_users_of_a_vlan_stay_connected() -> None:
    """Their leaves keep it, and the spine between them, whether one port or the whole network is removed."""
    fabric = put(untouched(), wanted("l1/a", "l2/a"))
    for leaf in ("l1", "l2"):
        fabric[leaf] = replace(fabric[leaf], ports={**fabric[leaf].ports, "x": PortVlans(VLAN)})
    less = wanted("l1/a", former=("l2/a",))
    fabric = put(fabric, less)
    assert having(fabric) == (BOTH | {"l1/x", "l2/x"}) - {"l2/a"}
    assert observe_own(less, seen(fabric), leaving=False).status is Status.SETTLED
    assert foreign_ports(less, seen(fabric)) == ["l1/x", "l2/x"], "they refuse the removal as a whole"
    with pytest.raises(PermanentError, match="l1/x"):
        removed(fabric, less)


@pytest.mark.parametrize("name", ["", "legacy"])
def test_same_vlan_number_elsewhere_is_ignored(name: str) -> None:
    own = wanted("l1/a")
    fabric = put(untouched(), own)
    if not name:
        fabric = nameless(fabric)
    fabric["s2"] = SwitchState({VLAN: name}, {"3": PortVlans(None, frozenset({VLAN}), True)})
    fabric["l3"] = SwitchState(
        {VLAN: name}, {"a": PortVlans(VLAN), "u": PortVlans(None, frozenset({VLAN}), True)}
    )
    assert foreign_ports(own, seen(fabric)) == []
    gone = removed(fabric, own)
    assert having(gone) == {"s2", "s2/3", "l3", "l3/a", "l3/u"}
    assert observe_own(own, seen(gone), leaving=True).status is Status.ABSENT
    assert {i.result for i in clean_own(own.spec, seen(gone)).items} == {"clean"}
