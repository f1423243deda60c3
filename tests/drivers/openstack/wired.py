"""A driver whose calls to a real Neutron and Nova go through proxies that can lose answers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from openstack.config import OpenStackConfig
from openstack.connection import Connection

from tests.drivers.openstack.cutter import Cutter
from weft.drivers.openstack import OpenStackDriver, Sessions
from weft.ports.resources import Scope


def connect(clouds: Path, profile: str) -> Connection:
    return Connection(config=OpenStackConfig(config_files=[str(clouds)]).get_one(cloud=profile))


@dataclass(frozen=True)
class Wired:
    """The driver, and the proxies before Neutron and Nova."""

    sessions: Sessions
    driver: OpenStackDriver
    neutron: Cutter
    nova: Cutter
    scope: Scope
    tenant: Connection
