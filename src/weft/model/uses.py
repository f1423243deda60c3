"""Uses: what others have on weft's resources, which may keep these from being deleted."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from weft.model.errors import TemporaryError
from weft.model.kinds import Kind
from weft.model.messages import Message, outside

_InNeutron = Literal["port", "subnet", "share", "trunk", "floating_ip", "vpn_service", "vpn_endpoint_group"]
_OnStorage = Literal["attachment", "snapshot", "backup", "replica", "group", "share_group"]
UseKind = _InNeutron | _OnStorage
SUBPORT = "trunk:subport"
"""`owner` of a trunk that has the port as one of its subports; else it is the trunk's parent."""
ROUTER_INTERFACES = frozenset(
    {
        "network:router_interface",
        "network:router_interface_distributed",
        "network:ha_router_replicated_interface",
    }
)
"""`owner` of ports that are routers' interfaces."""
ROUTER_PORTS = ROUTER_INTERFACES | {"network:router_centralized_snat"}
"""`owner` of all ports that a router has on networks that it joins."""
EVERYBODY = "*"
MOST_SHOWN = 3
"""Uses that a sentence names."""
NAME_SHOWN = r"[\w .@/-]{1,40}"
"""Pattern of names that are safe in a sentence: others could end it, or begin a new one."""
_ENDS: Mapping[tuple[str, Kind], str] = {
    ("port", Kind.SECURITY_GROUP): "it will be taken out of the group",
    ("port", Kind.ROUTER): "it will be taken off the router",
    ("floating_ip", Kind.PORT): "it will be taken off the port",
    ("floating_ip", Kind.ROUTER): "it will be taken off its port",
}
_NAME = re.compile(NAME_SHOWN)
_USER = re.compile(r"[\w:.-]{1,80}")


@dataclass(frozen=True, slots=True)
class Use:
    """A resource that uses one of weft's.

    Attributes:
        id: id of the using resource; of a volume's attachment, the server's.
        of, on: kind and id of what is used: a network, security group, port, router, subnet, share or volume.
        name: chosen by its owner; proves nothing.
        project_id: project that it belongs to; of a share: the project it is shared with (`*`: all).
        owner, device: of a port: what uses it (`compute:nova`, `network:router_interface` …), and its id.
        network: of a port: the network that it is on.
        server: name of the server that `device` is, if it was looked up.
    """

    kind: UseKind
    id: str
    of: Kind
    on: str
    name: str = ""
    project_id: str = ""
    owner: str = ""
    device: str = ""
    network: str = ""
    server: str = ""

    def text(self) -> str:
        """The use in words, for operators and for the project whose resource is used."""
        if self.kind == "share":
            return f"a share with project {self.project_id} (RBAC policy {self.id})"
        used = f" of {self.owner} {self.device}".rstrip() if self.owner or self.device else ""
        named = f" {self.name!r}" if self.name else ""
        return f"{self.kind.replace('_', ' ')} {self.id}{named}{used} of project {self.project_id}"

    def brief(self) -> str:
        """Name and user for operators, restricted to characters that can't form a sentence."""
        name = self.name if _NAME.fullmatch(self.name) else self.id
        user = " ".join(one for one in (self.owner, self.device) if _USER.fullmatch(one))
        return f"{self.kind.replace('_', ' ')} {name}{f' of {user}' if user else ''}"

    @property
    def end(self) -> str:
        """How weft ends it: only the use is ended where the using resource also serves something else."""
        if self.kind in ("vpn_service", "vpn_endpoint_group"):
            return "it will be removed with its site connections"
        if self.owner == SUBPORT:
            return "the port will be taken out of the trunk"
        return _ENDS.get((self.kind, self.of), "it will be removed")

    def is_of(self, project_id: str) -> bool:
        """Whether members of the project can end it: a share is ended by the project that owns the shared resource."""
        return self.kind == "share" or self.project_id == project_id

    def message(self, project_id: str, owner: str) -> Message:
        """The reason why the resource can't be deleted: this use is in the way.

        Args:
            project_id: project of the used resource.
            owner: kind of its owner: `pod`, `network`, `site`.
        """
        used = {"thing": self.kind.replace("_", " "), "id": self.id, "owner": owner, "of": self.of.row.one}
        if not self.is_of(project_id):
            return outside.USED_BY_OTHERS(**used, project=self.project_id)
        name, server = (one if _NAME.fullmatch(one) else None for one in (self.name, self.server))
        return outside.USED_BY_PROJECT(**used, name=name, server=server)


class InUseError(TemporaryError):
    """A resource of weft's can't be deleted while it is in use.

    Args:
        seen: the response, without what is in the way.
        uses: what uses it, as far as it is known.
        project_id: project of the resource.
        owner: kind of its owner.
    """

    def __init__(
        self,
        asked: str,
        of: str,
        seen: str,
        then: str = outside.WILL_RETRY(),
        delay: float = 5.0,
        alarming: bool = False,
        uses: Sequence[Use] = (),
        project_id: str = "",
        owner: str = "pod",
    ) -> None:
        self.seen, self.uses, self.project_id, self.owner = seen, tuple(uses), project_id, owner
        shown = self.uses[:MOST_SHOWN]
        answer = outside.IN_USE(
            seen=seen,
            users=", ".join(use.brief() for use in shown),
            uses=[use.message(project_id, owner) for use in shown],
            more=max(0, len(self.uses) - MOST_SHOWN) or None,
        )
        super().__init__(asked, of, answer, then, delay, alarming)

    def without(self, own: Collection[str]) -> InUseError:
        """The error without uses by resources with these ids: the owner's own are deleted first, or already being
        deleted."""
        uses = [use for use in self.uses if use.id not in own]
        return InUseError(
            self.asked,
            self.of,
            self.seen,
            self.then,
            self.delay,
            self.alarming,
            uses,
            self.project_id,
            self.owner,
        )
