"""JSON of NetBox, Nautobot and Ironic as hardware lists: recognized by content, read as far as a site has a
field for it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.hardwarelist import SITE
from tests.helpers.netboxserver import Inventory
from weft.app.sitefile import load_site
from weft.cli.main import main
from weft.model.site import Site

UUID = "1be26c0b-03f2-4d2e-ae87-c02d7f33c123"
NAUTOBOT = "https://nautobot.example/api/dcim"
SWITCH, GPU = "5a1f5c68-0d5a-4a43-8d3c-0f3b6e1b0a01", "5a1f5c68-0d5a-4a43-8d3c-0f3b6e1b0a02"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "head.yaml").write_text(SITE)
    return tmp_path


def write(name: str, document: Any) -> str:
    Path(name).write_text(json.dumps(document, indent=1))
    return name


def imported(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, Site | None]:
    """Exit code, output, and the site that was written, if one was."""
    code = main(["site", "import", *arguments, "--site", "head.yaml", "--output", "out"])
    said = capsys.readouterr()
    return code, said.out + said.err, load_site("out/site.yaml") if code == 0 else None


def netbox() -> Inventory:
    box = Inventory()
    mgmt = box.device("mgmt1", "switch", "r1")
    for port in ("Ethernet1", "Ethernet2"):
        box.interface(mgmt, port)
    gpu = box.device("gpu1", "compute", "r1")
    box.interface(gpu, "iDRAC", "2c:ea:7f:00:00:02", "10.3.0.11/24", to=("mgmt1", "Ethernet1"))
    return box


def test_listings_of_netbox_are_read_from_files(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Devices, interfaces and addresses in a file each give the same site as `--netbox`."""
    box = netbox()
    files = [
        write(f"{name}.json", {"count": len(rows), "next": None, "previous": None, "results": rows})
        for name, rows in (
            ("devices", box.devices),
            ("interfaces", box.interfaces),
            ("addresses", box.addresses),
        )
    ]
    code, said, site = imported(capsys, *files)
    assert site is not None, said
    assert [(n.name, n.rack, n.role) for n in site.nodes] == [("gpu1", "r1", "compute")]
    assert [(i.device, i.name, str(i.address), i.switch, i.port) for i in site.interfaces] == [
        ("gpu1", "bmc", "10.3.0.11", "mgmt1", "Ethernet1")
    ]
    assert code == 0


def nautobot(role: Any, status: Any) -> list[dict[str, Any]]:
    """Two devices, their ports and an address, as Nautobot's API lists them with `?depth=1`."""

    def device(number: str, name: str, kind: str) -> dict[str, Any]:
        return {
            "id": number, "object_type": "dcim.device", "display": name, "url": f"{NAUTOBOT}/devices/{number}/",
            "natural_slug": name, "name": name, "role": role(kind), "status": status, "custom_fields": {},
            "rack": {"id": UUID, "object_type": "dcim.rack", "name": "r1"}, "location": {"name": "dc1"},
        }  # fmt: skip

    def interface(number: str, of: str, name: str, **more: Any) -> dict[str, Any]:
        return {
            "id": number, "object_type": "dcim.interface", "url": f"{NAUTOBOT}/interfaces/{number}/", "name": name,
            "device": {"id": of, "object_type": "dcim.device"}, "type": {"value": "1000base-t", "label": "1000BASE-T"},
            "mgmt_only": False, "mac_address": None, "lag": None, "bridge": None, "parent_interface": None,
            "untagged_vlan": None, "cable": None, "connected_endpoint": None, "connected_endpoint_type": None,
            "connected_endpoint_reachable": None, "custom_fields": {}, **more,
        }  # fmt: skip

    far = {
        "id": "p1",
        "object_type": "dcim.interface",
        "name": "Ethernet1",
        "device": {"id": SWITCH, "name": "mgmt1"},
    }
    cabled = {
        "connected_endpoint": far,
        "connected_endpoint_type": "dcim.interface",
        "connected_endpoint_reachable": True,
    }
    address = {
        "id": "a1", "object_type": "ipam.ipaddress", "url": "https://nautobot.example/api/ipam/ip-addresses/a1/",
        "address": "10.3.0.11/24", "status": {"name": "Active"}, "role": None, "dns_name": "",
        "interfaces": [{"id": "b1", "object_type": "dcim.interface"}],
    }  # fmt: skip
    return [
        device(SWITCH, "mgmt1", "Switch"),
        device(GPU, "gpu1", "GPU Node"),
        interface("p1", SWITCH, "Ethernet1"),
        interface("b1", GPU, "iDRAC", mac_address="2C:EA:7F:00:00:02", cable={"id": "c1"}, **cabled),
        address,
    ]


@pytest.mark.parametrize("split", [False, True])
def test_listings_of_nautobot_are_read(folder: Path, capsys: pytest.CaptureFixture[str], split: bool) -> None:
    """In one file or one for each kind; ids are UUIDs, roles and statuses are named, cables have one end."""
    rows = nautobot(lambda kind: {"id": UUID, "name": kind}, {"id": UUID, "name": "Active"})
    parts = [rows[:2], rows[2:4], rows[4:]] if split else [rows]
    files = [write(f"n{i}.json", {"count": len(p), "next": None, "results": p}) for i, p in enumerate(parts)]
    _, said, site = imported(capsys, *files)
    assert site is not None, said
    assert [(n.name, n.role, n.rack) for n in site.nodes] == [("gpu1", "compute", "r1")]
    assert [(i.device, i.name, i.mac, str(i.address), i.switch, i.port) for i in site.interfaces] == [
        ("gpu1", "bmc", "2c:ea:7f:00:00:02", "10.3.0.11", "mgmt1", "Ethernet1")
    ]


def test_devices_of_nautobot_alone_are_read_and_missing_parts_are_named(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without interfaces there are names, roles and racks; planned devices are left out unless asked for."""
    rows = nautobot(lambda kind: {"name": kind}, {"name": "Active"})[:2]
    rows[0] |= {"name": "pdu1", "role": {"name": "PDU"}}
    rows[1]["status"] = {"name": "Planned"}
    file = write("devices.json", rows)
    _, said, site = imported(capsys, file)
    assert site is not None and not site.nodes
    assert "gpu1 has status planned (see --status)" in said
    assert (
        "left out: NetBox, Nautobot: interfaces and cables, since no listing of interfaces was given" in said
    )
    code = main(["site", "import", file, "--site", "head.yaml", "--status", "planned", "--output", "out2"])
    assert code == 0
    assert [n.name for n in load_site("out2/site.yaml").nodes] == ["gpu1"]


NODES = [
    {
        "uuid": UUID, "name": "gpu1", "provision_state": "available", "maintenance": True, "maintenance_reason": "fan",
        "resource_class": "baremetal.h100", "properties": {"cpus": 224, "memory_mb": 2064384},
        "driver_info": {"redfish_address": "https://10.3.0.11:443", "redfish_password": "******"},
        "links": [{"href": "http://ironic/v1/nodes/x", "rel": "self"}],
    },
    {"uuid": UUID.replace("1b", "2b"), "name": None, "provision_state": "manageable", "maintenance": False,
     "resource_class": "baremetal.h100", "driver_info": {"ipmi_address": "10.3.0.12"}},
]  # fmt: skip


@pytest.mark.parametrize("form", ["api", "client", "show"])
def test_nodes_of_ironic_are_read(folder: Path, capsys: pytest.CaptureFixture[str], form: str) -> None:
    """The API's listing, the client's table with titles, and a single node; the resource class gives the kind."""
    titles = {"uuid": "UUID", "name": "Name", "provision_state": "Provisioning State", "maintenance": "Maintenance",
              "resource_class": "Resource Class"}  # fmt: skip
    document: Any = {
        "api": {"nodes": NODES},
        "client": [{titles[k]: v for k, v in n.items() if k in titles} for n in NODES],
        "show": NODES[0],
    }[form]
    _, said, site = imported(capsys, write("nodes.json", document), "--kind", "baremetal.h100=compute")
    assert site is not None, said
    machines = {n.name: (n.machine, n.maintenance) for n in site.nodes}
    reason = "maintenance in Ironic" if form == "client" else "fan"
    unnamed = NODES[1]["uuid"]
    assert machines == {"gpu1": (UUID, reason)} | ({} if form == "show" else {unnamed: (unnamed, None)})
    assert "left out: nodes.json: of Ironic's nodes everything but name, UUID" in said
    lacking = (
        "nodes.json (node 1): the BMC at 10.3.0.11: its MAC address isn't in it (--redfish, --inspection)"
    )
    assert (lacking in said) is (form != "client")


def test_inspection_completes_a_node_of_ironic(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The BMC's MAC address comes from the inspection; a BMC on a network that the site doesn't describe is
    left out."""
    write(
        "gpu1.json",
        {"inventory": {"interfaces": [], "bmc_address": "10.3.0.11", "bmc_mac": "2c:ea:7f:00:00:02"}},
    )
    arguments = (
        write("nodes.json", NODES[:1]),
        "--kind",
        "baremetal.h100=compute",
        "--inspection",
        "gpu1.json",
    )
    _, said, site = imported(capsys, *arguments)
    assert site is not None, said
    assert [(i.device, i.name, i.mac, str(i.address)) for i in site.interfaces] == [
        ("gpu1", "bmc", "2c:ea:7f:00:00:02", "10.3.0.11")
    ]
    Path("head.yaml").write_text(SITE.replace("10.3.0.", "10.4.0."))
    code = main(["site", "import", *arguments, "--site", "head.yaml"])
    assert code == 0
    assert "gpu1's bmc: no network of the site file has the address 10.3.0.11" in capsys.readouterr().out


@pytest.mark.parametrize("address", ["[", "https://[::1", "bmc1.example", 7, ["10.3.0.11"], None])
def test_node_of_ironic_with_another_address_has_no_bmc(
    folder: Path, capsys: pytest.CaptureFixture[str], address: Any
) -> None:
    """A site file has only IPv4 addresses; the node is imported without a BMC."""
    node = NODES[0] | {"driver_info": {"redfish_address": address}}
    _, said, site = imported(capsys, write("node.json", node), "--kind", "baremetal.h100=compute")
    assert site is not None, said
    assert [n.name for n in site.nodes] == ["gpu1"]
    assert "the BMC at" not in said
    assert ("not an IPv4 address" in said) is (address is not None)


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        ({"count": 120, "next": "https://n/api/?offset=50", "results": [{"url": f"{NAUTOBOT}/devices/1/"}]},
         "all pages in one: this is a page of 1 objects of 120 (a larger `limit` gives all)"),
        ({"inventory": {"interfaces": []}, "plugin_data": {}},
         "a hardware list; this is Ironic's inspection data: --inspection reads it"),
        ({"ports": [{"address": "2c:ea:7f:00:00:02", "node_uuid": UUID}]}, "Ironic's nodes; these are its ports"),
        (nautobot(lambda kind: {"id": UUID, "url": "https://n/api/extras/roles/x/"}, None)[:1],
         "its name: save Nautobot's listing with ?depth=1"),
        (nautobot(lambda kind: {"name": kind}, None)[2:4], "a listing of devices too; there are only interfaces"),
        ([{"url": f"{NAUTOBOT}/devices/1/", "name": "gpu1", "role": {"name": "compute"}, "custom_fields": [1]}],
         "devices, interfaces and addresses as NetBox 3.3 or Nautobot (?depth=1) writes them"),
    ],
)  # fmt: skip
def test_json_that_is_not_a_hardware_list_gets_one_sentence(
    folder: Path, capsys: pytest.CaptureFixture[str], document: Any, sentence: str
) -> None:
    """Exit code 2, no file; the sentence says what the JSON is."""
    code, said, _ = imported(capsys, write("saved.json", document))
    assert code == 2
    assert sentence in said
    assert len(said.splitlines()) == 1
    assert not Path("out").exists()


def test_output_of_ibnetdiscover_is_recognised(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("fabric.txt").write_text(
        'switchguid=0x100(100)\nSwitch\t41 "S-0000000000000100"\t# "leaf01" lid 1\n'
    )
    code, said, _ = imported(capsys, "fabric.txt")
    assert code == 2
    assert said.endswith("a hardware list; this is ibnetdiscover's output: --fabric reads it\n")


@pytest.mark.parametrize("wrapped", [False, True])
def test_own_lists_may_be_json(folder: Path, capsys: pytest.CaptureFixture[str], wrapped: bool) -> None:
    """As in YAML: nested interfaces, numbers and booleans as text; errors have the line."""
    rows = [
        {
            "name": "mgmt1",
            "kind": "switch",
            "rack": "r1",
            "ports": ["Ethernet[1-8]"],
            "port_gbps": 1,
            "mtu": 1500,
        },
        {
            "name": "gpu1",
            "kind": "compute",
            "bmc": {"mac": "2c:ea:7f:00:00:02", "address": "10.3.0.11"},
            "rack": None,
        },
    ]
    file = write("list.json", {"hardware": rows} if wrapped else rows)
    _, said, site = imported(capsys, file)
    assert site is not None, said
    assert [(d.name, d.mtu) for d in site.devices] == [("mgmt1", 1500)]
    assert [str(i.address) for i in site.interfaces] == ["10.3.0.11"]
    Path("list.json").write_text(Path("list.json").read_text().replace('"compute"', '"toaster"'))
    line = next(
        i for i, text in enumerate(Path("list.json").read_text().splitlines(), 1) if "toaster" in text
    )
    code = main(["site", "import", "list.json", "--site", "head.yaml"])
    assert code == 2
    assert f"list.json:{line}: kind: 'toaster' is not allowed" in capsys.readouterr().err


@pytest.mark.parametrize("text", ['[{"name": "gpu1", ', "{}", "[]", "[1, 2]", '{"a": {"b": {}}}', "[" * 500])
def test_broken_json_gets_a_sentence_with_its_line(
    folder: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    """Never a traceback, nor hundreds of errors about CSV."""
    Path("broken.json").write_text(text)
    code, said, _ = imported(capsys, "broken.json")
    assert code == 2
    assert "broken.json" in said
    assert len(said.splitlines()) <= 2


def test_list_in_a_pipe_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As from a shell's `<(…)`: a pipe can be read only once."""
    (tmp_path / "head.yaml").write_text(SITE)
    reading, writing = os.pipe()
    os.write(writing, b"name,kind\npdu1,pdu\n")
    os.close(writing)
    try:
        code = main(["site", "import", f"/dev/fd/{reading}", "--site", str(tmp_path / "head.yaml")])
    finally:
        os.close(reading)
    said = capsys.readouterr()
    assert (code, said.err) == (0, "")
    assert "devices 1" in said.out


def test_last_of_several_pages_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It has no `next`, but fewer objects than its count."""
    device = {"id": 5, "url": "https://netbox.example/api/dcim/devices/5/", "name": "gpu05"}
    previous = "https://netbox.example/api/dcim/devices/?limit=1&offset=3"
    file = write("last.json", {"count": 5, "next": None, "previous": previous, "results": [device]})
    code, said, _ = imported(capsys, file)
    assert code == 2
    assert "all pages in one: this is a page of 1 objects of 5" in said


def test_uuid_and_retirement_of_an_ironic_node_are_read(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """UUIDs in capitals are the same; a retired machine isn't assigned."""
    node = NODES[1] | {
        "uuid": UUID.upper(),
        "name": "gpu1",
        "retired": True,
        "retired_reason": "end of lease",
    }
    _, said, site = imported(capsys, write("node.json", node), "--kind", "baremetal.h100=compute")
    assert site is not None, said
    assert [(n.machine, n.maintenance) for n in site.nodes] == [(UUID, "end of lease")]
