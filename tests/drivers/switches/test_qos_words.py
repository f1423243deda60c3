"""The meaning of each vendor's own words for RoCE settings, one by one, without switches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from weft.drivers.switches.eosqos import eos_qos
from weft.drivers.switches.nvueqos import nvue_qos
from weft.drivers.switches.sonicqos import TABLES, sonic_qos
from weft.drivers.switches.vlans import from_ranges
from weft.model.site import Qos
from weft.planning.fabric.qos import PortQos, SwitchQos, differences, numbers

WANTED = Qos()


def eos(config: str, **interfaces: Mapping[str, Any]) -> SwitchQos:
    return eos_qos(config, interfaces or {"Ethernet1": {"mtu": 9214}})


def test_eos_qos_is_read_from_profiles_maps_and_queues() -> None:
    """A QoS profile applies to the interfaces that name it, and an interface's own settings override it."""
    profile = """
qos map dscp 26 48 to traffic-class 4
qos map traffic-class 4 to tx-queue 2
!
qos profile ROCE
   qos trust dscp
   priority-flow-control on
   priority-flow-control priority 4 no-drop
   !
   tx-queue 2
      random-detect ecn minimum-threshold 256 kbytes maximum-threshold 512 kbytes max-mark-probability 100
!
interface Ethernet1
   service-profile ROCE
"""
    wanted = Qos(priority=4)
    assert not differences(wanted, eos(profile).ports["Ethernet1"])
    own = eos(profile + "   qos trust cos\n").ports["Ethernet1"]
    assert [d.field for d in differences(wanted, own)] == ["trust"]
    untrusted = eos(profile + "   no qos trust\n").ports["Ethernet1"]
    assert differences(wanted, untrusted)[0].observed == "none"
    elsewhere = eos(profile.replace("interface Ethernet1", "interface Ethernet2")).ports["Ethernet1"]
    assert elsewhere.pfc == frozenset() and elsewhere.trust == {"pcp"}


@pytest.mark.parametrize("line", ["service-policy type qos input REMARK", "service-policy input REMARK"])
@pytest.mark.parametrize("within", ["interface Ethernet1", "qos profile P", "interface Port-Channel7"])
def test_eos_policy_map_makes_the_class_unknown(line: str, within: str) -> None:
    """Whatever trust and maps say: neither right nor different, and the policy map is named."""
    config = (
        f"interface Ethernet1\n   qos trust dscp\n   service-profile P\nqos profile P\n{within}\n   {line}\n"
    )
    lag = {"mtu": 9214, "memberInterfaces": {"Ethernet1": {}}}
    said = eos_qos(config, {"Ethernet1": {"mtu": 9214}, "Port-Channel7": lag}).ports["Ethernet1"]
    assert (said.trust, said.dscp, said.mtu) == (None, None, 9214)
    [why] = said.unsure
    assert "policy map REMARK" in why
    assert not eos(config.replace(line, "service-policy type qos output REMARK")).ports["Ethernet1"].unsure


def test_eos_interface_setting_overrides_its_profile() -> None:
    profile = "qos profile ROCE\n   priority-flow-control on\n   priority-flow-control priority 3 no-drop\n"
    port = "interface Ethernet1\n   service-profile ROCE\n"
    assert eos(profile + port).ports["Ethernet1"].pfc == {3}
    for own in (
        "no priority-flow-control",
        "priority-flow-control off",
        "priority-flow-control priority 3 drop",
    ):
        assert eos(f"{profile}{port}   {own}\n").ports["Ethernet1"].pfc == frozenset(), own
    again = f"{profile}   no priority-flow-control\n{port}   priority-flow-control on\n"
    assert eos(again).ports["Ethernet1"].pfc == {3}, "of a repeated setting the last counts"


def test_eos_interface_queue_extends_its_profiles() -> None:
    """Counters can be configured on the interface only, which doesn't remove the profile's marking."""
    ecn = "random-detect ecn minimum-threshold 256 kbytes maximum-threshold 512 kbytes"
    profile = f"qos profile ROCE\n   uc-tx-queue 3\n      {ecn}\n"
    port = "interface Ethernet1\n   service-profile ROCE\n   uc-tx-queue 3\n      "
    for own, marks in (
        ("random-detect ecn count", True),
        ("no random-detect ecn", False),
        ("priority strict", True),
    ):
        assert (3 in (eos(f"{profile}{port}{own}\n").ports["Ethernet1"].ecn or ())) is marks, own


def test_inactive_lacp_links_belong_to_the_eos_port_channel() -> None:
    config = "interface Ethernet1\n   channel-group 7 mode active\n"
    interfaces: dict[str, Any] = {"Port-Channel7": {"mtu": 9214}, "Ethernet1": {"mtu": 9214}}
    assert eos_qos(config, interfaces).members == {"Port-Channel7": ("Ethernet1",)}
    assert eos_qos("", interfaces).members == {"Port-Channel7": ()}


def test_no_drop_priority_without_flow_control_pauses_nothing() -> None:
    said = eos("interface Ethernet1\n   priority-flow-control priority 3 no-drop\n")
    assert said.ports["Ethernet1"].pfc == frozenset()


def test_eos_routed_port_trusts_dscp_by_default() -> None:
    routed = eos("interface Ethernet1\n   no switchport\n").ports["Ethernet1"]
    assert routed.trust == {"dscp"} and routed.dscp is not None and routed.dscp[26] == 3
    assert eos("interface Ethernet1\n   no switchport\n   qos trust cos\n").ports["Ethernet1"].trust == {
        "pcp"
    }
    assert eos("interface Ethernet1\n   switchport\n").ports["Ethernet1"].trust == {"pcp"}


def test_eos_port_channel_members_inherit_trust() -> None:
    lag = {"mtu": 9214, "memberInterfaces": {"Ethernet1": {}}}
    said = eos_qos(
        "interface Port-Channel7\n   qos trust dscp\n",
        {"Port-Channel7": lag, "Ethernet1": {"mtu": 9214}},
    )
    assert said.of("Port-Channel7")["Ethernet1"].trust == {"dscp"}


def test_eos_port_channel_links_inherit_its_profile() -> None:
    profile = "qos profile ROCE\n   qos trust dscp\n   priority-flow-control on\n"
    profile += "   priority-flow-control priority 3 no-drop\n   tx-queue 3\n"
    profile += "      random-detect ecn minimum-threshold 1 kbytes maximum-threshold 2 kbytes\n"
    lag = {"mtu": 9214, "memberInterfaces": {"Ethernet1": {}}}
    interfaces = {"Port-Channel7": lag, "Ethernet1": {"mtu": 9214}}
    said = eos_qos(profile + "interface Port-Channel7\n   service-profile ROCE\n", interfaces)
    assert not [d for one in said.of("Port-Channel7").values() for d in differences(WANTED, one)]


def test_eos_interface_without_mtu_hides_no_other() -> None:
    said = eos_qos("", {"Vxlan1": {"name": "Vxlan1"}, "Ethernet1": {"mtu": 1500}})
    assert said.ports["Vxlan1"].mtu is None and said.ports["Ethernet1"].mtu == 1500


def test_nvue_settings_are_read_in_each_versions_schema() -> None:
    """`enable: on` until 5.14, `state: enabled` later; a profile overrides RoCE's defaults."""
    port: dict[str, Any] = {"interface": {"swp1": {}}}
    for roce in (
        {"enable": "on"},
        {"enable": "on", "mode": "lossless"},
        {"state": "enabled", "mode": "lossless-single-ipool"},
    ):
        assert not differences(WANTED, nvue_qos({"qos": {"roce": roce}, **port}).ports["swp1"])
    lossy = nvue_qos({"qos": {"roce": {"enable": "on", "mode": "lossy"}}, **port}).ports["swp1"]
    assert [d.field for d in differences(WANTED, lossy)] == ["PFC"]
    assert not differences(Qos(pfc=False), lossy)
    for off in ({"enable": "off"}, {"state": "disabled"}, None):
        assert nvue_qos({"qos": {"roce": off}, **port}).ports["swp1"].pfc == frozenset()


def nvue_port(**qos: Any) -> PortQos:
    return nvue_qos({"qos": qos, "interface": {"swp1": {}}}).ports["swp1"]


def test_nvue_priority_has_ecn_only_if_its_queue_marks() -> None:
    """By NVIDIA's documents a listed class has ECN unless it says otherwise, and the list is complete."""
    roce = {"enable": "on"}
    moved = {"default-global": {"switch-priority": {"3": {"traffic-class": 5}}}}
    assert 3 in (nvue_port(roce=roce).ecn or ())
    assert 3 not in (nvue_port(roce=roce, **{"egress-queue-mapping": moved}).ecn or ())
    assert nvue_port().ecn == {0}
    listed = {"default-global": {"traffic-class": {"3,5": {"min-threshold": 40000}}}}
    assert nvue_port(**{"congestion-control": listed}).ecn == {3, 5}
    elsewhere = {"default-global": {"dscp": {"10,26": {"switch-priority": 4}}}}
    assert (nvue_port(mapping=elsewhere).dscp or {})[26] == 4


def test_fields_missing_in_nvue_do_not_hide_the_switch() -> None:
    """A DSCP value without a priority keeps its own, `null` is the default; a missing profile is unknown."""
    port = nvue_port(
        mapping={"default-global": {"dscp": {"26": {}, "27": None, "28": {"switch-priority": 5}}}}
    )
    assert port.dscp is not None and (port.dscp[26], port.dscp[27], port.dscp[28]) == (3, 3, 5)
    named = {"link": {"mtu": None}, "qos": {"pfc": {"profile": "mine"}}}
    tree: dict[str, Any] = {"qos": {"roce": {"enable": "on"}}, "interface": {"swp1": named}}
    port = nvue_qos(tree).ports["swp1"]
    assert port.mtu == 9216 and port.unsure == ("its pfc profile mine isn't there",)
    tree["qos"]["pfc"] = {"mine": {"switch-priority": {"4": {}}}}
    port = nvue_qos(tree).ports["swp1"]
    assert port.pfc == {4} and port.unsure == ()


@pytest.mark.parametrize("mode", ["lossy-multi-tc", "dci-1", "dci-custom", "x" * 999])
def test_roce_mode_with_its_own_maps_is_unknown(mode: str) -> None:
    with pytest.raises(ValueError, match="isn't known"):
        nvue_port(roce={"state": "enabled", "mode": mode})


def test_receive_only_pause_does_not_count_as_flow_control() -> None:
    tree = {
        "qos": {"pfc": {"default-global": {"switch-priority": {"3": {}}, "tx": "disable"}}},
        "interface": {"swp1": {}},
    }
    assert nvue_qos(tree).ports["swp1"].pfc == frozenset()


def test_sonic_switch_without_tables_has_no_settings() -> None:
    tables: dict[str, Sequence[Mapping[str, Any]]] = {table: [] for table in TABLES}
    tables["PORT"] = [{"ifname": "Ethernet0"}]
    port = sonic_qos(tables).ports["Ethernet0"]
    assert (port.pfc, port.ecn, port.trust, port.mtu) == (frozenset(), frozenset(), frozenset(), 9100)
    tables["PORT_QOS_MAP"] = [
        {"ifname": "global", "pfc_enable": "3,4"},
        {"ifname": "Ethernet0", "pfc_enable": ""},
    ]
    assert sonic_qos(tables).ports["Ethernet0"].pfc == frozenset(), "a port's own setting overrides"


def test_switch_number_lists_are_parsed() -> None:
    assert numbers("3") == {3} and numbers("0,3-5") == {0, 3, 4, 5} and numbers("24 26") == {24, 26}
    assert numbers("") == frozenset()
    for wrong in ("three", "0-99999999999", "64", "-1", "5-3", "9" * 5000):
        with pytest.raises(ValueError):
            numbers(wrong)


@pytest.mark.parametrize("text", ["1-99999999999", "0", "4095", "12-11", "eleven", "1-2-3"])
def test_vlan_list_is_bounded(text: str) -> None:
    """A switch's answer must not use up the memory."""
    with pytest.raises(ValueError):
        from_ranges(text)


def test_missing_port_settings_are_not_compared() -> None:
    assert not differences(WANTED, PortQos())
    assert [d.field for d in differences(WANTED, PortQos(mtu=1500))] == ["MTU"]
    assert not differences(WANTED, PortQos(mtu=9216)), "a switch may carry more"
    assert differences(WANTED, PortQos(mtu=9216), adapter=True), "an adapter must not send more"
