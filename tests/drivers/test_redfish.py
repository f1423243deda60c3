"""A host's BMC by Redfish: DMTF's shapes over TLS, read with OpenStack's client."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.helpers.hardwarelist import HardwareList
from weft.app.hardwarelists import read_list
from weft.app.inventories import of_bmcs
from weft.app.siteimport import import_site
from weft.drivers.redfish import discover
from weft.model.errors import InputError, OutsideError, PermanentError, TemporaryError
from weft.model.hardware import Cell, HardwareRecord
from weft.planning.hardware.complete import completed

HERE = "127.0.0.1"
USER, PASSWORD = "reader", "secret-7"


def collection(path: str, *members: str) -> dict[str, Any]:
    return {"@odata.id": path, "Name": "x", "Members": [{"@odata.id": f"{path}/{m}"} for m in members]}


def interface(
    path: str, name: str, mac: str, permanent: str | None = None, address: str | None = None
) -> dict[str, Any]:
    found: dict[str, Any] = {
        "@odata.id": path,
        "Id": name,
        "Name": name,
        "MACAddress": mac,
        "SpeedMbps": 1000,
    }
    return found | {
        "PermanentMACAddress": permanent,
        "IPv4Addresses": [{"Address": address}] if address else [],
    }


def tree() -> dict[str, dict[str, Any]]:
    """A system with two NICs, one of which now has another MAC address, and a manager with two interfaces."""
    root, system, manager = "/redfish/v1", "/redfish/v1/Systems/1", "/redfish/v1/Managers/1"
    found: dict[str, dict[str, Any]] = {
        root: {"@odata.id": root, "Id": "RootService", "Name": "Root", "RedfishVersion": "1.6.0",
               "Systems": {"@odata.id": f"{root}/Systems"}, "Managers": {"@odata.id": f"{root}/Managers"}},
        f"{root}/Systems": collection(f"{root}/Systems", "1"),
        f"{root}/Managers": collection(f"{root}/Managers", "1"),
        system: {"@odata.id": system, "Id": "1", "Name": "System",
                 "EthernetInterfaces": {"@odata.id": f"{system}/EthernetInterfaces"}},
        manager: {"@odata.id": manager, "Id": "1", "Name": "Manager", "ManagerType": "BMC",
                  "EthernetInterfaces": {"@odata.id": f"{manager}/EthernetInterfaces"}},
        f"{system}/EthernetInterfaces": collection(f"{system}/EthernetInterfaces", "NIC.1", "NIC.2"),
        f"{manager}/EthernetInterfaces": collection(f"{manager}/EthernetInterfaces", "eth0", "usb0"),
    }  # fmt: skip
    for path, one in (
        (f"{system}/EthernetInterfaces/NIC.1", ("NIC.1", "2C:EA:7F:00:01:02", None)),
        (f"{system}/EthernetInterfaces/NIC.2", ("NIC.2", "02:00:00:00:00:01", "2C:EA:7F:00:01:03")),
        (f"{manager}/EthernetInterfaces/eth0", ("eth0", "2C:EA:7F:00:00:02", None)),
        (f"{manager}/EthernetInterfaces/usb0", ("usb0", "2C:EA:7F:00:00:03", None)),
    ):
        found[path] = interface(path, *one, address=HERE if path.endswith("eth0") else None)
    return found


@dataclass
class Bmc:
    port: int
    ca: str
    tree: dict[str, dict[str, Any]] = field(default_factory=tree)
    body: bytes | None = None
    """Body of every answer, in place of the true one."""
    asked: list[str] = field(default_factory=list)

    def read(self, password: str = PASSWORD, ca: str | bool | None = None) -> HardwareRecord:
        return discover(HERE, USER, password, self.ca if ca is None else ca, self.port)


@pytest.fixture
def bmc(tmp_path: Path) -> Iterator[Bmc]:
    """A BMC on this machine, with its own certificate."""
    certificate, key = _certificate(tmp_path)
    made = Bmc(0, str(certificate))

    class Handler(BaseHTTPRequestHandler):
        # a connection for each request, since a kept one was sometimes closed under load
        protocol_version = "HTTP/1.0"

        def do_GET(self) -> None:
            made.asked.append(f"GET {self.path}")
            right = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
            document = made.tree.get(self.path.rstrip("/"))
            if self.path.rstrip("/") != "/redfish/v1" and self.headers["Authorization"] != f"Basic {right}":
                self.reply(401, {"error": {}})
            elif document is None:
                self.reply(404, {"error": {}})
            else:
                self.reply(200, document)

        def reply(self, status: int, document: Any) -> None:
            body = json.dumps(document).encode() if made.body is None else made.body
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
            pass

    server = ThreadingHTTPServer((HERE, 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    made.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield made
    server.shutdown()
    server.server_close()
    thread.join()


def _certificate(folder: Path) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "bmc")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=2))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(IPv4Address(HERE))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    files = folder / "bmc.crt", folder / "bmc.key"
    files[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    files[1].write_bytes(key.private_bytes(pem, pkcs8, plain))
    return files


def test_interfaces_are_read_and_nothing_is_changed(bmc: Bmc) -> None:
    """The BMC's own by the address that was asked, the host's by permanent MAC address; only GET is sent."""
    found = {column: cell.text for column, cell in bmc.read().cells.items()}
    assert found == {
        "bmc_address": HERE,
        "bmc_mac": "2C:EA:7F:00:00:02",
        "nic_1_mac": "2C:EA:7F:00:01:02",
        "nic_2_mac": "2C:EA:7F:00:01:03",
    }
    assert bmc.asked and all(line.startswith("GET ") for line in bmc.asked)


def test_wrong_password_is_reported(bmc: Bmc) -> None:
    """With the names of the variables, without their values."""
    with pytest.raises(PermanentError, match="REDFISH_PASSWORD") as caught:
        bmc.read("wrong-9")
    assert "wrong-9" not in str(caught.value)


def test_untrusted_certificate_is_reported(bmc: Bmc) -> None:
    """The connection fails before the password is sent."""
    with pytest.raises(TemporaryError, match="certificate isn't trusted"):
        bmc.read(ca=True)
    assert bmc.asked == []


def test_unreachable_bmc_is_reported() -> None:
    with pytest.raises(TemporaryError, match="no answer"):
        discover(HERE, USER, PASSWORD, True, 9)


def test_bmc_without_interface_lists_is_accepted(bmc: Bmc) -> None:
    """They are optional."""
    for path in ("/redfish/v1/Systems/1", "/redfish/v1/Managers/1"):
        del bmc.tree[path]["EthernetInterfaces"]
    assert set(bmc.read().cells) == {"bmc_address"}


@pytest.mark.parametrize("path", ["/redfish/v1/Systems", "/redfish/v1/Systems/1/EthernetInterfaces/NIC.1"])
def test_malformed_answers_are_reported(bmc: Bmc, path: str) -> None:
    """A missing part or another shape is refused as a whole."""
    bmc.tree[path] = {"Members": "none"}
    with pytest.raises(OutsideError):
        bmc.read()
    del bmc.tree[path]
    with pytest.raises(OutsideError):
        bmc.read()


@pytest.mark.parametrize("body", [b"<html>a portal</html>", b"[" * 100_000])
def test_answers_that_are_not_redfish_are_reported(bmc: Bmc, body: bytes) -> None:
    """For this host; others are still read."""
    bmc.body = body
    with pytest.raises(PermanentError, match=r"not as Redfish describes it .*; check that it is a BMC"):
        bmc.read()


SYSTEM = "/redfish/v1/Systems/1/EthernetInterfaces"


def test_lists_in_pages_are_read_to_the_end(bmc: Bmc) -> None:
    whole = bmc.tree[SYSTEM]
    count = {"Members@odata.count": 2}
    bmc.tree[SYSTEM] = {**whole, **count, "Members": whole["Members"][:1]}
    bmc.tree[SYSTEM]["Members@odata.nextLink"] = f"{SYSTEM}/second"
    bmc.tree[f"{SYSTEM}/second"] = {**whole, **count, "Members": whole["Members"][1:]}
    assert texts(bmc.read()) == {"nic_1_mac": "2C:EA:7F:00:01:02", "nic_2_mac": "2C:EA:7F:00:01:03"}
    bmc.tree[f"{SYSTEM}/second"]["Members@odata.nextLink"] = f"{SYSTEM}/second"
    with pytest.raises(PermanentError, match="interfaces: its next page can't be read"):
        bmc.read()


@pytest.mark.parametrize(
    ("path", "change", "says"),
    [
        (SYSTEM, {"Members@odata.count": 4}, "interfaces: it announces 4, and lists 2"),
        (SYSTEM, {"Members": [{"href": "x"}]}, "interfaces: a member has no @odata.id"),
        (SYSTEM, {"Members": [{"@odata.id": None}]}, "interfaces: a member has no @odata.id"),
        (SYSTEM, {"Members": [{"@odata.id": f"{SYSTEM}/gone"}]}, "interfaces: 1 of 1 aren't there"),
        (
            "/redfish/v1/Systems",
            {"Members": [{"@odata.id": "/redfish/v1/Systems/9"}]},
            "systems: 1 of 1 aren't",
        ),
        ("/redfish/v1/Managers", {"Members@odata.count": 2}, "managers: it announces 2, and lists 1"),
        (SYSTEM, {"Members": [{"@odata.id": f"x{n}"} for n in range(300)]}, "interfaces: more than 256"),
    ],
)
def test_incomplete_list_is_reported(bmc: Bmc, path: str, change: dict[str, Any], says: str) -> None:
    bmc.tree[path] |= change
    with pytest.raises(PermanentError, match=says):
        bmc.read()


@pytest.mark.parametrize(
    "link", ["https://other.example/redfish/v1/x", "//other.example/x", "http://{here}/x"]
)
def test_links_to_other_hosts_are_not_followed(bmc: Bmc, link: str) -> None:
    """They would get weft's user and password."""
    link = link.format(here=f"{HERE}:{bmc.port}")
    bmc.tree[SYSTEM] |= {"Members": [{"@odata.id": link}]}
    with pytest.raises(PermanentError, match="a link leads to another host"):
        bmc.read()


def test_addresses_in_two_spellings_are_one_interface(bmc: Bmc) -> None:
    rows = [{"Ethernet": {"AssociatedMACAddresses": [m]}} for m in ("2c-ea-7f-00-01-02", "2CEA.7F00.0103")]
    with_adapter(bmc, "Slot7", "Ports", *rows, systems=True)
    assert texts(bmc.read()) == {"nic_1_mac": "2C:EA:7F:00:01:02", "nic_2_mac": "2C:EA:7F:00:01:03"}


def renamed(bmc: Bmc, old: str, new: str) -> None:
    """Give an interface of the system another id."""
    path = "/redfish/v1/Systems/1/EthernetInterfaces"
    bmc.tree[f"{path}/{old}"]["Id"] = new


@pytest.mark.parametrize(
    ("first", "second", "text"),
    [
        ("NIC.1", "nic-1", "interface 'nic-1' needs a name that differs from 'NIC.1'"),
        (
            "NIC.1",
            "NIC.1",
            "interface 'NIC.1' needs one MAC address; it has 2C:EA:7F:00:01:02 and 2C:EA:7F:00:01:03",
        ),
        ("NIC.1", "管理", "interface '管理' needs a name with Latin letters or digits"),
    ],
)
def test_interface_that_would_be_lost_is_an_error(bmc: Bmc, first: str, second: str, text: str) -> None:
    """Two with the same name, as on a BMC of two systems, or one without a name."""
    renamed(bmc, "NIC.1", first)
    renamed(bmc, "NIC.2", second)
    with pytest.raises(PermanentError) as caught:
        bmc.read()
    assert text in str(caught.value)


CHASSIS = "/redfish/v1/Chassis"


def with_adapter(
    bmc: Bmc, name: str, collection_of: str, *rows: dict[str, Any], systems: bool = False
) -> None:
    """Add an adapter with ports or functions; the system has its own list of interfaces only with `systems`."""
    path, tree = f"{CHASSIS}/1/NetworkAdapters/{name}", bmc.tree
    tree["/redfish/v1"]["Chassis"] = {"@odata.id": CHASSIS}
    tree[CHASSIS] = collection(CHASSIS, "1")
    tree[f"{CHASSIS}/1"] = {"@odata.id": f"{CHASSIS}/1", "Id": "1", "Name": "x", "ChassisType": "RackMount",
                            "NetworkAdapters": {"@odata.id": f"{CHASSIS}/1/NetworkAdapters"}}  # fmt: skip
    adapters = tree.setdefault(f"{CHASSIS}/1/NetworkAdapters", collection(f"{CHASSIS}/1/NetworkAdapters"))
    adapters["Members"].append({"@odata.id": path})
    inside = f"{path}/{collection_of}"
    tree[path] = {"@odata.id": path, "Id": name, "Name": name, collection_of: {"@odata.id": inside}}
    tree[inside] = collection(inside, *map(str, range(1, len(rows) + 1)))
    for n, row in enumerate(rows, 1):
        tree[f"{inside}/{n}"] = {"@odata.id": f"{inside}/{n}", "Id": str(n), "Name": f"{n}", **row}
    if not systems:
        tree["/redfish/v1/Systems/1"].pop("EthernetInterfaces", None)


def texts(record: HardwareRecord) -> dict[str, str]:
    return {column: cell.text for column, cell in record.cells.items() if not column.startswith("bmc_")}


MACS = "02:00:00:00:0c:01", "02:00:00:00:0c:02"
NODE, PORT = "0002:c903:0030:0100", "0002:c903:0030:0101"


@pytest.mark.parametrize(
    ("kind", "rows"),
    [
        ("Ports", [{"Ethernet": {"AssociatedMACAddresses": [mac]}} for mac in MACS]),
        ("NetworkDeviceFunctions", [{"Ethernet": {"MACAddress": "02:00:00:00:00:09", "PermanentMACAddress": mac}}
                                    for mac in MACS]),
        ("NetworkPorts", [{"AssociatedNetworkAddresses": [mac]} for mac in MACS]),
    ],
)  # fmt: skip
def test_mac_addresses_of_adapters_are_read(bmc: Bmc, kind: str, rows: list[dict[str, Any]]) -> None:
    """Where the system lists no interface. A port is named after its adapter, whose own name is its first port's."""
    with_adapter(bmc, "NIC1", kind, *rows)
    found = bmc.read()
    assert texts(found) == {"nic1_mac": MACS[0], "nic1_1_mac": MACS[0], "nic1_2_mac": MACS[1]}
    assert found.notes == ()


@pytest.mark.parametrize(
    ("kind", "row"),
    [
        ("Ports", {"InfiniBand": {"AssociatedNodeGUIDs": [NODE], "AssociatedPortGUIDs": [PORT]}}),
        ("NetworkDeviceFunctions", {"InfiniBand": {"NodeGUID": "0000:0000:0000:0000", "PermanentNodeGUID": NODE,
                                                   "PermanentPortGUID": PORT}, "Ethernet": {"MACAddress": MACS[0]}}),
    ],
)  # fmt: skip
def test_guids_of_infiniband_adapters_are_read(bmc: Bmc, kind: str, row: dict[str, Any]) -> None:
    """They belong to the list's only adapter without a GUID; with two such adapters they aren't assigned."""
    with_adapter(bmc, "NIC7", kind, row)
    found = bmc.read()
    assert texts(found) == {"nic7_guid": NODE, "nic7_port_guid": PORT}
    given = {c: Cell(t, c, "list:2") for c, t in {"name": "gpu01", "mlx5_0_fabric": "ib"}.items()}
    errors: list[InputError] = []
    (one,) = completed([HardwareRecord("list:2", given)], {"gpu01": found}, errors)
    assert (one.text("mlx5_0_guid"), one.text("mlx5_0_port_guid"), errors) == (NODE, PORT, [])
    given |= {"mlx5_1_fabric": Cell("ib", "mlx5_1_fabric", "list:2")}
    (two,) = completed([HardwareRecord("list:2", given)], {"gpu01": found}, errors)
    assert two.text("mlx5_0_guid") is None
    given["mlx5_1_port_guid"] = Cell("0x0002c90300300101", "mlx5_1_port_guid", "list:2")
    (two,) = completed([HardwareRecord("list:2", given)], {"gpu01": found}, errors)
    assert (two.text("mlx5_0_guid"), two.text("mlx5_1_guid"), errors) == (None, NODE, [])


@pytest.mark.parametrize("nothing", ["00:00:00:00:00:00", "FF-FF-FF-FF-FF-FF", "N/A", "Not Available", ""])
def test_placeholder_in_place_of_a_mac_address_is_ignored(bmc: Bmc, nothing: str) -> None:
    """BMCs write one if they don't know the address: it doesn't contradict the list, and another field is used."""
    nics = "/redfish/v1/Systems/1/EthernetInterfaces"
    bmc.tree[f"{nics}/NIC.1"] |= {"MACAddress": nothing, "PermanentMACAddress": nothing}
    bmc.tree[f"{nics}/NIC.2"] |= {"PermanentMACAddress": nothing}
    with_adapter(bmc, "NIC7", "Ports", {"Ethernet": {"AssociatedMACAddresses": [nothing]}}, systems=True)
    assert texts(bmc.read()) == {"nic_2_mac": "02:00:00:00:00:01"}


@pytest.mark.parametrize("zeros", ["0x0000000000000000", "00:00:00:00:00:00:00:00", "N/A"])
def test_placeholder_in_place_of_a_guid_is_ignored(bmc: Bmc, zeros: str) -> None:
    """Zeros in any form; another field is used."""
    row = {
        "InfiniBand": {
            "PermanentNodeGUID": zeros,
            "NodeGUID": NODE,
            "PermanentPortGUID": zeros,
            "PortGUID": PORT,
        }
    }
    with_adapter(bmc, "NIC7", "NetworkDeviceFunctions", row)
    assert texts(bmc.read()) == {"nic7_guid": NODE, "nic7_port_guid": PORT}


def test_system_interfaces_come_first(bmc: Bmc) -> None:
    """An adapter's port that the system lists is that interface; another one with its name is noted."""
    rows = [{"Ethernet": {"AssociatedMACAddresses": [m]}} for m in ("2c:ea:7f:00:01:02", "02:00:00:00:0c:07")]
    with_adapter(bmc, "NIC", "Ports", *rows, systems=True)
    found = bmc.read()
    assert texts(found) == {"nic_1_mac": "2C:EA:7F:00:01:02", "nic_2_mac": "2C:EA:7F:00:01:03"}
    assert found.notes == (
        f"Redfish at {HERE}: mac 02:00:00:00:0c:07 of NIC_2: the system has another interface of this name",
    )


def test_absent_hardware_is_not_an_interface(bmc: Bmc) -> None:
    """BMCs keep documents for empty slots, with the last hardware's addresses."""
    absent = {"Status": {"State": "Absent"}}
    bmc.tree["/redfish/v1/Systems/1/EthernetInterfaces/NIC.2"] |= absent
    rows: list[dict[str, Any]] = [{"Ethernet": {"AssociatedMACAddresses": [mac]}} for mac in MACS]
    with_adapter(bmc, "OCP", "Ports", rows[0], rows[1] | absent, systems=True)
    with_adapter(bmc, "Slot2", "Ports", rows[1], systems=True)
    bmc.tree[f"{CHASSIS}/1/NetworkAdapters/Slot2"] |= absent
    assert texts(bmc.read()) == {"nic_1_mac": "2C:EA:7F:00:01:02", "ocp_mac": MACS[0]}


def test_missing_bmc_lists_are_noted(bmc: Bmc) -> None:
    """No interface, a missing adapter, and one of another shape; what was read is kept."""
    del bmc.tree["/redfish/v1/Systems/1"]["EthernetInterfaces"]
    assert bmc.read().notes == (f"Redfish at {HERE}: it lists no interface of its host",)
    with_adapter(bmc, "NIC1", "Ports", {"Ethernet": {"AssociatedMACAddresses": [MACS[0]]}})
    adapters = bmc.tree[f"{CHASSIS}/1/NetworkAdapters"]
    adapters["Members"].append({"@odata.id": f"{CHASSIS}/1/NetworkAdapters/NIC2"})
    found = bmc.read()
    assert texts(found) == {"nic1_mac": MACS[0]}
    assert found.notes == (f"Redfish at {HERE}: adapters of chassis 1: 1 of 2 aren't there",)
    bmc.tree[f"{CHASSIS}/1/NetworkAdapters/NIC1/Ports"] = {"Members": "none"}
    assert "ports of adapter NIC1: not as Redfish describes them" in bmc.read().notes[1]


def test_unlisted_mac_address_is_noted(bmc: Bmc) -> None:
    """The list may be wrong, so the BMC's own names are given."""
    with_adapter(bmc, "NIC1", "Ports", {"Ethernet": {"AssociatedMACAddresses": [MACS[0]]}})
    given = {c: Cell(t, c, "list:2") for c, t in {"name": "gpu01", "eno1_mac": "02:00:00:00:0c:99"}.items()}
    notes: list[str] = []
    completed([HardwareRecord("list:2", given)], {"gpu01": bmc.read()}, [], notes)
    what = "gpu01's eno1 (02:00:00:00:0c:99) isn't among the interfaces that it lists"
    assert notes == [f"Redfish at {HERE}: {what}"]


def test_listed_hosts_are_read_and_compared(tmp_path: Path) -> None:
    """Empty fields are filled, differences and silent BMCs are reported."""
    hardware = HardwareList(tmp_path)
    hardware.spoil("gpu1", bmc_mac="")
    hardware.write()
    asked: list[str] = []

    def ask(address: str) -> HardwareRecord:
        asked.append(address)
        if address == "10.3.0.10":
            raise TemporaryError("read interfaces", f"Redfish at {address}", "no answer", "check the address")
        return HardwareRecord(
            "Redfish at it", {"bmc_mac": Cell("2C-EA-7F-00-00-77", "bmc_mac", "Redfish at it")}
        )

    errors: list[InputError] = []
    records = read_list(str(tmp_path / "hardware.csv"), {}, errors)
    records = completed(records, of_bmcs(records, ask, errors), errors)
    assert sorted(asked) == ["10.3.0.10", "10.3.0.11"]  # only hosts: IPU-Machines have no Redfish
    (text,) = errors
    assert str(text).endswith(
        "hardware.csv:8: bmc_address: '10.3.0.10' is not allowed: the address of a BMC that answers (no answer; "
        "check the address)"
    )
    site = import_site(str(tmp_path / "site.yaml"), records).site
    assert next(i.mac for i in site.interfaces if i.device == "gpu1") == "2c:ea:7f:00:00:77"
