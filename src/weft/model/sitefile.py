"""The site as it is written in a file: the same as `Site`, with tables of its own for adapters and accelerators, and
with includes from CSV. `site.schema.json` is made from `SiteFile`; `weft.app.sitefile` reads it.
"""

from __future__ import annotations

from pydantic import Field

from weft.model.base import Document
from weft.model.ids import Name
from weft.model.ipusite import IpuMachine, IpuPod
from weft.model.retention import RetentionPolicy
from weft.model.site import (
    Accelerator,
    Cloud,
    Fabric,
    Hca,
    LeasePolicy,
    Link,
    Node,
    PlacementPolicy,
    QueuePolicy,
    Rack,
    Site,
    Switch,
)
from weft.model.siteparts import PartsInclude


class HcaRow(Hca):
    """A row of the table `hcas`: an adapter and its node."""

    node: Name = Field(description="Node that the adapter is in.")


class AcceleratorRow(Accelerator):
    """A row of the table `accelerators`: an accelerator and its node."""

    node: Name = Field(description="Node that the accelerator is in.")


class SiteTables(Site):
    """A site whose adapters and accelerators may stand in tables of their own."""

    hcas: tuple[HcaRow, ...] = Field(default=(), description="Adapters of all nodes, each with its `node`.")
    accelerators: tuple[AcceleratorRow, ...] = Field(
        default=(), description="Accelerators of all nodes, each with its `node`."
    )


class CsvInclude(Document):
    """Rows from a CSV file; its first line names the columns."""

    csv: str = Field(
        min_length=1, description="Path of the file, relative to the site file and inside its folder."
    )


class _Head(Document):
    """What of a site is in no table."""

    name: Name = Field(description="Name of the site; part of the mark on everything weft makes.")
    clouds: dict[Name, Cloud] = Field(min_length=1, description="OpenStack clouds by name.")
    fabrics: dict[Name, Fabric] = Field(default_factory=dict, description="RDMA fabrics by name.")
    ipu_pods: dict[Name, IpuPod] = Field(default_factory=dict, description="IPU-PODs by name.")
    queue: QueuePolicy = Field(default=QueuePolicy(), description="How orders that wait are served.")
    leases: LeasePolicy = Field(default=LeasePolicy(), description="What leases may be.")
    retention: RetentionPolicy = Field(
        default=RetentionPolicy(), description="How long records are kept that nothing needs any more."
    )
    placement: PlacementPolicy = Field(
        default=PlacementPolicy(), description="What decides between places that an order fits in."
    )


class SiteFile(_Head):
    """A site file."""

    racks: CsvInclude | tuple[Rack | CsvInclude, ...] = Field(default=(), description="Racks.")
    switches: CsvInclude | tuple[Switch | CsvInclude, ...] = Field(default=(), description="Switches.")
    links: CsvInclude | tuple[Link | CsvInclude, ...] = Field(default=(), description="Cables.")
    nodes: CsvInclude | tuple[Node | CsvInclude, ...] = Field(default=(), description="Hosts.")
    hcas: CsvInclude | tuple[HcaRow | CsvInclude, ...] = Field(
        default=(), description="Adapters of all nodes, each with its `node`."
    )
    accelerators: CsvInclude | tuple[AcceleratorRow | CsvInclude, ...] = Field(
        default=(), description="Accelerators of all nodes, each with its `node`."
    )
    ipu_machines: CsvInclude | tuple[IpuMachine | CsvInclude, ...] = Field(
        default=(), description="IPU-Machines."
    )


class SiteDocument(_Head):
    """A site as the API takes it: a long table by the parts that were sent before."""

    racks: PartsInclude | tuple[Rack, ...] = Field(default=(), description="Racks.")
    switches: PartsInclude | tuple[Switch, ...] = Field(default=(), description="Switches.")
    links: PartsInclude | tuple[Link, ...] = Field(default=(), description="Cables.")
    nodes: PartsInclude | tuple[Node, ...] = Field(default=(), description="Hosts.")
    hcas: PartsInclude | tuple[HcaRow, ...] = Field(
        default=(), description="Adapters of all nodes, each with its `node`."
    )
    accelerators: PartsInclude | tuple[AcceleratorRow, ...] = Field(
        default=(), description="Accelerators of all nodes, each with its `node`."
    )
    ipu_machines: PartsInclude | tuple[IpuMachine, ...] = Field(default=(), description="IPU-Machines.")


TABLES: dict[str, type[Document]] = {
    "racks": Rack,
    "switches": Switch,
    "links": Link,
    "nodes": Node,
    "hcas": HcaRow,
    "accelerators": AcceleratorRow,
    "ipu_machines": IpuMachine,
}
"""Tables of a site file and what a row is."""


def csv_columns(table: str) -> tuple[str, ...]:
    """Columns that a CSV file for this table may have: the fields of a row that hold one value."""
    return tuple(name for name in TABLES[table].model_fields if name not in TABLES)
