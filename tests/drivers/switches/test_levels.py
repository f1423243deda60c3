"""Whether a reading is a switch's configuration or its operational state, as receipts label it."""

from __future__ import annotations

from typing import Any, cast

import pytest

from tests.drivers.switches.onefront import VLAN, One, ordered
from tests.drivers.switches.rigs import scope
from weft.drivers.switches.sonic import TREE
from weft.model.fabric import EvidenceItem
from weft.model.fabrictypes import Level
from weft.model.specs import SegmentSpec
from weftlab.switches.front import Answer, Request


def item_of(one: One, spec: SegmentSpec) -> EvidenceItem:
    [item] = [i for i in one.fabric.clean(spec, one.fabric.snapshot()).items if i.plane == "switch port"]
    return item


def former(one: One) -> SegmentSpec:
    """A segment of the first port, created and deleted."""
    spec, wanted = ordered(one, 0)
    assert one.fabric.create(scope(), [wanted], {})["partition"].error is None
    assert one.fabric.delete(scope(), [wanted], {})["partition"].error is None
    return spec


@pytest.mark.parametrize("vendor", ["sonic", "nvue"])
def test_receipt_labels_configuration_as_configuration(vendor: str, request: pytest.FixtureRequest) -> None:
    """SONiC's CONFIG_DB and NVUE's applied revision don't show what the chip does."""
    one = cast(One, request.getfixturevalue(vendor))
    item = item_of(one, former(one))
    assert (item.result, item.level) == ("clean", Level.CONFIGURATION)
    assert item.seen == "only its switch's configuration was read: the VLAN is not on it there"
    assert item.unread == ("what it forwards: its switch shows only its configuration",)
    assert item.weighed(Level.CONFIGURATION).result == "clean"
    assert {item.weighed(level).result for level in (Level.OPERATIONAL, Level.FRAMES)} == {"unknown"}


def test_receipt_labels_eos_state_as_operational(eos: One) -> None:
    """It isn't enough if frames are required as well."""
    item = item_of(eos, former(eos))
    assert (item.result, item.level, item.unread) == ("clean", Level.OPERATIONAL, ())
    assert item.seen == "operational state read from its switch: no VLAN"
    assert [item.weighed(level).result for level in Level] == ["clean", "clean", "unknown"]


def test_active_member_missing_in_the_eos_configuration_counts(eos: One) -> None:
    """`show vlan` has the ports that forward; `show interfaces switchport` has the settings."""
    spec = former(eos)

    def forwards(_: Request, answer: Answer) -> Answer:
        for result in cast(dict[str, Any], answer.body).get("result", ()):
            if "vlans" in result:
                row = {"name": "x", "dynamic": True, "status": "active", "interfaces": {eos.ports[0]: {}}}
                result["vlans"][str(VLAN)] = row
        return answer

    eos.front.faults.instead = forwards
    item = item_of(eos, spec)
    assert item.result == "not clean" and str(VLAN) in item.seen
    assert eos.ports[0] in str(eos.fabric.snapshot().ports_in[VLAN])


def test_sonic_asic_state_counts_as_present(sonic: One) -> None:
    """APPL_DB has a member that CONFIG_DB doesn't have, since vlanmgrd hasn't followed."""
    spec = former(sonic)

    def lags(request: Request, answer: Answer) -> Answer:
        if request.method == "GET" and request.path == TREE:
            tree = cast(dict[str, Any], answer.body or {}).setdefault("sonic-vlan:sonic-vlan", {})
            row = {"name": f"Vlan{VLAN}", "port": sonic.ports[0], "tagging_mode": "untagged"}
            tree["VLAN_MEMBER_TABLE"] = {"VLAN_MEMBER_TABLE_LIST": [row]}
            return Answer(200, {"sonic-vlan:sonic-vlan": tree})
        return answer

    sonic.front.faults.instead = lags
    item = item_of(sonic, spec)
    assert item.result == "not clean" and str(VLAN) in item.seen
