"""Ethernet cables by LLDP against the site: real output of lldpd, and Ironic's inspection data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.hardwarelist import HardwareList
from tests.helpers.paths import RECORDED
from weft.app.sitecompare import compare_lldp
from weft.cli.main import main
from weft.model.errors import InputErrors
from weft.model.site import Site
from weft.planning.site.lldpfiles import neighbours_of
from weft.planning.site.neighbours import LldpNeighbour, PortNames, cable_differences
from weftlab.switches import leaf_spine
from weftlab.switches.site import ethernet_site

HEARD = RECORDED / "lldp"
"""Output of lldpd 1.0.16 on a switch tor1 with gpu1's ens1f0 on swp9 and gpu2's eno1 on swp10."""


@pytest.fixture
def hardware(tmp_path: Path) -> HardwareList:
    """tor1 with gpu1 and gpu2 on swp9 and swp10."""
    made = HardwareList(tmp_path)
    made.spoil("tor1", ports="swp[1-32]")
    made.spoil("ipum1", rnic_port="1")
    made.spoil("nas1", eth0_port="swp31")
    made.spoil("ipum2", rnic_port="swp2")
    for n, (name, mac) in enumerate((("gpu1", "02:00:00:00:09:01"), ("gpu2", "02:00:00:00:10:01")), 9):
        made.rows[name] = {
            "name": name,
            "kind": "compute",
            "eth0_mac": mac,
            "eth0_address": f"10.3.0.{n + 20}",
            "eth0_switch": "tor1",
            "eth0_port": f"swp{n}",
        }
    return made


def site(hardware: HardwareList) -> Site:
    hardware.write()
    return hardware.imported().site


def differences(site: Site, *files: str) -> list[str]:
    return [f"{d.kind}: {d.what}" for d in compare_lldp(site, [str(HEARD / f) for f in files])]


def test_matching_cables_have_no_differences(hardware: HardwareList) -> None:
    """Although the hosts' own names for their interfaces differ."""
    assert differences(site(hardware), "gpu1.json", "gpu2.json") == []


def test_switch_reports_all_its_ports(hardware: HardwareList) -> None:
    """The two hosts match; cables that it doesn't report are missing, also that of its own management port."""
    assert differences(site(hardware), "tor1.json") == [
        "missing cable: tor1/eth0 isn't seen on port Ethernet7 of mgmt1",
        "missing cable: ipum1/rnic isn't seen on port swp1 of tor1",
        "missing cable: ipum2/rnic isn't seen on port swp2 of tor1",
        "missing cable: nas1/eth0 isn't seen on port swp31 of tor1",
    ]


def test_host_does_not_report_its_bmcs_cable(hardware: HardwareList) -> None:
    """The BMC's cable is missing only if the BMC's switch was asked."""
    hardware.spoil(
        "gpu1", bmc_mac="2c:ea:7f:00:00:02", bmc_address="10.3.0.11", bmc_switch="tor1", bmc_port="swp12"
    )
    made = site(hardware)
    assert differences(made, "gpu1.json") == []
    assert "missing cable: gpu1/bmc isn't seen on port swp12 of tor1" in differences(made, "tor1.json")


def test_names_with_domain_match_the_site(hardware: HardwareList, tmp_path: Path) -> None:
    """The name of the asked device (its file's name) and those of its neighbours."""
    made = site(hardware)
    text = (HEARD / "gpu1.json").read_text()
    (tmp_path / "gpu1.dc.example.json").write_text(text.replace('"tor1"', '"TOR1.dc.example"'))
    assert compare_lldp(made, [str(tmp_path / "gpu1.dc.example.json")]) == ()
    both = [str(tmp_path / "gpu1.dc.example.json"), str(tmp_path / "gpu1.json")]
    (tmp_path / "gpu1.json").write_text(text.replace("swp9", "swp20"))
    assert [d.kind for d in compare_lldp(made, both)] == ["unknown cable"], (
        "these are two files of the same host"
    )
    switch = (HEARD / "tor1.json").read_text()
    for name in ("gpu1", "gpu2"):
        switch = switch.replace(f'"{name}"', f'"{name}.dc.example"')
    assert "gpu1.dc.example" in switch
    (tmp_path / "tor1.json").write_text(switch)
    assert compare_lldp(made, [str(tmp_path / "tor1.json")]) == compare_lldp(made, [str(HEARD / "tor1.json")])


def test_second_neighbour_of_a_port_changes_no_comparison(hardware: HardwareList, tmp_path: Path) -> None:
    """An adapter's firmware sends too, in any order with its host."""
    made = site(hardware)
    document = json.loads((HEARD / "tor1.json").read_text())
    interfaces = document["lldp"][0]["interface"]
    other = json.loads(json.dumps(interfaces[0]))
    other["chassis"][0]["name"][0]["value"] = "firmware"
    other["port"][0]["id"][0] = {"type": "mac", "value": "02:00:00:00:99:99"}
    for order in ([other, *interfaces], [*interfaces, other]):
        document["lldp"][0]["interface"] = order
        (tmp_path / "tor1.json").write_text(json.dumps(document))
        assert compare_lldp(made, [str(tmp_path / "tor1.json")]) == compare_lldp(
            made, [str(HEARD / "tor1.json")]
        )


def test_swapped_cables_are_reported(hardware: HardwareList) -> None:
    """From the host's side, and from the switch's, which knows MAC addresses."""
    hardware.spoil("gpu1", eth0_port="swp10")
    hardware.spoil("gpu2", eth0_port="swp9")
    expected = [
        "moved cable: gpu1/ens1f0 is on port swp9 of tor1, where the site has gpu2/eth0",
        "moved cable: gpu2/eno1 is on port swp10 of tor1, where the site has gpu1/eth0",
    ]
    made = site(hardware)
    assert differences(made, "gpu1.json", "gpu2.json") == expected
    by_switch = [line for line in differences(made, "tor1.json") if line.startswith("moved")]
    assert by_switch == [line.replace("ens1f0", "eth0").replace("eno1", "eth0") for line in expected]


def test_unknown_cable_is_reported(hardware: HardwareList) -> None:
    """A host on another port: missing at its own port, unknown at the other."""
    hardware.spoil("gpu1", eth0_port="swp20")
    assert differences(site(hardware), "gpu1.json") == [
        "missing cable: gpu1/eth0 isn't seen on port swp20 of tor1",
        "unknown cable: gpu1/ens1f0 is on port swp9 of tor1, where the site has no cable",
    ]


def test_unknown_device_is_reported(hardware: HardwareList) -> None:
    """Otherwise a wrong file name would look like no difference."""
    del hardware.rows["gpu2"]
    assert differences(site(hardware), "gpu2.json") == [
        "unknown node: gpu2 was queried, but isn't in the site",
        "unknown cable: gpu2/eno1 is on port swp10 of tor1, where the site has no cable",
    ]


def test_bond_links_match_their_aggregation(tmp_path: Path) -> None:
    """The site has an aggregation on each of two leaves, LLDP has its links; only the host must match, not the
    order.
    """
    plan = leaf_spine("eos", hosts_each=2, mlag=True)
    made = ethernet_site(plan, dict.fromkeys(plan.by_name, "https://127.0.0.1"), None, None)
    both = [
        LldpNeighbour("eth0", "leaf1.dc.example", "Ethernet3"),
        LldpNeighbour("eth1", "leaf2", "Ethernet3"),
    ]
    assert cable_differences(made, {"bonded": both}) == ()
    assert [d.what for d in cable_differences(made, {"bonded": both[:1]})] == [
        "bonded/mlx5_0 isn't seen on port Port-Channel3 of leaf2"
    ]
    failover = [
        LldpNeighbour("eth0", "leaf1", "Port-Channel3"),
        *both[1:],
        LldpNeighbour("eth7", "leaf1", "Ethernet9"),
    ]
    assert [d.kind for d in cable_differences(made, {"bonded": failover})] == ["unknown cable"]
    heard = {
        "leaf1": [LldpNeighbour("Ethernet3", "bonded", "eth0"), LldpNeighbour("Ethernet1", "host1", "eth0")]
    }
    assert [d.what for d in cable_differences(made, heard)] == [
        "host2/mlx5_0 isn't seen on port Ethernet2 of leaf1"
    ]


def ironic(**heard: dict[str, str]) -> str:
    interfaces = [{"name": n, "mac_address": "02:00:00:00:09:01", "lldp": None} for n in heard]
    return json.dumps({"inventory": {"interfaces": interfaces}, "plugin_data": {"parsed_lldp": heard}})


def test_ironic_inspection_gives_the_same_result(hardware: HardwareList, tmp_path: Path) -> None:
    """`baremetal node inventory save`, with the hook parsed-lldp."""
    made = site(hardware)
    port = {"switch_system_name": "tor1", "switch_port_id": "swp9"}
    (tmp_path / "gpu1.json").write_text(ironic(ens1f0=port))
    assert compare_lldp(made, [str(tmp_path / "gpu1.json")]) == ()
    by_mac = {**port, "switch_port_id": "76:50:01:a7:c8:50", "switch_port_description": "swp9"}
    (tmp_path / "gpu1.json").write_text(ironic(ens1f0=by_mac, eno2={"switch_chassis_id": "aa"}))
    assert compare_lldp(made, [str(tmp_path / "gpu1.json")]) == ()
    (tmp_path / "gpu1.json").write_text(ironic(ens1f0={**port, "switch_port_id": "swp3"}))
    assert [d.kind for d in compare_lldp(made, [str(tmp_path / "gpu1.json")])] == [
        "missing cable",
        "unknown cable",
    ]


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"lldp": {}}', '{"lldp": [{"interface": [{"via": "LLDP", "chassis": [], "port": []}]}]}',
     '{"lldp": {"interface": [{"swp9": {"via": "LLDP"}}]}}', '{"plugin_data": {"parsed_lldp": ["x"]}}',
     '{"inventory": {}, "plugin_data": {"valid_interfaces": {}}}', "[" * 100_000],
)  # fmt: skip
def test_unknown_file_formats_are_refused(hardware: HardwareList, tmp_path: Path, text: str) -> None:
    """Empty, another format of lldpcli, cut off, deeply nested: the error names the file."""
    made = site(hardware)
    (tmp_path / "tor1.json").write_text(text)
    with pytest.raises(InputErrors, match="lldpcli -f json0"):
        compare_lldp(made, [str(tmp_path / "tor1.json")])


def test_command_reports_differences(hardware: HardwareList, tmp_path: Path, capsys: Any) -> None:
    """Exit code 1 and a line each; two files of one device are an error."""
    hardware.spoil("gpu1", eth0_port="swp20")
    hardware.write()
    hardware.imported(tmp_path / "out")
    words = ["site", "check", str(tmp_path / "out" / "site.yaml"), "--lldp", str(HEARD / "gpu1.json")]
    assert main(words) == 1
    out = capsys.readouterr().out
    assert "fabric: 2 differences" in out and "  unknown cable: gpu1/ens1f0 is on port swp9 of tor1" in out
    assert main([*words, str(HEARD / "gpu1.json")]) == 2
    assert "one file per device" in capsys.readouterr().err


def lldpctl(**rows: Any) -> str:
    """`lldpcli -f json show neighbors`: interfaces by name."""
    listed = [{name: row} for name, row in rows.items()]
    return json.dumps({"lldp": {"interface": listed if len(listed) > 1 else listed[0]}})


def test_lldpcli_json_format_is_read(tmp_path: Path) -> None:
    """Objects by name instead of lists; a single interface isn't in a list, and a neighbour without a name is
    identified by its MAC address.
    """
    port = {"id": {"type": "ifname", "value": "swp9"}, "descr": "to gpu1", "ttl": "120"}
    mac = {"type": "mac", "value": "02:00:00:00:10:01"}
    named = {
        "via": "LLDP",
        "chassis": {"tor1.dc": {"id": {"type": "mac", "value": "02:00:00:00:ff:00"}}},
        "port": port,
    }
    nameless = {"via": "LLDP", "chassis": {"id": mac}, "port": {"id": mac}}
    other = {"via": "CDPv2", "chassis": {"id": mac}, "port": {"id": mac}}
    assert neighbours_of(json.loads(lldpctl(ens1f0=named))) == (LldpNeighbour("ens1f0", "tor1.dc", "swp9"),)
    found = neighbours_of(json.loads(lldpctl(swp9=named, swp10=nameless, swp11=other)))
    assert found == (
        LldpNeighbour("swp9", "tor1.dc", "swp9"),
        LldpNeighbour("swp10", "", mac["value"], mac["value"]),
    )


def test_unnamed_neighbour_is_identified_by_mac(hardware: HardwareList, tmp_path: Path) -> None:
    """Such as an adapter's firmware; an unknown MAC address is ignored."""
    made, rows = site(hardware), {}
    for n, mac in ((9, "02:00:00:00:09:01"), (10, "02:00:00:00:10:99")):
        who = {"id": {"type": "mac", "value": mac}}
        rows[f"swp{n}"] = {"via": "LLDP", "chassis": who, "port": who}
    (tmp_path / "tor1.json").write_text(lldpctl(**rows))
    found = [d.what for d in compare_lldp(made, [str(tmp_path / "tor1.json")])]
    assert "gpu2/eth0 isn't seen on port swp10 of tor1" in found
    assert not any("gpu1/eth0" in line or "10:99" in line for line in found)


@pytest.mark.parametrize(
    ("said", "described", "port"),
    [
        ("etp5", "Ethernet16", "Ethernet16"),
        ("ethernet 16", None, "Ethernet16"),
        ("Ethernet20", "Ethernet16", "Ethernet20"),
        ("Ethernet24", "Ethernet16", "Ethernet24"),
        ("etp5", "to gpu01", "etp5"),
        ("etp5", None, "etp5"),
    ],
)
def test_ports_are_identified_by_id_or_description(said: str, described: str | None, port: str) -> None:
    """A description is used only if the id isn't a port's name as the site spells them."""
    names = PortNames([("leaf1", "Ethernet16"), ("leaf1", "Ethernet20")])
    assert names.find("leaf1", LldpNeighbour("eno1", "leaf1", said, None, described)) == port
    assert names.find("leaf2", LldpNeighbour("eno1", "leaf2", said, None, described)) == said


def test_each_link_of_a_bond_is_a_cable(hardware: HardwareList) -> None:
    """Each belongs to the host, and one that isn't reported is missing."""
    hardware.spoil("gpu1", eth0_bond_ports="tor1/swp20")
    made = site(hardware)
    heard = [LldpNeighbour("ens1f0", "tor1", "swp9"), LldpNeighbour("ens1f1", "TOR1", "swp20")]
    assert cable_differences(made, {"gpu1": heard}) == ()
    (missing,) = cable_differences(made, {"gpu1": heard[:1]})
    assert missing.what == "gpu1/eth0 isn't seen on port swp20 of tor1"


@pytest.mark.parametrize(
    "interface", ['"x"', '{"e0": null}', '[{"e0": {"via": "LLDP", "chassis": {}, "port": {}}}]']
)
def test_interface_of_another_form_is_reported(interface: str) -> None:
    """In a sentence, not as an exception of Python."""
    with pytest.raises(ValueError, match=r"an interface, chassis or port in it is of another form$"):
        neighbours_of(json.loads(f'{{"lldp": {{"interface": {interface}}}}}'))


def test_neighbour_without_its_protocol_is_reported() -> None:
    """It isn't ignored as a neighbour by CDP is."""
    one = {"chassis": {"tor1": {"id": {"type": "mac", "value": "02:00:00:00:00:01"}}}}
    one |= {"port": {"id": {"type": "ifname", "value": "swp9"}}}
    document = {"lldp": {"interface": {"eno1": one}}}
    with pytest.raises(ValueError, match="no via"):
        neighbours_of(document)
    assert len(neighbours_of({"lldp": {"interface": {"eno1": {**one, "via": "LLDP"}}}})) == 1
    assert neighbours_of({"lldp": {"interface": {"eno1": {**one, "via": "CDPv2"}}}}) == ()


def test_repeated_name_in_json_is_reported(hardware: HardwareList, tmp_path: Path) -> None:
    """Older versions repeat a name for a second neighbour, of which a parser keeps only the last."""
    file = tmp_path / "gpu1.json"
    file.write_text('{"lldp": {"interface": {"eno1": {}, "eno1": {}}}}')
    with pytest.raises(InputErrors, match=r"json0 show neighbors.*a name occurs twice in one object"):
        compare_lldp(site(hardware), [str(file)])
