"""Fields of NetBox and Nautobot as sites use them: equal rack names, selections, MAC addresses, roles."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.drivers.test_netbox_left_out import read, texts
from tests.helpers.hardwarelist import SITE
from tests.helpers.netboxserver import Inventory
from weft.app.sitefile import load_site
from weft.cli.main import main
from weft.drivers.nautobot import as_netbox


def rack(number: int, name: str, **where: Any) -> dict[str, Any]:
    return {"rack": {"id": number, "name": name}, **where}


def racks_of(*fields: dict[str, Any]) -> tuple[list[str | None], list[str]]:
    """The racks of devices with these fields, and what was left out."""
    box = Inventory()
    for number, some in enumerate(fields):
        box.device(f"gpu{number}", "compute")
        box.devices[-1] |= some
    found, left_out = read(box)
    return [record.text("rack") for record in found.values()], left_out


def test_racks_of_one_name_in_two_rooms_stay_two() -> None:
    """A rack's name is unique only in its location, and two racks are two failure domains."""
    rooms = [{"location": {"slug": f"room-{n}"}} for n in (1, 2)]
    found, left_out = racks_of(
        rack(5, "R01", **rooms[0]), rack(9, "R01", **rooms[1]), rack(5, "R01", **rooms[0])
    )
    assert found == ["room-1-R01", "room-2-R01", "room-1-R01"]
    assert left_out == [
        "NetBox racks: 'R01' as a name, since 2 racks have it: here they are room-1-R01, room-2-R01"
    ]


def test_racks_of_one_name_at_two_sites_stay_two() -> None:
    """Without locations sites distinguish them; without either their ids do."""
    sites = [{"site": {"id": n, "slug": f"dc{n}", "name": f"DC {n}"}} for n in (1, 2)]
    assert racks_of(rack(5, "A 1", **sites[0]), rack(9, "a-1", **sites[1]))[0] == ["dc1-A-1", "dc2-a-1"]
    assert racks_of(rack(5, "A1", **sites[0]), rack(9, "A1", **sites[0]))[0] == ["A1-5", "A1-9"]


@pytest.mark.parametrize(
    ("written", "here"), [("Row A / 12", "Row-A-12"), ("R\u00fcck 1", "R-ck-1"), ("#12", "12")]
)
def test_other_characters_in_a_rack_name_are_replaced(written: str, here: str) -> None:
    """As in port names: a blank in a name doesn't refuse the whole import."""
    assert racks_of(rack(5, written))[0] == [here]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (["0000:07:00.0", "0000:08:00.0"], "0000:07:00.0 0000:08:00.0"),
        ({"value": "0000:07:00.0", "label": "first"}, "0000:07:00.0"),
        ([{"id": 3, "name": "0000:07:00.0"}], "0000:07:00.0"),
    ],
)
def test_selected_values_of_custom_fields_are_read(value: Any, text: str) -> None:
    """Several values, one with a label, an object: each is read."""
    box = Inventory()
    box.device("gpu1", "compute", gpu_type="h100", gpu_pci=value)
    [record], _ = read(box)[0].values(), None
    assert texts(record) == {"gpu_type": "h100", "gpu_pci": text}


def test_custom_field_of_another_purpose_is_left_out() -> None:
    """NetBox has the same custom fields for all roles; here `source` is a supplier, `position` a label's."""
    box = Inventory()
    box.device("gpu1", "compute", source="reseller", position=3.0, cloud="main")
    found, left_out = read(box)
    assert texts(found["gpu1"]) == {"cloud": "main"}
    assert left_out == [
        "NetBox device 1: custom fields of gpu1 that its kind has no column for: source, position"
    ]


def test_whole_decimal_is_a_number_without_a_point() -> None:
    """NetBox's decimal fields have the form 3.0."""
    box = Inventory()
    box.device("ipum1", "ipu-machine", position=3.0)
    assert texts(read(box)[0]["ipum1"]) == {"position": "3"}


@pytest.mark.parametrize(
    "more",
    [
        {"primary_mac_address": {"id": 1, "mac_address": "2C:EA:7F:00:00:02"}},
        {"primary_mac_address": None, "mac_addresses": [{"id": 1, "mac_address": "2C:EA:7F:00:00:02"}]},
    ],
)
def test_mac_address_of_netbox_4_2_is_read(more: dict[str, Any]) -> None:
    """The primary one, or the only one, if the field of older versions is empty."""
    box = Inventory()
    box.interface(box.device("gpu1", "compute"), "iDRAC", None, "10.3.0.11/24", **more)
    assert texts(read(box)[0]["gpu1"])["bmc_mac"] == "2C:EA:7F:00:00:02"


@pytest.mark.parametrize("role", [{"value": "vip", "label": "VIP"}, {"id": "r1", "name": "VIP"}])
def test_shared_addresses_in_files_are_left_out(
    role: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An address's role is a choice in NetBox and Nautobot 1, an object in Nautobot 2."""
    monkeypatch.chdir(tmp_path)
    box = Inventory()
    number = box.interface(box.device("gpu1", "compute"), "iDRAC", "2C:EA:7F:00:00:02", "10.3.0.11/24")
    box.address(number, 1, "10.3.0.99/24")
    box.addresses[-1]["role"] = role
    Path("head.yaml").write_text(SITE)
    Path("all.json").write_text(json.dumps([*box.devices, *box.interfaces, *box.addresses]))
    assert main(["site", "import", "all.json", "--site", "head.yaml", "--output", "out"]) == 0
    assert "10.3.0.99/24 of gpu1's iDRAC has role vip" in capsys.readouterr().out
    assert [str(i.address) for i in load_site("out/site.yaml").interfaces] == ["10.3.0.11"]


def test_role_without_a_slug_gets_one_made_of_its_name() -> None:
    """As Nautobot's objects have none."""
    url = "https://nautobot.example/api/dcim/devices/1/"
    assert as_netbox({"url": url, "role": {"name": "GPU Node"}})["role"]["slug"] == "gpu-node"


def test_objects_of_devices_that_no_file_has_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Listings of several sites, or the wrong site's pages: what isn't used is reported."""
    monkeypatch.chdir(tmp_path)
    box = Inventory()
    box.interface(box.device("gpu1", "compute"), "iDRAC", "2C:EA:7F:00:00:02", "10.3.0.11/24")
    box.interface(box.device("gpu2", "compute"), "iDRAC", "2C:EA:7F:00:00:03", "10.3.0.12/24")
    Path("head.yaml").write_text(SITE)
    Path("all.json").write_text(json.dumps([box.devices[0], *box.interfaces, *box.addresses]))
    assert main(["site", "import", "all.json", "--site", "head.yaml"]) == 0
    assert "1 interfaces of devices that the files don't have" in capsys.readouterr().out
    Path("all.json").write_text(json.dumps([box.devices[0], box.interfaces[0], *box.addresses]))
    assert main(["site", "import", "all.json", "--site", "head.yaml"]) == 0
    assert "1 addresses of interfaces that the files don't have" in capsys.readouterr().out


def test_other_objects_are_refused_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A listing of racks isn't a hardware list with unknown columns."""
    monkeypatch.chdir(tmp_path)
    Path("head.yaml").write_text(SITE)
    racks = {"count": 1, "next": None, "results": [{"url": "http://netbox/api/dcim/racks/1/", "name": "r1"}]}
    Path("racks.json").write_text(json.dumps(racks))
    assert main(["site", "import", "racks.json", "--site", "head.yaml"]) == 2
    assert "devices, interfaces and ip-addresses; this has other objects" in capsys.readouterr().err
