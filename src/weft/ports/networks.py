"""Port: what is on a cloud's networks, whoever put it there."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol


@dataclass(frozen=True, slots=True)
class OnNetwork:
    """A port or a subnet on a network, or a share of it.

    Attributes:
        network: the network's id.
        name: chosen by its owner; proves nothing.
        project_id: whose it is; of a share: whom the network is shared with (`*`: everybody).
        owner, device: of a port: what uses it (`compute:nova`, `network:router_interface` …), and that one's id.
    """

    kind: Literal["port", "subnet", "share"]
    id: str
    network: str
    name: str = ""
    project_id: str = ""
    owner: str = ""
    device: str = ""

    def text(self) -> str:
        """For operators, and for the project whose network it is."""
        if self.kind == "share":
            return f"a share with project {self.project_id} (RBAC policy {self.id})"
        used = f" of {self.owner} {self.device}".rstrip() if self.owner or self.device else ""
        return f"{self.kind} {self.id}{f' {self.name!r}' if self.name else ''}{used} of project {self.project_id}"


class Networks(Protocol):
    def segments(self, physical_networks: Collection[str]) -> Mapping[str, frozenset[int]]:
        """Physical network -> VLANs of all networks on it, of all projects; may be a few seconds old.

        Raises `UnknownError` or `PermanentError` if that can't be read.
        """
        ...

    def on_networks(self, project_id: str, networks: Collection[str]) -> Sequence[OnNetwork]:
        """Everything on these networks of a project, of any project, except what the cloud itself has there (DHCP).

        A nonexistent network has nothing on it. Raises `UnknownError` or `PermanentError`.
        """
        ...

    def take_off(self, project_id: str, thing: OnNetwork) -> None:
        """Remove it with the rights of the network's owner; fine if it is already gone. Raises `OutsideError`s."""
        ...
