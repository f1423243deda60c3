"""Hardware from NetBox: its documented answers, page by page, become the same records as lists."""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.helpers.hardwarelist import SITE
from tests.helpers.netboxserver import TOKEN, Inventory, serving
from weft.cli.main import main
from weft.drivers.netbox import NetBox
from weft.model.errors import InputError, PermanentError, TemporaryError


@pytest.fixture
def inventory() -> Inventory:
    """Two IPU-Machines, a management switch, a ToR, a PDU, a patch panel, and another site's PDU."""
    box = Inventory()
    mgmt = box.device("mgmt1", "switch", "r1")
    for n in range(1, 9):
        box.interface(mgmt, f"Ethernet{n}")
    box.interface(mgmt, "Management1", "28:99:3A:00:00:01", "10.3.0.2/24", mgmt_only=True)
    tor = box.device("tor1", "tor-switch", "r1")
    for n in range(1, 33):
        box.interface(tor, f"Ethernet{n}/1")
    box.interface(
        tor, "Management1", "28:99:3A:00:00:02", "10.3.0.3/24", mgmt_only=True, to=("mgmt1", "Ethernet7")
    )
    box.interface(tor, "Vlan99", type={"value": "virtual", "label": "Virtual"})
    pdu = box.device("pdu1", "pdu", "r1")
    number = box.interface(
        pdu,
        "eth0",
        "00:C0:B7:00:00:01",
        "10.3.0.4/24",
        dns_name="power1.dc.example",
        vlan=99,
        to=("mgmt1", "Ethernet8"),
    )
    box.address(number, pdu, "fd00::4/64")
    for i in (1, 2):
        machine = box.device(f"ipum{i}", "ipu-m2000", "r1", ipu_pod="pod1", position=i, asset="4711")
        box.interface(
            machine, "BMC", f"70:69:79:00:00:0{2 * i}", f"10.1.0.{i}/24", to=("mgmt1", f"Ethernet{2 * i - 1}")
        )
        box.interface(
            machine, "gw", f"70:69:79:00:00:0{2 * i + 1}", f"10.2.0.{i}/24", to=("mgmt1", f"Ethernet{2 * i}")
        )
        box.interface(
            machine,
            "RNIC",
            f"0C:42:A1:00:00:0{i}",
            f"10.5.1.{i}/24",
            speed=100_000_000,
            to=("tor1", f"Ethernet{8 + i}/1"),
        )
    box.device("panel1", "patch-panel", "r1")
    box.device("pdu9", "pdu", "r9", site="dc9")
    return box


@pytest.fixture
def url(inventory: Inventory) -> Iterator[str]:
    with serving(inventory) as url:
        yield url


def test_every_page_of_every_listing_is_read(inventory: Inventory, url: str) -> None:
    """With three objects in a page; only the wanted site's objects are read."""
    records = NetBox(url, TOKEN).records("dc1")
    assert [r.text("name") for r in records] == ["mgmt1", "tor1", "pdu1", "ipum1", "ipum2", "panel1"]
    tor = records[1]
    assert (tor.text("ports") or "").split() == [f"Ethernet{n}/1" for n in range(1, 33)]
    assert tor.text("management1_mac") == "28:99:3A:00:00:02" and "vlan99_mac" not in tor.cells
    assert any("offset=" in asked for asked in inventory.asked)
    assert len(NetBox(url, TOKEN).records()) == 7


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_token_is_not_sent_to_links_in_answers(inventory: Inventory, url: str, scheme: str) -> None:
    """`next` links to another host or port are not followed."""
    with serving(inventory) as other:
        inventory.own_url = other.replace("http", scheme, 1)
        with pytest.raises(PermanentError, match="another place than --netbox") as caught:
            NetBox(url, TOKEN).records()
    assert TOKEN not in str(caught.value)
    assert len(inventory.asked) == 2


def test_url_may_name_its_schemes_default_port(inventory: Inventory, monkeypatch: pytest.MonkeyPatch) -> None:
    """NetBox leaves :443 out of its links; a host's name may be in capitals."""
    asked: list[str] = []

    def answer(_: object, request: Any, **__: object) -> requests.Response:
        asked.append(request.url)
        found = requests.Response()
        found.status_code, found.url = 200, request.url
        following = f"https://netbox.example.com/api/dcim/devices/?offset={len(asked)}"
        results = [
            {"id": len(asked), "url": "https://netbox.example.com/api/dcim/devices/1/", "name": "pdu1"}
        ]
        page = {"count": 3, "next": following if len(asked) < 3 else None, "results": results}
        listing = page if "/devices/" in request.url else {"count": 0, "next": None, "results": []}
        found.raw = BytesIO(json.dumps(listing).encode())
        return found

    monkeypatch.setattr("requests.adapters.HTTPAdapter.send", answer)
    assert len(NetBox("https://NetBox.example.com:443", TOKEN).records()) == 3


def test_chain_of_pages_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each page is empty and links to another one."""
    asked: list[str] = []

    def answer(_: object, request: Any, **__: object) -> requests.Response:
        asked.append(request.url)
        found = requests.Response()
        found.status_code, found.url = 200, request.url
        following = f"https://netbox.example.com/api/dcim/devices/?offset={len(asked)}"
        found.raw = BytesIO(json.dumps({"count": 3, "next": following, "results": []}).encode())
        return found

    monkeypatch.setattr("requests.adapters.HTTPAdapter.send", answer)
    monkeypatch.setattr("weft.drivers.netbox.MOST_PAGES", 20)
    with pytest.raises(PermanentError, match="a page after 20 others"):
        NetBox("https://netbox.example.com", TOKEN).records()
    assert len(asked) == 20


def test_incomplete_listing_is_an_error(inventory: Inventory, url: str) -> None:
    """Devices that were counted but not listed would be missing in the site."""
    inventory.hidden = 2
    with pytest.raises(TemporaryError, match=r"list devices .*: 7 of the 9 it counts"):
        NetBox(url, TOKEN).records()


def imported(url: str, folder: Path) -> list[str]:
    """Run the import of a NetBox, with the rest of the site in a folder."""
    head = folder / "head.yaml"
    return ["site", "import", "--netbox", url, "--netbox-site", "dc1", "--site", str(head)]


def test_errors_name_the_netbox_object(
    inventory: Inventory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two addresses on an interface, a duplicate MAC address, an unknown role: object and field of each."""
    inventory.address(next(i["id"] for i in inventory.interfaces if i["name"] == "eth0"), 3, "10.3.0.9/24")
    inventory.interfaces[-1]["mac_address"] = "0C:42:A1:00:00:01"
    (tmp_path / "head.yaml").write_text(SITE)
    monkeypatch.setenv("NETBOX_TOKEN", TOKEN)
    with serving(inventory) as url:
        words = imported(url, tmp_path)
        assert main(words) == 2
    text = capsys.readouterr().err
    assert "eth0.address: '10.3.0.4 10.3.0.9' is not allowed: an IPv4 address" in text
    assert "RNIC.mac_address: '0c:42:a1:00:00:01' is not allowed: a MAC address must be unique" in text
    assert "role: 'patch-panel' is not allowed: what it is" in text


@pytest.mark.parametrize(
    ("device", "names", "text"),
    [
        ("pdu1", ["Eth-0", "eth_0"], "name of an interface of pdu1: 'eth_0' is not allowed: a name that differs from "
         "'Eth-0' by letters or digits: both are eth_0 here"),
        ("pdu1", ["iDRAC", "IPMI"], "'IPMI' is not allowed: a name that differs from 'iDRAC'"),
        ("pdu1", ["管理"], "name of an interface of pdu1: '管理' is not allowed: a name with Latin "
         "letters or digits"),
    ],
)  # fmt: skip
def test_interface_that_would_be_lost_is_an_error(
    inventory: Inventory, url: str, device: str, names: list[str], text: str
) -> None:
    """Equal or empty names, or several that give one column: device and object are named."""
    number = next(d["id"] for d in inventory.devices if d["name"] == device)
    last = 0
    for n, name in enumerate(names):
        address = f"10.3.0.{50 + n}/24" if device == "pdu1" else None
        last = inventory.interface(number, name, f"02:00:00:00:00:{n:02x}", address)
    with pytest.raises(InputError) as caught:
        NetBox(url, TOKEN).records("dc1")
    assert text in str(caught.value) and f"NetBox interface {last}: " in str(caught.value)


def test_custom_fields_do_not_replace_netboxs_own(inventory: Inventory, url: str) -> None:
    """Name, role and rack are NetBox's fields. `maintenance` as a box: not ticked sets nothing, ticked is refused as
    no reason.
    """
    custom = inventory.devices[2]["custom_fields"]
    custom |= {"name": "x", "hostname": "y", "device_role": "router", "cabinet": "r9", "maintenance": False}
    pdu = NetBox(url, TOKEN).records("dc1")[2]
    assert {c: pdu.text(c) for c in ("name", "kind", "rack", "maintenance")} == {
        "name": "pdu1",
        "kind": "pdu",
        "rack": "r1",
        "maintenance": None,
    }
    custom["maintenance"] = True
    with pytest.raises(InputError, match=r"NetBox device 3: custom_fields\.maintenance: True is not allowed"):
        NetBox(url, TOKEN).records("dc1")


def test_good_netbox_becomes_a_site(
    inventory: Inventory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Written and read back, it has the same machines as a list."""
    (tmp_path / "head.yaml").write_text(SITE)
    monkeypatch.setenv("NETBOX_TOKEN", TOKEN)
    with serving(inventory) as url:
        words = imported(url, tmp_path)
        assert main([*words, "--kind", "patch-panel=", "--json", "--output", str(tmp_path / "out")]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == {
        "interfaces": 3,
        "devices": 3,
        "ipu_machines": 2,
        "racks": 1,
    }
    rows = (tmp_path / "out" / "interfaces.csv").read_text().splitlines()
    assert "pdu1,eth0,infra,00:c0:b7:00:00:01,10.3.0.4,power1,mgmt1,Ethernet8" in rows
    machines = (tmp_path / "out" / "ipu_machines.csv").read_text()
    assert "tor1,9,70:69:79:00:00:02,10.1.0.1,mgmt1,Ethernet1" in machines


@pytest.mark.parametrize(
    ("answer", "kind", "text"),
    [
        ((403, b"{}"), PermanentError, "check NETBOX_TOKEN and its rights"),
        ((400, b'{"site": ["not valid"]}'), PermanentError, "check the name of the site"),
        ((404, b"{}"), TemporaryError, "HTTP 404"),
        ((500, b"oops"), TemporaryError, "HTTP 500"),
        ((200, b"<html>a portal</html>"), PermanentError, "not an answer of NetBox's API"),
        (
            (200, b'{"count": 1, "next": null, "results": [{"display": "half"}]}'),
            PermanentError,
            "not an answer",
        ),
        ((200, b"[1, 2]"), PermanentError, "not an answer"),
        ((200, b"[" * 100_000), PermanentError, "not an answer"),
        ((200, b"[]"), PermanentError, "it shows none; check --netbox-site, and what the token may view"),
        ((200, b'{"count": 0, "next": null, "results": []}'), PermanentError, "it shows none"),
    ],
)
def test_malformed_answers_are_reported(
    inventory: Inventory, url: str, answer: tuple[int, bytes], kind: type[Exception], text: str
) -> None:
    """One sentence that says what to do, without the token."""
    inventory.answer = answer
    with pytest.raises(kind, match=text) as caught:
        NetBox(url, TOKEN).records()
    assert TOKEN not in str(caught.value)


def test_unreachable_netbox_is_reported() -> None:
    """As a temporary error, without a traceback."""
    with pytest.raises(TemporaryError, match="check that it can be reached"):
        NetBox("http://127.0.0.1:9", TOKEN).records()


@pytest.mark.parametrize(
    "wrong",
    [
        "http://netbox.example.com",
        "netbox",
        "https://u:p@netbox.example.com",
        "file:///x",
        "https://netbox.example.com:https",
        "https://[netbox",
    ],
)
def test_token_is_not_sent_to_another_origin(wrong: str) -> None:
    """Only over TLS, or to this machine."""
    with pytest.raises(InputError, match="--netbox"):
        NetBox(wrong, TOKEN)
