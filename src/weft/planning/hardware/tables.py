"""Records of hardware into rows of a site's tables, each value with the cell that it comes from. Pure.

Mistakes that only a list can have are reported here: unknown kinds, columns of other kinds, interfaces without a
network. Values, and what must be unique, are checked with the site.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from weft.model.errors import InputError
from weft.model.hardware import HardwareRecord
from weft.model.ids import NAMES
from weft.model.site import plain_port, port_names
from weft.model.sitefile import csv_columns
from weft.planning.hardware.around import KnownSite
from weft.planning.hardware.cables import Cables
from weft.planning.hardware.columns import ATTRIBUTES, GPU_COLUMNS, PLAIN, interfaces_of, is_full_name
from weft.planning.hardware.gpus import gpu_rows
from weft.planning.hardware.kinds import (
    CABLE,
    FABRIC_SWITCH,
    IPU_MACHINE,
    KINDS,
    HardwareKind,
    is_cable,
    is_host,
    kind_of,
)
from weft.planning.hardware.legs import LEGS, LegColumns
from weft.planning.hardware.network import Finder
from weft.planning.hardware.switches import Switches, listed_ports
from weft.planning.hardware.where import (
    AddressBlock,
    Addresses,
    address_of,
    block_of,
    plain_mac,
    plain_pci,
    several,
)

TableRow = dict[str, str]


@dataclass(slots=True)
class HardwareTables:
    """Rows made of records, and the cells that their values come from.

    Attributes:
        rows: table -> rows.
        origins: (table, index) -> number of the record; (table, index, field) -> number of the record, and the
            column.
        given: (interface, address) of the addresses that weft chose.
    """

    rows: dict[str, list[TableRow]] = field(default_factory=dict)
    origins: dict[tuple[str | int, ...], tuple[int, str]] = field(default_factory=dict)
    given: list[tuple[str, str]] = field(default_factory=list)

    def add(self, table: str, record: int, values: Mapping[str, tuple[str | None, str]]) -> None:
        """Add a row. Args: values: field -> text, and its column in the list."""
        rows = self.rows.setdefault(table, [])
        place = (table, len(rows))
        self.origins[place] = (record, "")
        for name, (_, column) in values.items():
            self.origins[(*place, name)] = (record, column)
        rows.append({name: text for name, (text, _) in values.items() if text is not None})


def tables_of(
    records: Sequence[HardwareRecord], around: KnownSite, errors: list[InputError]
) -> HardwareTables:
    """The rows; problems are added to `errors`, and a value with one is left out or kept as it is."""
    return _TablesBuilder(records, around, errors).read()


class _TablesBuilder:
    def __init__(
        self, records: Sequence[HardwareRecord], around: KnownSite, errors: list[InputError]
    ) -> None:
        self._records, self._around, self._errors = records, around, errors
        self._tables = HardwareTables()
        self._addresses = Addresses()
        self._types: dict[str, str] = {}
        self._switches = Switches(records)
        hosts = frozenset(r.text("name") or "" for r in records if is_host(r))
        self._cables = Cables(hosts, self._switches.find, self._wrong)
        self._legs = LegColumns(records, around.networks, self._wrong, self._give)
        for record in records:
            self._addresses.note(c.text for name, c in record.cells.items() if name.endswith("_address"))

    def read(self) -> HardwareTables:
        for number, record in enumerate(self._records):
            self._record(number, record)
        if self._around.racks is None:
            self._racks()
        return self._tables

    def _racks(self) -> None:
        seen: set[str] = set()
        for number, record in enumerate(self._records):
            rack = record.text("rack")
            if rack is not None and rack not in seen:
                seen.add(rack)
                self._tables.add("racks", number, {"name": (rack, "rack")})

    def _wrong(self, record: HardwareRecord, column: str, value: str | None, allowed: str) -> None:
        cell = record.cells.get(column)
        where = cell.place if cell else record.place
        self._errors.append(InputError(cell.column if cell else column, value, allowed, where))

    def _record(self, number: int, record: HardwareRecord) -> None:
        written = record.text("kind")
        name = record.text("name")
        if is_cable(record):
            self._cable(number, record)
            return
        if name is None:
            self._wrong(record, "name", None, f"name of the hardware: {NAMES}")
        kind_name = kind_of(written) if written is not None else None
        if kind_name is None:
            self._wrong(record, "kind", written, f"what it is: {', '.join(KINDS)}")
        if name is None or kind_name is None:
            return
        kind = KINDS[kind_name]
        if kind_name == "switch" and record.text("fabric") is not None:
            kind = FABRIC_SWITCH
        values = self._plain(record, name, kind, kind_name)
        for interface in sorted(interfaces_of(record.cells) | self._without_mac(record)):
            self._interface(number, record, name, kind, interface, values)
        self._tables.add(kind.table, number, values)
        for gpu in gpu_rows(record, name, self._wrong) if kind.table == "nodes" else ():
            self._tables.add("accelerators", number, gpu)
        if (gpu_type := record.text("gpu_type")) is not None:
            written = self._types.setdefault(gpu_type.casefold(), gpu_type)
            if written != gpu_type:
                self._wrong(
                    record, "gpu_type", gpu_type, f"{written}, as other rows write it: orders name one type"
                )

    def _cable(self, number: int, record: HardwareRecord) -> None:
        for column, cell in record.cells.items():
            if column not in CABLE.columns:
                self._wrong(record, column, cell.text, f"none: a cable has no {column}")
        if (values := self._cables.of_row(record)) is not None:
            self._tables.add("links", number, values)

    def _plain(
        self, record: HardwareRecord, name: str, kind: HardwareKind, kind_name: str
    ) -> dict[str, tuple[str | None, str]]:
        """Values of the record that describe the hardware itself, not an interface of it."""
        values: dict[str, tuple[str | None, str]] = {k: (v, "kind") for k, v in kind.fixed.items()}
        for column, cell in record.cells.items():
            if column not in PLAIN or column == "kind":
                continue
            if column in GPU_COLUMNS and column in kind.columns:
                continue  # rows of their own
            if column in kind.columns:
                text = self._ports(record, cell.text, kind) if column == "ports" else cell.text
                values[column] = (text, cell.column)
            else:
                self._wrong(
                    record, column, cell.text, f"none: {name} is of kind {kind_name}, which has no {column}"
                )
        pods = self._around.ipu_pods
        needs_pod = kind is IPU_MACHINE or kind_name == "poplar"
        if needs_pod and "ipu_pod" not in values and len(pods) == 1:
            values["ipu_pod"] = (next(iter(pods)), "ipu_pod")
        return values

    def _ports(self, record: HardwareRecord, ports: str, kind: HardwareKind) -> str | None:
        """Names of a switch's ports; of a fabric's switch how many it has, which the list may name."""
        counted = kind is FABRIC_SWITCH
        if counted and ports.isdecimal():
            return ports
        try:
            names = listed_ports(ports)
            return str(len(port_names(tuple(names.split())))) if counted else names
        except ValueError as error:
            self._wrong(record, "ports", ports, f"a number, or {error}" if counted else str(error))
            return None

    def _without_mac(self, record: HardwareRecord) -> set[str]:
        """Interfaces that the row describes without their MAC address."""
        found: set[str] = set()
        for column in record.cells:
            if column in PLAIN:
                continue
            attribute = max((a for a in ATTRIBUTES if column.endswith(f"_{a}")), key=len, default=None)
            if (
                attribute is not None
                and f"{(interface := column[: -len(attribute) - 1])}_mac" not in record.cells
            ):
                found.add(interface)
        return found

    def _interface(
        self,
        number: int,
        record: HardwareRecord,
        name: str,
        kind: HardwareKind,
        interface: str,
        row: dict[str, tuple[str | None, str]],
    ) -> None:
        cells = {a: c for a in ATTRIBUTES if (c := record.cells.get(f"{interface}_{a}"))}
        texts = {a: c.text for a, c in cells.items()}
        if "switch" in texts:
            texts["switch"] = self._switches.find(texts["switch"])
        if "bond_ports" in texts:
            ends = (end.partition("/") for end in several(texts["bond_ports"]))
            texts["bond_ports"] = " ".join(
                f"{self._switches.find(switch)}/{port}" for switch, _, port in ends
            )
        if "switch" in texts and "port" in texts:  # tor1 and tor1/Ethernet7
            begin, _, rest = texts["port"].partition("/")
            texts["port"] = rest if rest and self._switches.find(begin) == texts["switch"] else texts["port"]
        if "dns_name" in cells and is_full_name(cells["dns_name"].column):
            texts["dns_name"] = texts["dns_name"].partition(".")[0]
        if kind is IPU_MACHINE and interface in LEGS:
            pod = self._around.ipu_pods.get(row.get("ipu_pod", (None, ""))[0] or "")
            row |= self._legs.columns(record, name, interface, _normal(texts), pod)
            return
        if "fabric" not in texts and self._around.fabric_without_macs is not None and _is_infiniband(texts):
            texts["fabric"] = self._around.fabric_without_macs
        if "mac" not in cells and not _is_infiniband(texts):
            what = ", ".join(sorted(cells))
            column, said = ("mac", "MAC address")
            if "pci" in cells:
                column, said = ("port_guid", "port GUID (InfiniBand) or MAC address")
            allowed = f"{said} of {name}'s interface {interface}, of which the row says: {what}"
            self._wrong(record, f"{interface}_{column}", None, allowed)
            return
        columns = {a: c.column for a, c in cells.items()}
        if "fabric" in texts:
            self._adapter(number, record, name, kind, interface, _normal(texts), columns)
        elif of_adapter := sorted({"guid", "port_guid", "pci"} & texts.keys()):
            allowed = (
                f"fabric of {name}'s adapter {interface}, of which the row says: {', '.join(of_adapter)}"
            )
            self._wrong(record, f"{interface}_fabric", None, allowed)
        else:
            self._plugged(number, record, name, interface, _normal(texts), columns)

    def _adapter(
        self,
        number: int,
        record: HardwareRecord,
        name: str,
        kind: HardwareKind,
        interface: str,
        texts: dict[str, str],
        columns: dict[str, str],
    ) -> None:
        """A host's adapter on a fabric."""
        if kind.table != "nodes":
            allowed = f"none: only hosts have adapters on a fabric, and {name} isn't one"
            self._wrong(record, f"{interface}_fabric", texts["fabric"], allowed)
            return
        for attribute in ("bond_macs", "bond_ports"):
            if attribute in texts:
                allowed = "none: bonds of adapters on a fabric are in the site file (bond_pci, bundles)"
                self._wrong(record, f"{interface}_{attribute}", texts[attribute], allowed)
        for attribute in ("address", "dns_name", "network", "vlan"):
            if attribute in texts:
                allowed = (
                    f"none: {interface} is an adapter on fabric {texts['fabric']}, where pods get theirs"
                )
                self._wrong(record, f"{interface}_{attribute}", texts[attribute], allowed)
        values: dict[str, tuple[str | None, str]] = {
            "node": (name, "name"),
            "name": (interface, f"{interface}_mac"),
        }
        for attribute in ("fabric", "guid", "port_guid", "pci", "mac", "rate_gbps"):
            values[attribute] = (texts.get(attribute), columns.get(attribute, f"{interface}_{attribute}"))
        if "switch" in texts and "port" in texts and texts["fabric"] in self._around.discoverable:
            cable = self._cables.of_adapter(record, f"{name}/{interface}", interface, texts["switch"])
            if cable is not None:
                self._tables.add("links", number, cable)
        elif "switch" in texts and "port" in texts:
            values["switch_port"] = (f"{texts['switch']}/{texts['port']}", columns["port"])
        elif "switch" in texts or "port" in texts:
            lacking = "port" if "switch" in texts else "switch"
            self._wrong(record, f"{interface}_{lacking}", None, "switch and port are given together")
        self._tables.add("hcas", number, values)

    def _plugged(
        self,
        number: int,
        record: HardwareRecord,
        name: str,
        interface: str,
        texts: dict[str, str],
        columns: dict[str, str],
    ) -> None:
        """An interface on one of the site's own networks."""
        network, subnet = Finder(self._around.networks, record, interface, self._wrong).find(name, texts)
        if network is None:
            return
        if "address" not in texts:
            one = self._around.networks[network]
            names = [subnet] if subnet else sorted(one.subnets)
            if len(names) > 1:
                listed = ", ".join(f"{network}/{n}" for n in names)
                allowed = f"an address, or a subnet in {interface}_network: {listed}"
                self._wrong(record, f"{interface}_address", None, allowed)
                return
            self._give(
                record, f"{name}/{interface}", f"{interface}_address", texts, network, block_of(one, names[0])
            )
        values: dict[str, tuple[str | None, str]] = {
            "device": (name, "name"),
            "name": (interface, f"{interface}_mac"),
        }
        values["network"] = (network, columns.get("network", f"{interface}_network"))
        for attribute in (
            "mac",
            "address",
            "dns_name",
            "switch",
            "port",
            "rate_gbps",
            "bond_macs",
            "bond_ports",
        ):
            if attribute.startswith("bond_") and attribute not in texts:
                continue
            values[attribute] = (texts.get(attribute), columns.get(attribute, f"{interface}_{attribute}"))
        self._tables.add("interfaces", number, values)

    def _give(
        self,
        record: HardwareRecord,
        owner: str,
        column: str,
        texts: dict[str, str],
        of: str,
        block: AddressBlock,
    ) -> None:
        address = self._addresses.take(block)
        if address is None:
            self._wrong(record, column, None, f"an address, since {of} has no free one left")
            return
        texts["address"] = address
        self._tables.given.append((owner, address))


def _normal(texts: Mapping[str, str]) -> dict[str, str]:
    """The texts with MAC and IP addresses as the site file writes them."""
    found = dict(texts)
    if "mac" in found:
        found["mac"] = plain_mac(found["mac"])
    if "bond_macs" in found:
        found["bond_macs"] = " ".join(map(plain_mac, several(found["bond_macs"])))
    if "pci" in found:
        found["pci"] = plain_pci(found["pci"])
    if (address := address_of(found.get("address"))) is not None:
        found["address"] = str(address)
    if "port" in found:
        found["port"] = plain_port(found["port"])
    return found


def _is_infiniband(texts: Mapping[str, str]) -> bool:
    """Whether it is an InfiniBand adapter: it has a GUID and no MAC address."""
    return "mac" not in texts and bool({"guid", "port_guid"} & texts.keys())


def columns_in(table: str) -> tuple[str, ...]:
    """Columns of a table's file, in the order in which people read them."""
    first = {"hcas": ("node",), "accelerators": ("node",)}.get(table, ())
    return (*first, *(c for c in csv_columns(table) if c not in first))
