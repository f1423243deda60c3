"""Port: networks on a fabric's physical network that weft didn't create, with their ports, as the cloud has them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from weft.model.mark import Mark

End = tuple[str, str]
"""Id of a network, and an address on it."""


@dataclass(frozen=True, slots=True)
class TenantPort:
    """One port of a network.

    Attributes:
        name, mac: chosen by the port's creator; they prove nothing.
        vnic_type: what its owner asked for: `direct`, `direct-physical`, `baremetal`, `normal` …
        vif_type: type of its binding: `unbound`, `binding_failed`, or a type that its mechanism driver chose.
        host: host that it is bound to; only the cloud's own services may set it. Empty: none.
        pci_slot: PCI address of the device on that host, by Nova; empty: it has none.
        client_ids: DHCP client identifiers, which its owner may change at any time.
        server: server that has it; empty: none. Its owner may change that, too.
        has_address: whether it has an address; without one, Neutron lets only few drivers bind it.
        network, project_id: its network's id, and the port's project; set only by `ports_at`, and not compared.
    """

    id: str
    name: str
    mac: str
    vnic_type: str
    vif_type: str
    host: str
    pci_slot: str = ""
    client_ids: tuple[str, ...] = ()
    server: str = ""
    has_address: bool = True
    network: str = field(default="", compare=False)
    project_id: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class TenantNetwork:
    """One network on a physical network, with all its ports.

    Attributes:
        number: its segmentation id.
        mark: weft's mark in its description, which its owner may write.
    """

    id: str
    name: str
    project_id: str
    number: int
    ports: tuple[TenantPort, ...] = ()
    mark: Mark | None = None


class TenantNetworks(Protocol):
    """Networks that tenants created. All methods raise `UnknownError` or `PermanentError` if they can't be read."""

    def networks_on(self, physical_network: str) -> Sequence[TenantNetwork]:
        """All networks on it, of all projects, read now; sorted by id. Includes pods' own networks."""
        ...

    def is_gone(self, network: str, project_id: str) -> bool:
        """Whether the cloud itself says that it has no network of this id, to a caller who would see it.

        Args:
            project_id: project of the network. `UnknownError` unless something of that project is seen in the same
                pass: to a caller that lost its rights over other projects, a cloud reports that nothing exists.
        """
        ...

    def port_now(self, port: str, project_id: str) -> TenantPort | None:
        """A port that a listing didn't show; None: the cloud itself says that it doesn't exist, as with `is_gone`.

        Args:
            project_id: project of the network that it was on.
        """
        ...

    def ports_at(
        self, project_id: str, hosts: Collection[str] = (), macs: Collection[str] = ()
    ) -> Sequence[TenantPort]:
        """All ports, of all projects and on all networks, that are bound to these hosts, and all with these MAC
        addresses; sorted by id.

        Args:
            project_id: another project, used to check that ports of other projects are shown at all.
        """
        ...

    def pairs_with(
        self, project_id: str, macs: Collection[str], ends: Collection[End] = ()
    ) -> tuple[Mapping[str, Sequence[TenantPort]], Mapping[End, Sequence[TenantPort]]]:
        """Addresses other than their own that ports of all projects and networks may send from
        (`allowed_address_pairs`).

        MAC address in lower case -> ports that may; and end -> ports on its network that may. Reads every port of the
        cloud.

        Args:
            project_id: as in `ports_at`.
        """
        ...
