"""The site as it is written in a file: the same as `Site`, plus separate tables for adapters and accelerators, and
CSV includes. `site.schema.json` is generated from `SiteFile`; `weft.app.sitefile` reads it.
"""

from __future__ import annotations

from pydantic import Field

from weft.model.base import Document
from weft.model.ids import Name
from weft.model.site import (
    Accelerator,
    Bundle,
    Device,
    Hca,
    Interface,
    IpuMachine,
    Link,
    Node,
    Rack,
    Site,
    SiteHead,
    Switch,
    SwitchAccess,
    SwitchLink,
)
from weft.model.siteparts import PartsInclude


class HcaRow(Hca):
    """A row of the table `hcas`: an adapter and its node."""

    node: Name = Field(description="Node that the adapter is in.")


class AcceleratorRow(Accelerator):
    """A row of the table `accelerators`: an accelerator and its node."""

    node: Name = Field(description="Node that the accelerator is in.")


class SiteTables(Site):
    """A site whose adapters and accelerators may be in separate tables."""

    hcas: tuple[HcaRow, ...] = Field(
        default=(), description="Adapters of any nodes; each row names its `node`."
    )
    accelerators: tuple[AcceleratorRow, ...] = Field(
        default=(), description="Accelerators of any nodes; each row names its `node`."
    )


class CsvInclude(Document):
    """Rows from a CSV file; its first line names the columns."""

    csv: str = Field(
        min_length=1, description="Path of the file, relative to the site file and inside its directory."
    )


class SiteFile(SiteHead):
    """A site file."""

    racks: CsvInclude | tuple[Rack | CsvInclude, ...] = Field(default=(), description="Racks.")
    switches: CsvInclude | tuple[Switch | CsvInclude, ...] = Field(default=(), description="Switches.")
    links: CsvInclude | tuple[Link | CsvInclude, ...] = Field(default=(), description="Cables.")
    nodes: CsvInclude | tuple[Node | CsvInclude, ...] = Field(default=(), description="Hosts.")
    hcas: CsvInclude | tuple[HcaRow | CsvInclude, ...] = Field(
        default=(), description="Adapters of any nodes; each row names its `node`."
    )
    accelerators: CsvInclude | tuple[AcceleratorRow | CsvInclude, ...] = Field(
        default=(), description="Accelerators of any nodes; each row names its `node`."
    )
    ipu_machines: CsvInclude | tuple[IpuMachine | CsvInclude, ...] = Field(
        default=(), description="IPU-Machines."
    )
    devices: CsvInclude | tuple[Device | CsvInclude, ...] = Field(
        default=(), description="Other hardware: management switches, PDUs, storage."
    )
    interfaces: CsvInclude | tuple[Interface | CsvInclude, ...] = Field(
        default=(), description="Interfaces of hardware on the site's own networks."
    )


class SiteDocument(SiteHead):
    """A site as the API accepts it: long tables name parts that were uploaded before."""

    racks: PartsInclude | tuple[Rack, ...] = Field(default=(), description="Racks.")
    switches: PartsInclude | tuple[Switch, ...] = Field(default=(), description="Switches.")
    links: PartsInclude | tuple[Link, ...] = Field(default=(), description="Cables.")
    nodes: PartsInclude | tuple[Node, ...] = Field(default=(), description="Hosts.")
    hcas: PartsInclude | tuple[HcaRow, ...] = Field(
        default=(), description="Adapters of any nodes; each row names its `node`."
    )
    accelerators: PartsInclude | tuple[AcceleratorRow, ...] = Field(
        default=(), description="Accelerators of any nodes; each row names its `node`."
    )
    ipu_machines: PartsInclude | tuple[IpuMachine, ...] = Field(default=(), description="IPU-Machines.")
    devices: PartsInclude | tuple[Device, ...] = Field(
        default=(), description="Other hardware: management switches, PDUs, storage."
    )
    interfaces: PartsInclude | tuple[Interface, ...] = Field(
        default=(), description="Interfaces of hardware on the site's own networks."
    )


TABLES: dict[str, type[Document]] = {
    "racks": Rack,
    "switches": Switch,
    "links": Link,
    "nodes": Node,
    "hcas": HcaRow,
    "accelerators": AcceleratorRow,
    "ipu_machines": IpuMachine,
    "devices": Device,
    "interfaces": Interface,
}
"""Tables of a site file and the type of their rows."""


SWITCHING_TABLES: dict[str, type[Document]] = {
    "switches": SwitchAccess,
    "links": SwitchLink,
    "bundles": Bundle,
}
"""Lists of `switching` of an Ethernet fabric's manager that may also be in CSV files, and the type of their rows."""


def csv_columns(table: str) -> tuple[str, ...]:
    """Columns that a CSV file for this table may have: the row's fields with a single value."""
    return tuple(name for name in TABLES[table].model_fields if name not in TABLES)
