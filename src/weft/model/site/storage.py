"""What a cloud offers pods as storage."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from weft.model.base import Document
from weft.model.ids import Name

EXPORT = r"^[A-Za-z0-9._-]+:/[A-Za-z0-9._/-]*$"
MOUNT_OPTIONS = r"^[a-z0-9_]+(=[A-Za-z0-9.:_-]+)?(,[a-z0-9_]+(=[A-Za-z0-9.:_-]+)?)*$"
Export = Annotated[str, StringConstraints(pattern=EXPORT, max_length=255)]
Options = Annotated[str, StringConstraints(pattern=MOUNT_OPTIONS, max_length=255)]
TypeName = Annotated[str, StringConstraints(min_length=1, max_length=255)]


class NfsExport(Document):
    """An existing NFS export; its server decides who may mount it, not weft."""

    location: Export = Field(description="Server and path, such as nas1.example:/home.")
    options: Options = Field(
        default="vers=4.2", description="Mount options besides rw or ro, hard and _netdev."
    )
    read_only: bool = Field(default=False, description="Servers can only mount it for reading.")


class Storage(Document):
    """Storage of an OpenStack cloud."""

    network: Name | None = Field(
        default=None,
        description="Network of the service user's project that filers are on, shared with the tenants' "
        "projects, such as one created by `weft site apply`: servers get a port there, and only "
        "that port's address may mount the pod's shares. Default: servers mount from their "
        "addresses on the management network.",
    )
    shares: bool = Field(
        default=False,
        description="The cloud has Manila, with NFS and share types that need no share servers.",
    )
    share_type: TypeName | None = Field(
        default=None, description="Share type of orders that name none. Default: Manila's."
    )
    volumes: bool = Field(default=False, description="The cloud has Cinder.")
    volume_type: TypeName | None = Field(
        default=None, description="Volume type of orders that name none. Default: Cinder's."
    )
    exports: dict[Name, NfsExport] = Field(
        default_factory=dict, description="NFS exports that pods may mount, by the name that orders use."
    )
