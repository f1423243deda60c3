"""Addresses of virtual functions that the site defines: each function has its own, and no adapter has it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from weft.app.sitefile import load_site
from weft.model.errors import InputErrors
from weft.planning.fabric.functions import guid_of, mac_of
from weft.planning.site.nodeparts import check_parts_of_nodes
from weftlab.layout import Layout
from weftlab.site import make_site, settings

BASE = "02:00:00:00:00:10"
LAB = make_site(settings(nodes=8, leaves=2, hcas=1), Layout(Path("/nowhere"), Path("/nowhere"), 23000))
SITE = LAB.model_copy(update={"nodes": tuple(n for n in LAB.nodes if n.hcas)})


def found(*hcas: dict[str, Any]) -> list[tuple[str, object, str]]:
    """What is wrong if the first nodes' adapters have these fields: place, value, what is allowed."""
    nodes = [
        n.model_copy(update={"hcas": (n.hcas[0].model_copy(update=more),)})
        for n, more in zip(SITE.nodes, (*hcas, *({},) * len(SITE.nodes)), strict=False)
    ]
    site = SITE.model_copy(update={"nodes": tuple(nodes)})
    return [(".".join(map(str, path)), value, said) for path, value, said in check_parts_of_nodes(site)]


def test_function_addresses_count_up_from_the_first() -> None:
    """Their GUIDs are the MAC addresses with two zero bytes in the middle."""
    hca = SITE.nodes[0].hcas[0].model_copy(update={"vf_mac": BASE, "vfs": 8})
    assert [mac_of(hca, i) for i in (0, 3)] == [BASE, "02:00:00:00:00:13"]
    assert guid_of(mac_of(hca, 3)) == 0x0200000000000013
    high = hca.model_copy(update={"vf_mac": "02:00:00:ff:ff:ff"})
    assert mac_of(high, 1) == "02:00:01:00:00:00" and guid_of(mac_of(high, 1)) == 0x0200010000000000


def test_adjacent_blocks_are_accepted() -> None:
    """The last address of one block directly precedes the first of the other."""
    assert found({"vf_mac": BASE, "vfs": 8}, {"vf_mac": "02:00:00:00:00:18", "vfs": 8}, {"vfs": 8}) == []


@pytest.mark.parametrize("first", [BASE, "02:00:00:00:00:17", "02:00:00:00:00:09"])
def test_overlapping_blocks_are_refused(first: str) -> None:
    """By one address at either end; the error names the later block and the owner of the earlier one."""
    [(place, value, said)] = found({"vf_mac": BASE, "vfs": 8}, {"vf_mac": first, "vfs": 8})
    later = 0 if first < BASE else 1
    assert place == f"nodes.{later}.hcas.0.vf_mac" and value == (BASE if later == 0 else first)
    names = [n.name for n in SITE.nodes[:2]]
    assert f"functions of {names[later]}/" in said and f"some of {names[1 - later]}/" in said


@pytest.mark.parametrize("last", ["02:00:00:00:00:10", "02:00:00:00:00:17"])
def test_adapter_mac_inside_a_block_is_refused(last: str) -> None:
    """Another node's Ethernet adapter, at either end of the block."""
    [(place, value, said)] = found({"vf_mac": BASE, "vfs": 8}, {"mac": last})
    assert (place, value) == ("nodes.0.hcas.0.vf_mac", BASE) and last in said and "adapter" in said


@pytest.mark.parametrize("field", ["guid", "port_guid"])
def test_adapter_guid_equal_to_a_functions_is_refused(field: str) -> None:
    """A function's GUID follows from its MAC address."""
    [(place, _, said)] = found({"vf_mac": BASE, "vfs": 8}, {field: 0x0200000000000015})
    assert place == "nodes.0.hcas.0.vf_mac" and "02:00:00:00:00:15" in said
    assert found({"vf_mac": BASE, "vfs": 8}, {field: 0x0200000000000018}) == []
    assert found({"vf_mac": BASE, "vfs": 8}, {field: 0x0200000001000015}) == []


@pytest.mark.parametrize(
    "first", ["01:00:00:00:00:10", "03:00:00:00:00:10", "00:ff:ff:ff:ff:f9", "fe:ff:ff:ff:ff:f9"]
)
def test_invalid_function_addresses_are_refused(first: str) -> None:
    """Multicast addresses, all of a block or only the last."""
    [(place, value, said)] = found({"vf_mac": first, "vfs": 8})
    assert (place, value) == ("nodes.0.hcas.0.vf_mac", first) and "unicast" in said and "8 addresses" in said


def test_last_addresses_before_multicast_are_accepted() -> None:
    assert found({"vf_mac": "fe:ff:ff:ff:ff:f8", "vfs": 8}) == []


@pytest.mark.parametrize(("field", "value"), [("vf_mac", BASE), ("vf_pci", "0000:17:00.1")])
def test_addresses_without_functions_are_refused(field: str, value: str) -> None:
    [(place, wrong, said)] = found({field: value, "vfs": 0})
    assert (place, wrong) == (f"nodes.0.hcas.0.{field}", value) and "no virtual functions" in said


def test_site_file_error_names_the_field(tmp_path: Path) -> None:
    """As the file spells it; no part of the file is accepted."""
    document = LAB.model_dump(mode="json", exclude_none=True)
    row = next(n for n in document["nodes"] if n.get("hcas"))
    row["hcas"][0] |= {"vf_mac": "01:00:00:00:00:10", "vfs": 8}
    path = tmp_path / "site.yaml"
    path.write_text(yaml.safe_dump(document))
    with pytest.raises(InputErrors, match=r"vf_mac: '01:00:00:00:00:10' .*unicast"):
        load_site(path)
    row["hcas"][0]["vf_mac"] = "not an address"
    path.write_text(yaml.safe_dump(document))
    with pytest.raises(InputErrors, match=r"vf_mac: 'not an address'"):
        load_site(path)
