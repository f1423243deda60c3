"""The agent's own settings: a YAML file, or its section of `weft.toml`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field

from weft.fabricagent.config import Listen, Tls
from weft.model.base import Document
from weft.model.ids import Name

SECTION = "probe_agent"


class Adapter(Document):
    """An adapter whose frames the agent sends and receives."""

    interface: str = Field(min_length=1, max_length=15, description="Its network interface on this host.")
    namespace: str | None = Field(
        default=None, description="Path of the network namespace that the interface is in; none: the agent's."
    )


class ProbeConfig(Document):
    """`weft probe-agent --config FILE`. Relative paths of certificates are relative to the file."""

    name: Name = Field(description="As in the site file.", examples=["probe-gpu01"])
    listen: Listen
    tls: Tls
    nodes: tuple[Name, ...] | None = Field(
        default=None,
        min_length=1,
        description="Only adapters of these nodes are used; empty: of any node.",
        examples=[["gpu01"]],
    )
    adapters: dict[str, Adapter] = Field(
        default_factory=dict[str, Adapter],
        description="Node and adapter as in the site, such as gpu01/mlx5_0: needed for a bond, in a guest and for "
        "other namespaces. Others are found by the PCI address that the site has.",
        examples=[{"gpu01/mlx5_0": {"interface": "bond0"}}],
    )

    def anchored(self, folder: Path) -> ProbeConfig:
        """The settings with absolute paths of the certificates."""
        update: dict[str, Any] = {n: folder / getattr(self.tls, n) for n in ("ca", "certificate", "key")}
        return self.model_copy(update={"tls": self.tls.model_copy(update=update)})
