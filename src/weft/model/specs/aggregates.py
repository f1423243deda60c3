"""Host aggregates: which flavors Nova's scheduler puts on which hosts."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from weft.model.specs.base import Spec


class AggregateSpec(Spec):
    """A host aggregate that names the flavors for its hosts. Its other hosts and metadata are left alone."""

    kind: Literal["aggregate"] = "aggregate"
    flavors: tuple[str, ...] = Field(description="Names, sorted: its `instance_type`.")
    hosts: tuple[str, ...] = Field(description="Nova's compute hosts, sorted.")

    @property
    def instance_type(self) -> str:
        """As Nova's `AggregateTypeAffinityFilter` reads it."""
        return ",".join(self.flavors)

    @property
    def stays(self) -> bool:
        """An aggregate that existed before weft, or has other hosts, stays, with its former `instance_type`."""
        return True

    def summary(self) -> str:
        hosts = f"{len(self.hosts)} host{'' if len(self.hosts) == 1 else 's'}"
        return f"{hosts} for {', '.join(self.flavors)}"
