"""Checks of a site's P_Key, VLAN and address ranges."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Network

from weft.model.ranges import Range
from weft.model.site import Site
from weft.planning.fabric.segments import unusable
from weft.planning.site.wrongvalues import WrongValue

MAX_VLAN = 4094
"""IEEE 802.1Q: 1 to 4094. A P_Key that is a Neutron segmentation id has the same limit."""


def check_ranges(site: Site) -> list[WrongValue]:
    """Everything that is wrong with ranges."""
    return [*_networks(site), *_ranges(site), *_blocks(site)]


def _networks(site: Site) -> Iterator[WrongValue]:
    """Provider networks have a physical network and numbers; self-service networks have neither."""
    for name, cloud in site.clouds.items():
        management = cloud.management
        for field in ("physical_network", "segments"):
            value, path = getattr(management, field), ("clouds", name, "management", field)
            if management.type == "provider" and value is None:
                yield (
                    path,
                    None,
                    "required for provider networks; with type self-service Neutron allocates the network",
                )
            elif management.type == "self-service" and value is not None:
                shown = f"{value.first} to {value.last}" if isinstance(value, Range) else value
                yield (
                    path,
                    shown,
                    "must be omitted: with type self-service Neutron allocates the network and its number",
                )


def _ranges(site: Site) -> Iterator[WrongValue]:
    """Ranges that are empty, too high, or overlap another one on the same physical network."""
    places: list[tuple[tuple[str | int, ...], str, Range, str]] = [
        (("fabrics", n, "segments"), f.physical_network, f.segments, f"fabric {n}")
        for n, f in site.fabrics.items()
    ]
    for path, _, numbers, _ in places + _management(site):
        if numbers.last > MAX_VLAN:
            yield (
                (*path, "last"),
                numbers.last,
                f"at most {MAX_VLAN}: each number is a Neutron segmentation id",
            )
        if numbers.first > numbers.last:
            yield (*path, "first"), numbers.first, f"not above last, which is {numbers.last}"
    # Two clouds may use the same VLANs on networks of the same name: they have separate Neutrons.
    for count, (path, network, numbers, _) in enumerate(places + _management(site)):
        for _, its_network, its, other in places[:count]:
            if network == its_network and numbers.first <= its.last and its.first <= numbers.last:
                yield (
                    (*path, "first"),
                    f"{numbers.first} to {numbers.last}",
                    f"must not overlap the range of {other} ({its.first} to {its.last}): "
                    f"both are on physical network {network}",
                )


def _management(site: Site) -> list[tuple[tuple[str | int, ...], str, Range, str]]:
    return [
        (("clouds", name, "management", "segments"), *vlans, f"cloud {name}")
        for name, cloud in site.clouds.items()
        if (vlans := cloud.management.vlans) is not None
    ]


def _blocks(site: Site) -> Iterator[WrongValue]:
    for name, cloud in site.clouds.items():
        management = cloud.management
        inner = ("clouds", name, "management")
        yield from _block((*inner, "addresses"), management.addresses, management.prefix, (*inner, "prefix"))
        outer = ("clouds", name)
        yield from _block(
            (*outer, "rdma_addresses"), cloud.rdma_addresses, cloud.rdma_prefix, (*outer, "rdma_prefix")
        )
        if cloud.rdma_addresses.overlaps(management.addresses):
            yield (
                (*outer, "rdma_addresses"),
                str(cloud.rdma_addresses),
                f"must not overlap management.addresses {management.addresses}",
            )


def _block(
    path: tuple[str | int, ...], block: IPv4Network, prefix: int, prefix_path: tuple[str | int, ...]
) -> Iterator[WrongValue]:
    if reason := unusable(block):
        yield path, str(block), f"a network for hosts; this one is {reason}"
    if prefix < block.prefixlen:
        yield prefix_path, prefix, f"{block.prefixlen} or more, to fit into {block}"
