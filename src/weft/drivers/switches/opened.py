"""Opens an Ethernet fabric's driver from a site: one session per switch, for the interface that the site
names."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from weft.drivers.switches.access import Api, credentials_for
from weft.drivers.switches.cabling import Cabling
from weft.drivers.switches.eos import Eos
from weft.drivers.switches.fabric import EthernetFabric
from weft.drivers.switches.generic import Generic
from weft.drivers.switches.interface import SwitchDriver
from weft.drivers.switches.limits import SwitchLimits
from weft.drivers.switches.names import vlan_name
from weft.drivers.switches.neutrons import NeutronsFabric
from weft.drivers.switches.nvue import Nvue
from weft.drivers.switches.ovs import Ovs, OvsDatabase
from weft.drivers.switches.sonic import Sonic
from weft.drivers.switches.switch import CONFIRM_SECONDS, SwitchSession
from weft.model.errors import PermanentError
from weft.model.site import Site, SwitchAccess
from weft.model.specs import SegmentSpec
from weft.ports.ledger import SegmentLedger

BY_INTERFACE = {"eos": Eos, "nvue": Nvue, "sonic": Sonic}


def open_fabric(
    site: Site, fabric: str, ledger: SegmentLedger, confirm: float = CONFIRM_SECONDS
) -> EthernetFabric:
    """The driver of a fabric whose manager is `switches`. Opens no connection yet.

    Raises `PermanentError` if the site doesn't say how its switches are managed.

    Args:
        confirm: seconds within which a change must be read back.
    """
    switching = site.fabrics[fabric].manager.switching
    if switching is None:
        said = "the site doesn't say how its switches are managed"
        raise PermanentError("open the switches", f"fabric {fabric}", said, "give manager.switching")
    cabling = Cabling.of(site, fabric, switching)
    vlans = site.fabrics[fabric].segments

    def wanted(settled: bool = False) -> Mapping[int, tuple[str, SegmentSpec]]:
        return {spec.number: (vlan_name(mark), spec) for mark, spec in ledger.wanted(settled).items()}

    def ever(number: int) -> SegmentSpec | None:
        mark = next((m for m, spec in ledger.wanted().items() if spec.number == number), None)
        return None if mark is None else ledger.ever(mark)

    databases: dict[str, OvsDatabase] = {}

    def one(access: SwitchAccess) -> SwitchDriver:
        if access.interface == "generic":
            limits = SwitchLimits(vlans, cabling.ports(access.name), switching.parking)
            keys, file = switching.known_hosts, switching.credentials
            own = partial(credentials_for, access.name, file)
            return Generic(access, limits, cabling, wanted, ever, own, keys)
        limits = SwitchLimits(vlans, cabling.ports(access.name), switching.parking)
        return session_of(access, switching.credentials, switching.ca, limits, confirm, databases)

    driver = NeutronsFabric if switching.configured_by == "neutron" else EthernetFabric
    return driver(site, fabric, cabling, [one(a) for a in switching.switches], ledger)


def session_of(
    access: SwitchAccess,
    credentials: str | None,
    ca: str | None,
    limits: SwitchLimits,
    confirm: float,
    databases: dict[str, OvsDatabase] | None = None,
) -> SwitchSession:
    """The session of a switch that can be read back. Opens no connection yet.

    Args:
        credentials, ca: files, as in `Switching`.
        confirm: seconds within which a change must be read back.
        databases: address -> database of an Open vSwitch that is open already; a new one is added.
    """
    if access.interface == "ovs":
        database = ({} if databases is None else databases).setdefault(access.url, OvsDatabase(access.url))
        return Ovs(access.name, database, limits, confirm)
    kind = BY_INTERFACE[access.interface]
    own = partial(credentials_for, access.name, credentials)
    api = Api(access.name, access.url, own, ca, credentials, media=kind.media)
    return kind(access.name, api, limits, confirm)
