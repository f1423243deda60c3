"""Port: what is on a cloud's networks, and what uses weft's other resources, in any project."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from weft.model.kinds import Kind
from weft.model.uses import Use
from weft.ports.listings import SharedListings

USED = (Kind.SECURITY_GROUP, Kind.PORT, Kind.ROUTER)
"""Kinds besides networks whose resources others may use."""


class CloudNetworks(Protocol):
    """Networks of a cloud, and uses of weft's resources there."""

    def segments(self, physical_networks: Collection[str]) -> Mapping[str, frozenset[int]]:
        """Physical network -> VLANs of all networks on it, of all projects; may be a few seconds old.

        Raises `UnknownError` or `PermanentError` if that can't be read.
        """
        ...

    def on_networks(
        self, project_id: str, networks: Collection[str], listings: SharedListings | None = None
    ) -> Sequence[Use]:
        """Everything on these networks of a project, of any project, except what the cloud itself has there (DHCP).

        A nonexistent network has nothing on it. Raises `UnknownError` or `PermanentError`.

        Args:
            listings: shared with others who observe the networks' owner now.
        """
        ...

    def uses(self, project_id: str, things: Mapping[Kind, Collection[str]]) -> Sequence[Use]:
        """What uses these resources of a project, in any project: ports in security groups and shares of these; trunks
        of ports; interfaces of routers; floating IPs of ports and through routers. weft's own uses are included.

        Args:
            things: ids by kind, one of `USED`. A nonexistent resource has no uses.

        Raises `UnknownError` or `PermanentError`.
        """
        ...

    def take_off(self, project_id: str, use: Use) -> None:
        """End a use with the rights of the project whose resource is used or, where weft has a role there, of the
        project whose resource uses it. A use that has already ended is no error.

        Ports and subnets on networks, shares, and trunks of a port are deleted; a port in a group is taken out of it;
        a subport leaves its trunk, an interface its router, a floating IP its port. Raises `OutsideError`s.
        """
        ...
