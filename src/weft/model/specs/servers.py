"""Servers and machines, and the key pairs that give access to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from weft.model.specs.base import Spec


class KeyPairSpec(Spec):
    """The tenant's public key as a key pair of weft's service user: Nova's key pairs belong to users, not projects."""

    kind: Literal["key_pair"] = "key_pair"
    public_key: str = Field(description="OpenSSH public key: type and base64; its comment will be the mark.")

    def summary(self) -> str:
        return "public key of the tenant"


class MachineSpec(Spec):
    """A bare-metal machine that belongs to the pod, from before its deployment until its cleaning was proved."""

    kind: Literal["machine"] = "machine"
    machine: str = Field(description="Id of the node in Ironic; hidden from tenants.")

    def summary(self) -> str:
        return f"node {self.machine} in Ironic"


class ServerSpec(Spec):
    """A server: a virtual machine, or a bare-metal machine that Nova or Ironic deploys."""

    kind: Literal["server"] = "server"
    host: str = Field(
        description="Nova host: requested, and checked by the scheduler's own claims; of bare metal the hypervisor."
    )
    bare_metal: bool = Field(default=False, description="A whole machine.")
    by: Literal["nova", "ironic"] = Field(
        default="nova",
        description="Who deploys it: Nova, of machines with its driver of Ironic; or Ironic alone.",
    )
    flavor: str
    image: str
    key_pair: str | None = Field(default=None, description="Key of the key pair; null: no key.")
    user_data: str | None = None
    secrets: tuple[str, ...] = Field(
        default=(),
        description="Names of pod keys with placeholders `${weft:NAME}` in `user_data`, substituted at creation.",
    )
    ports: tuple[str, ...] = Field(description="Keys of the ports, in the order of the devices.")
    storage: tuple[str, ...] = Field(
        default=(),
        description="Keys of shares and volumes, or their ids, with placeholders `${weft:KEY}` in `user_data`: a "
        "share's export location, and a volume's id, are substituted at creation.",
    )

    def summary(self) -> str:
        return f"{self.flavor} on host {self.host}, image {self.image}"

    @property
    def is_counted(self) -> bool:
        return self.by == "nova"  # Ironic counts nothing

    def quota(self, vcpus: int, ram: int) -> Mapping[str, int]:
        return {"cores": vcpus, "RAM (MiB)": ram} if self.is_counted else {}
