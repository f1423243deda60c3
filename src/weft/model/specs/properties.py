"""What Nova places servers by: flavors, properties of images, and host aggregates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from weft.model.specs.base import Spec


class PropertiesSpec(Spec):
    """Properties by which Nova places servers. Other properties of the flavor or image are left alone."""

    former: tuple[str, ...] = Field(
        default=(), description="Keys that weft set earlier and that must be removed, sorted."
    )

    @property
    def keys(self) -> Mapping[str, str]:
        """Key -> value, of those that weft sets."""
        raise NotImplementedError

    @property
    def stays(self) -> bool:
        """Whether it existed before weft: then it stays, with its former values."""
        return True


class FlavorSpec(PropertiesSpec):
    """A public flavor."""

    kind: Literal["flavor"] = "flavor"
    vcpus: int
    ram: int = Field(description="MiB.")
    disk: int = Field(description="GiB.")
    extra_specs: dict[str, str]

    @property
    def keys(self) -> Mapping[str, str]:
        return self.extra_specs

    def summary(self) -> str:
        specs = ", ".join(f"{k}={v}" for k, v in sorted(self.extra_specs.items()))
        return f"{self.vcpus} vcpus, {self.ram} MiB" + (f", {specs}" if specs else "")


class ImagePropertiesSpec(PropertiesSpec):
    """Properties of an existing image."""

    kind: Literal["image_properties"] = "image_properties"
    properties: dict[str, str]

    @property
    def keys(self) -> Mapping[str, str]:
        return self.properties

    def summary(self) -> str:
        return ", ".join(f"{k}={v}" for k, v in sorted(self.properties.items()))


class AggregateSpec(Spec):
    """A host aggregate that names the flavors for its hosts. Its other hosts and metadata are left alone."""

    kind: Literal["aggregate"] = "aggregate"
    flavors: tuple[str, ...] = Field(description="Names, sorted: its `instance_type`.")
    hosts: tuple[str, ...] = Field(description="Nova's compute hosts, sorted.")

    @property
    def instance_type(self) -> str:
        """Value of the aggregate's `instance_type`, which Nova's `AggregateTypeAffinityFilter` reads."""
        return ",".join(self.flavors)

    @property
    def stays(self) -> bool:
        """Whether it existed before weft, or has other hosts: then it stays, with its former `instance_type`."""
        return True

    def summary(self) -> str:
        hosts = f"{len(self.hosts)} host{'' if len(self.hosts) == 1 else 's'}"
        return f"{hosts} for {', '.join(self.flavors)}"
