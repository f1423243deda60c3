"""Checks of flavors that weft creates, of images whose properties it sets, and of aggregates. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from weft.model.novaflavor import NovaFlavor, extra_specs, miscounted
from weft.model.site import Flavor, ImageProperties, Site
from weft.planning.site.aggregates import MOST, wanted_aggregates
from weft.planning.site.wrongvalues import WrongValue

Path = tuple[str | int, ...]
PREFIXES = ("hw_", "os_", "img_", "trait:", "resources:")
"""Prefixes of image properties that Nova reads; others don't affect where a server runs."""


def check_nova_things(site: Site) -> Iterator[WrongValue]:
    """Everything that is wrong with flavors, images and aggregates."""
    for name, cloud in site.clouds.items():
        for flavor, one in cloud.flavors.items():
            if one.nova is not None:
                yield from _flavor(one, ("clouds", name, "flavors", flavor, "nova"))
        for image, properties in cloud.images.items():
            yield from _image(properties, ("clouds", name, "images", image, "properties"))
        for machines, aggregate in wanted_aggregates(site, name).items():
            if (long := len(aggregate.instance_type)) > MOST:
                allowed = f"at most {MOST} characters with commas, or hosts_kept_free: otherwise"
                yield ("clouds", name, "flavors"), f"{long} characters of names for {machines}", allowed


def _flavor(flavor: Flavor, path: Path) -> Iterator[WrongValue]:
    assert flavor.nova is not None
    following = {} if flavor.bare_metal else extra_specs(flavor)
    for field, value, default in (
        ("vcpus", flavor.vcpus, "cores"),
        ("ram_mib", flavor.ram_mib, "memory_mib"),
    ):
        if not value:
            yield (*path, field), None, f"required without {default} of the flavor"
    own = flavor.nova.extra_specs
    for key, value in own.items():
        if key.startswith("weft:"):
            yield (*path, "extra_specs", key), value, "none of weft's own, which it sets itself"
        elif key in following and following[key] != value:
            allowed = f"{following[key]}, which follows from the flavor, or nothing"
            yield (*path, "extra_specs", key), value, allowed
    whole = NovaFlavor(flavor.vcpus, flavor.ram_mib, {**own, **following}, {})
    if flavor.vcpus and flavor.ram_mib and not flavor.bare_metal and (why := miscounted(flavor, whole)):
        listed = ", ".join(f"{k}={v}" for k, v in sorted(own.items())) or "none"
        yield (*path, "extra_specs"), listed, f"one that agrees with the flavor: {why}"


def _image(image: ImageProperties, path: Path) -> Iterator[WrongValue]:
    for key, value in image.properties.items():
        if not key.startswith(PREFIXES):
            yield (*path, key), value, f"a property that Nova reads: {', '.join(PREFIXES)} and more letters"
