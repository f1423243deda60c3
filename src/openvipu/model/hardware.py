"""What a machine must be configured as for one partition, and what it reports of itself."""

from __future__ import annotations

from dataclasses import dataclass

from openvipu.model.site import Ipu


@dataclass(frozen=True, slots=True)
class IpuSetting:
    """One IPU's part: its number on the board, its routing id, its segment."""

    number: int
    routing_id: int
    segment_id: int


@dataclass(frozen=True, slots=True)
class Setting:
    """One machine's part of a partition. Links that are not in ``open_links`` are blocked.

    ``gateway_peers`` are the serials of the machines whose GW-Link traffic is let in.
    ``generation`` orders settings of one partition: an agent refuses an older one than it has.
    """

    partition_id: str
    generation: int
    ipus: tuple[IpuSetting, ...]
    open_links: tuple[str, ...]
    gateway_peers: tuple[str, ...]
    sync_type: int
    routing: int


@dataclass(frozen=True, slots=True)
class SettingStatus:
    """One setting as the machine has it now, with what is wrong with it (empty: nothing)."""

    partition_id: str
    generation: int
    failures: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MachineStatus:
    """A machine's answer to the controller's poll."""

    serial: str
    ipus: tuple[Ipu, ...]
    settings: tuple[SettingStatus, ...]
