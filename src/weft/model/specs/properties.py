"""By what Nova places servers: flavors, and properties of images."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from weft.model.specs.base import Spec


class PropertiesSpec(Spec):
    """Properties by which Nova places servers. Others that the thing has are left alone."""

    former: tuple[str, ...] = Field(
        default=(), description="Keys that weft has set before and that must not be there any more, sorted."
    )

    @property
    def keys(self) -> Mapping[str, str]:
        """Key -> value, of those that weft sets."""
        raise NotImplementedError

    @property
    def stays(self) -> bool:
        """What was there before weft stays after it, with the values that it had."""
        return True


class FlavorSpec(PropertiesSpec):
    """A flavor that everybody may use."""

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
    """Properties of an image, which others have made."""

    kind: Literal["image_properties"] = "image_properties"
    properties: dict[str, str]

    @property
    def keys(self) -> Mapping[str, str]:
        return self.properties

    def summary(self) -> str:
        return ", ".join(f"{k}={v}" for k, v in sorted(self.properties.items()))
