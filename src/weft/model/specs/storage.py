"""Shares of Manila and volumes of Cinder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from weft.model.specs.base import Spec


class ShareSpec(Spec):
    """A new NFS share of the tenant's project, with access for the pod's ports only."""

    kind: Literal["share"] = "share"
    gib: int
    share_type: str | None = Field(default=None, description="Share type in Manila; null: Manila's default.")
    ports: tuple[str, ...] = Field(
        default=(), description="Keys of the ports whose addresses may mount it, sorted; no others may."
    )
    kept_as: str | None = Field(
        default=None, description="The name under which it stays when it is released; null: it is deleted."
    )

    def summary(self) -> str:
        return _size(self.gib, self.share_type, self.kept_as)

    def quota(self, vcpus: int, ram: int) -> Mapping[str, int]:
        return {"share gigabytes": self.gib}

    @property
    def stays(self) -> bool:
        return self.kept_as is not None


class ShareAccessSpec(Spec):
    """One address that may mount a share."""

    kind: Literal["share_access"] = "share_access"
    share: str = Field(description="Key of the share; empty with `share_id`.")
    share_id: str | None = Field(default=None, description="Id of a share that isn't the pod's.")
    port: str = Field(description="Key of the port whose address it is.")
    read_only: bool = False

    def summary(self) -> str:
        how = "read" if self.read_only else "read and write"
        of = f" share {self.share_id}" if self.share_id else ""
        return f"{how}{of} from {self.port}"

    def inside(self) -> str | None:
        return self.share or None


class VolumeSpec(Spec):
    """A new volume of the tenant's project."""

    kind: Literal["volume"] = "volume"
    gib: int
    volume_type: str | None = Field(
        default=None, description="Volume type in Cinder; null: Cinder's default."
    )
    kept_as: str | None = Field(
        default=None, description="The name under which it stays when it is released; null: it is deleted."
    )

    def summary(self) -> str:
        return _size(self.gib, self.volume_type, self.kept_as)

    def quota(self, vcpus: int, ram: int) -> Mapping[str, int]:
        return {"volume gigabytes": self.gib}

    @property
    def stays(self) -> bool:
        return self.kept_as is not None


class VolumeAttachmentSpec(Spec):
    """A volume attached to a server."""

    kind: Literal["volume_attachment"] = "volume_attachment"
    volume: str = Field(description="Key of the volume; empty with `volume_id`.")
    volume_id: str | None = Field(default=None, description="Id of a volume that isn't the pod's.")
    server: str = Field(description="Key of the server.")

    def summary(self) -> str:
        return f"volume {self.volume_id or self.volume} on {self.server}"

    def inside(self) -> str | None:
        return self.volume or None


def _size(gib: int, type_: str | None, kept_as: str | None) -> str:
    kept = f", stays as {kept_as}" if kept_as else ""
    return f"{gib} GiB" + (f", type {type_}" if type_ else "") + kept
