"""Ironic's inspection data as values: what its agent saw of a machine. Pure.

Sources: ironic-python-agent (`hardware.py`: inventory; `pci_inspector.py`: `pci_devices`), ironic's inspection hook
`parse-lldp`. Both are as `baremetal node inventory save` writes them.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ValidationError

from weft.planning.fabric.addressing import client_id


class SeenInterface(BaseModel):
    """A network interface as the agent or the BMC saw it."""

    name: str
    mac_address: str | None = None
    client_id: str | None = None
    pci_address: str | None = None

    @property
    def guid(self) -> int | None:
        """Port GUID in the client id, which physical InfiniBand ports alone have."""
        text = (self.client_id or "").lower()
        try:
            guid = int(text.replace(":", "")[-16:], 16)
        except ValueError:
            return None
        return guid if guid > 0 and client_id(guid) == text else None


class SeenMemory(BaseModel):
    """Memory of a machine, in MiB."""

    physical_mb: int | None = None


class SeenPci(BaseModel):
    """A PCI device."""

    vendor_id: str
    product_id: str
    bus: str

    @property
    def ids(self) -> str:
        """Vendor and product, as in the hardware list: `10de:2335`."""
        return f"{self.vendor_id}:{self.product_id}".lower()


class SeenNeighbour(BaseModel):
    """An LLDP neighbour as Ironic's hook parsed it."""

    switch_system_name: str | None = None
    switch_port_id: str | None = None
    switch_port_description: str | None = None


class InspectedInventory(BaseModel):
    """The inventory of a machine."""

    interfaces: list[SeenInterface]
    memory: SeenMemory | None = None
    disks: list[dict[str, Any]] | None = None
    bmc_address: str | None = None
    bmc_v6address: str | None = None
    bmc_mac: str | None = None

    @property
    def is_out_of_band(self) -> bool:
        """Whether only the BMC was asked, which knows no more of interfaces than names and MAC addresses: the agent
        always reports a PCI address, if only as unknown."""
        return not any({"client_id", "pci_address"} & one.model_fields_set for one in self.interfaces)


class Plugins(BaseModel):
    """What collectors and hooks add; None: it didn't run."""

    pci_devices: list[SeenPci] | None = None
    parsed_lldp: dict[str, SeenNeighbour] | None = None


def read_inspection(inventory: object, plugin_data: object) -> tuple[InspectedInventory, Plugins]:
    """Inspection data as values. Raises ValueError with what is wrong, in a few words."""
    try:
        return InspectedInventory.model_validate(inventory), Plugins.model_validate(plugin_data or {})
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "inventory"
        raise ValueError(f"{where}: {first['msg']}") from None
