"""What Poplar reads: the devices of each GCD and their attributes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from openvipu.model.errors import BadRequest
from openvipu.model.partition import Partition, Routing, SyncType
from openvipu.model.site import Agent

IPU_ARCHITECTURE = 21
"""GC200, the second generation ("ipu21" is its name in Poplar). Our choice of the number."""

LINK_CONFIGURATION = {
    Routing.DNC: ("default", "mesh"),
    Routing.SWNC: ("slidingWindow", "mesh"),
    Routing.BTNC: ("barleyTwist", "mesh"),
    Routing.RINGSWNC: ("slidingWindow", "torus"),
}
"""Routing as Poplar names it: (configuration, topology) [seen]."""

SYNC_NAMES = {
    SyncType.GS2_DEFAULT: "c2-compatible",
    SyncType.GS2_INDEPENDENT_RAILS: "independent-rails",
    SyncType.POD_NATIVE_DEFAULT: "pod-native",
    SyncType.POD_NATIVE_REPLICATED_PIPELINE: "pod-native-replicated-pipeline",
}
"""Names of sync types on the command line; "c2-compatible" is public, the others are our choice."""


@dataclass(frozen=True, slots=True)
class Device:
    """One IPUoF end-point: an IPU of a machine, reached over its RNIC."""

    ip: str
    server_port: int
    rdma_port: int
    device_id: int
    segment_id: int
    routing_id: int
    ipu_id: int
    chip_id: str
    gateway_version: str
    software_version: str


@dataclass(frozen=True, slots=True)
class Gcd:
    """One graph compilation domain: its devices in routing order, its attributes as strings."""

    id: int
    devices: tuple[Device, ...]
    attributes: tuple[tuple[str, str], ...]


def device_table(gcd_size: int, reconfigurable: bool) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """The devices that one GCD shows, as (device id, members among the GCD's IPUs).

    A reconfigurable one of N IPUs shows 2N-1 devices: every IPU, then every aligned pair, quad and so on
    (of 4 IPUs: 0 to 3, then 4 and 5, then 6) [seen]. Any other is one device: our choice.
    """
    if not reconfigurable:
        return ((0, tuple(range(gcd_size))),)
    table: list[tuple[int, tuple[int, ...]]] = []
    width = 1
    while width <= gcd_size:
        groups = [tuple(range(first, first + width)) for first in range(0, gcd_size, width)]
        table += enumerate(groups, len(table))
        width *= 2
    return tuple(table)


def gcds(partition: Partition, agents: Mapping[str, Agent], only: int | None = None) -> tuple[Gcd, ...]:
    """The IPUoF configuration of every GCD, or of GCD ``only``; BadRequest if there is no such GCD."""
    count, size = partition.shape.gcds, partition.shape.gcd_size
    if only is not None and only >= count:
        raise BadRequest(
            f"gcd_id {only} is not allowed; partition {partition.id!r} has the GCDs 0 to {count - 1}"
        )
    chosen = range(count) if only is None else (only,)
    return tuple(
        Gcd(gcd, _devices(partition, agents, gcd * size, size), _attributes(partition, gcd)) for gcd in chosen
    )


def _devices(partition: Partition, agents: Mapping[str, Agent], first: int, size: int) -> tuple[Device, ...]:
    found: list[Device] = []
    for ipu_id, ipu in enumerate(partition.ipus[first : first + size]):
        machine = agents[ipu.agent_id].machine
        chip = next((entry.chip_id for entry in machine.ipus if entry.number == ipu.number), "")
        found.append(
            Device(
                ip=machine.rnic_address,
                server_port=machine.server_port,
                rdma_port=machine.rdma_port,
                device_id=ipu.number,
                segment_id=ipu.segment,
                routing_id=ipu.routing_id,
                ipu_id=ipu_id,
                chip_id=chip,
                gateway_version=machine.gateway_version,
                software_version=machine.software_version,
            )
        )
    return tuple(found)


def _attributes(partition: Partition, gcd: int) -> tuple[tuple[str, str], ...]:
    """String-valued attributes. "GCD Id" is confirmed [seen]; the others are our choice of names."""
    shape = partition.shape
    configuration, topology = LINK_CONFIGURATION[shape.routing]
    return (
        ("GCD Id", str(gcd)),
        ("Number Of GCDs", str(shape.gcds)),
        ("Number Of Replicas", str(shape.replicas)),
        ("Number Of IPU-Link Segments", str(shape.segments)),
        ("Partition Id", partition.id),
        ("Partition Size", str(shape.size)),
        ("IPU-Link Configuration", configuration),
        ("IPU-Link Topology", topology),
        ("Sync Type", SYNC_NAMES[shape.sync_type]),
        ("Fabric Reconfigurable", "true" if shape.reconfigurable else "false"),
    )
