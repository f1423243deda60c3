"""The three interfaces of an IPU-Machine in a list: columns of its own row of the site. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from weft.model.hardware import HardwareRecord
from weft.model.site import IpuPod, SiteNetwork, host_label
from weft.planning.hardware.network import Wrong
from weft.planning.hardware.switches import ports_of
from weft.planning.hardware.where import AddressBlock, leg_of, vlans_of

LEGS = ("bmc", "gw", "rnic")
"""Interfaces that every IPU-Machine has."""

Give = Callable[[HardwareRecord, str, str, dict[str, str], str, AddressBlock], None]
"""Adds a free address to the texts. Takes the record, interface, column, texts, a name of the block for errors, and the
block."""


class LegColumns:
    """Makes the columns of IPU-Machines' interfaces.

    Args:
        records: the whole list: its switches say what their ports are called, and how fast they are.
    """

    def __init__(
        self, records: Sequence[HardwareRecord], networks: Mapping[str, SiteNetwork], wrong: Wrong, give: Give
    ) -> None:
        self._networks, self._wrong, self._give = networks, wrong, give
        rates = {r.text("name") or "": number_of(r.text("port_gbps")) for r in records}
        self._rates = {name: rate for name, rate in rates.items() if rate is not None}
        self._ports = {name: ports for r in records if (name := r.text("name")) and (ports := ports_of(r))}

    def columns(
        self, record: HardwareRecord, name: str, leg: str, texts: dict[str, str], pod: IpuPod | None
    ) -> dict[str, tuple[str | None, str]]:
        """Field -> text, and its column in the list.

        Args:
            name: of the machine.
            texts: attribute -> text.
            pod: None: unknown, which is reported elsewhere.
        """
        for attribute in ("fabric", "guid", "port_guid", "pci", "network", "bond_macs", "bond_ports"):
            if attribute in texts:
                allowed = f"none: the {leg} of an IPU-Machine is on its IPU-POD's network"
                self._wrong(record, f"{leg}_{attribute}", texts[attribute], allowed)
        implied = host_label(name, leg)
        if texts.get("dns_name", implied).lower() != implied:
            allowed = f"{implied}: names of an IPU-Machine's interfaces are made of its own"
            self._wrong(record, f"{leg}_dns_name", texts["dns_name"], allowed)
        self._rate(record, leg, texts)
        if pod is not None:
            self._vlan(record, leg, texts, pod)
            if "address" not in texts:
                block = leg_of(pod, leg, self._networks)
                self._give(record, f"{name}/{leg}", f"{leg}_address", texts, str(block.addresses), block)
        row: dict[str, tuple[str | None, str]] = {}
        if leg == "rnic" and "port" in texts:
            given, switch = texts["port"], texts.get("switch")
            texts["port"] = self._number(record, switch, given)
            if (
                pod is not None and pod.data.fabric is not None
            ):  # its driver knows ports by the vendor's names
                row["rnic_switch_port"] = (self._name(record, switch, given), "rnic_port")
        for attribute in ("mac", "address", "switch", "port"):
            column = f"{leg}_{attribute}"
            cell = record.cells.get(column)
            row[column] = (texts.get(attribute), cell.column if cell else column)
        return row

    def _rate(self, record: HardwareRecord, leg: str, texts: dict[str, str]) -> None:
        """Check the list's rate against its switch: the site's row has none."""
        asked, most = number_of(texts.get("rate_gbps")), self._rates.get(texts.get("switch", ""))
        if "rate_gbps" in texts and asked is None:
            self._wrong(record, f"{leg}_rate_gbps", texts["rate_gbps"], "a number")
        elif asked is not None and most is not None and asked > most:
            allowed = f"at most {most:g}, the rate of the ports of {texts['switch']}"
            self._wrong(record, f"{leg}_rate_gbps", texts["rate_gbps"], allowed)

    def _number(self, record: HardwareRecord, switch: str | None, port: str) -> str:
        """The number of a switch's port, which the list may name as the vendor does."""
        if port.isdecimal() or switch is None:
            return port
        names = self._ports.get(switch)
        if names is None:
            listed = ", ".join(sorted(self._ports)) or "it has none"
            allowed = f"the port's number; or its name, on a switch of the list with its ports: {listed}"
        elif port in names:
            return str(names.index(port) + 1)
        else:
            allowed = f"a port of {switch}: {names[0]} to {names[-1]}, or 1 to {len(names)}"
        self._wrong(record, "rnic_port", port, allowed)
        return port

    def _name(self, record: HardwareRecord, switch: str | None, port: str) -> str | None:
        """The vendor's name of a switch's port, which the list may number."""
        names = self._ports.get(switch or "")
        if not port.isdecimal():
            return port
        if names is None:
            listed = ", ".join(sorted(self._ports)) or "it has none"
            allowed = f"a number on a switch of the list with its ports, by which it is named: {listed}"
        elif 1 <= int(port) <= len(names):
            return names[int(port) - 1]
        else:
            allowed = f"a port of {switch}: {names[0]} to {names[-1]}, or 1 to {len(names)}"
        self._wrong(record, "rnic_port", port, allowed)
        return None

    def _vlan(self, record: HardwareRecord, leg: str, texts: dict[str, str], pod: IpuPod) -> None:
        vlans = vlans_of(pod, leg)
        vlan = texts.get("vlan")
        if vlan is not None and not (vlan.isdecimal() and len(vlan) < 5 and int(vlan) in vlans):
            one = str(vlans[0]) if len(vlans) == 1 else f"{vlans[0]} to {vlans[-1]}"
            self._wrong(record, f"{leg}_vlan", vlan, f"{one}, as the IPU-POD in the site file says")


def number_of(text: str | None) -> float | None:
    """A number above zero; None for anything else."""
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if 0 < number < 1e6 else None
