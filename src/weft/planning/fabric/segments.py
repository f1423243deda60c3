"""Allocates numbers for a pod: segment, VLAN, subnets and addresses. Lowest free first, so that it is deterministic.

A fabric's segment has the number of the RDMA network in Neutron (on InfiniBand, VLAN 101 is P_Key 0x65), as Neutron's
own drivers have it.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from ipaddress import IPv4Network
from itertools import filterfalse

from weft.model.errors import InputError
from weft.model.messages import placement
from weft.model.messages.orders import instead
from weft.model.offer import NumbersOffer
from weft.model.order import NetworkOrder
from weft.model.placement import Explanation, Refusal
from weft.model.plan import Allotment, UsedNumbers
from weft.model.ranges import Range
from weft.model.site import ManagementNetwork, Site
from weft.model.spaces import SEGMENT, VLAN
from weft.planning.fabric.subnets import NO_SUBNETS, cut, prefix_for

MANAGEMENT_OFFSET = 16
"""Servers' management addresses start here: below are the gateway (1) and the cloud's DHCP ports (2 to 15)."""

WIDEST = 8
"""Prefix length of the largest network that an order may name."""


def allot(
    site: Site,
    cloud: str,
    fabric: str | None,
    network: NetworkOrder,
    used: UsedNumbers,
    nodes: int,
    hcas: int,
) -> Allotment | Refusal:
    """The numbers for a pod of `nodes` nodes with up to `hcas` adapters each on a fabric; None: it has no RDMA network.

    A subnet in the order may be any: pods' networks are isolated from each other, so it can't conflict with allocated
    ones (`used` only has these).

    Returns a `Refusal` when a range or block is exhausted.
    Raises `InputError` for a subnet in the order that is too small, not usable, or overlaps the other one.
    """
    wanted = check_given(network, nodes, hcas)
    place, numbers = site.clouds[cloud], dict[str, int]()
    text = None
    if fabric is not None:
        rails = site.fabrics[fabric]
        segment = lowest_free(rails.segments, used.segments.get(fabric, frozenset()))
        if segment is None:
            what = rails.words.words
            return exhausted(
                placement.NUMBERS_EXHAUSTED(
                    place=f"fabric {fabric}",
                    what=f"{what} of its range",
                    first=rails.segments.first,
                    last=rails.segments.last,
                )
            )
        numbers[SEGMENT + fabric], text = segment, rails.words.text(segment)
    management = place.management
    vlan = management_vlan(management, cloud, used)
    if vlan is None:
        assert management.segments is not None
        return exhausted(
            placement.NUMBERS_EXHAUSTED(
                place=f"cloud {cloud}",
                what="management VLANs",
                first=management.segments.first,
                last=management.segments.last,
            )
        )
    rdma = None
    if fabric is not None:
        taken, size = used.rdma_cidrs.get(cloud, NO_SUBNETS), rdma_size(nodes, hcas)
        rdma = network.rdma or cut(place.rdma_addresses, place.rdma_prefix, size, taken, wanted)
        if rdma is None:
            return _no_block(cloud, "rdma_addresses", place.rdma_addresses, rdma_size(nodes, hcas))
    taken, size = used.management_cidrs.get(cloud, NO_SUBNETS), management_size(nodes)
    given = [*wanted, *([rdma] if rdma else [])]
    ethernet = network.management or cut(management.addresses, management.prefix, size, taken, given)
    if ethernet is None:
        return _no_block(cloud, "management.addresses", management.addresses, size)
    numbers |= vlan
    return Allotment(segment=text, rdma_cidr=str(rdma or ""), management_cidr=str(ethernet), numbers=numbers)


def check_given(network: NetworkOrder, nodes: int, hcas: int) -> list[IPv4Network]:
    """The order's own subnets. Raises `InputError` for one that is too small, not usable, or overlaps the other."""
    sizes = {"rdma": rdma_size(nodes, hcas), "management": management_size(nodes)}
    given = {"rdma": network.rdma, "management": network.management}
    for name, cidr in given.items():
        if cidr is None:
            continue
        if reason := unusable(cidr):
            raise InputError(
                f"network.{name}",
                str(cidr),
                instead("a unicast network; this one is {reason}", reason=reason),
            )
        if cidr.prefixlen < WIDEST:
            raise InputError(f"network.{name}", str(cidr), instead("at most a /{widest}", widest=WIDEST))
        if cidr.num_addresses < sizes[name]:
            raise InputError(
                f"network.{name}",
                str(cidr),
                instead(
                    "{nodes} nodes need {name} addresses: at least a /{name2}",
                    nodes=nodes,
                    name=sizes[name],
                    name2=prefix_for(sizes[name]),
                ),
            )
    if network.rdma and network.management and network.rdma.overlaps(network.management):
        raise InputError(
            "network.management",
            str(network.management),
            instead("must not overlap network.rdma {rdma}", rdma=str(network.rdma)),
        )
    return [n for n in given.values() if n is not None]


def management_vlan(place: ManagementNetwork, cloud: str, used: UsedNumbers) -> dict[str, int] | None:
    """The VLAN of a pod's management network by its space, empty if Neutron allocates it; None: all are in use."""
    if place.vlans is None:
        return {}
    vlan = lowest_free(place.vlans[1], used.vlans.get(cloud, frozenset()))
    return None if vlan is None else {VLAN + cloud: vlan}


def lowest_free(numbers: Range, used: Collection[int]) -> int | None:
    """The lowest number of the range that isn't used, or None."""
    return next(filterfalse(used.__contains__, numbers.numbers()), None)


def rdma_size(nodes: int, hcas: int) -> int:
    """Addresses that the RDMA subnet needs: one per adapter, plus network and broadcast address."""
    return nodes * hcas + 2


def management_size(nodes: int) -> int:
    """Addresses that the management subnet needs, including the cloud's own and the broadcast address."""
    return MANAGEMENT_OFFSET + nodes + 1


def rdma_address(cidr: str, node: int, hca: int, hcas: int) -> str:
    """Address of adapter `hca` (from 0) of node `node` (from 0) where each node has up to `hcas`."""
    return str(_network(cidr)[1 + node * hcas + hca])


def management_address(cidr: str, node: int) -> str:
    """Management address of node `node` (from 0)."""
    return str(_network(cidr)[MANAGEMENT_OFFSET + node])


def management_pool(cidr: str) -> tuple[str, str]:
    """First and last address that the cloud itself may allocate."""
    network = _network(cidr)
    return str(network[2]), str(network[MANAGEMENT_OFFSET - 1])


_UNUSABLE = {
    IPv4Network("0.0.0.0/8"): '"this network" (0.0.0.0/8)',
    IPv4Network("224.0.0.0/4"): "for multicast",
    IPv4Network("127.0.0.0/8"): "for loopback",
    IPv4Network("169.254.0.0/16"): "link-local",
    IPv4Network("240.0.0.0/4"): "reserved",
}


def unusable(cidr: IPv4Network) -> str:
    """Why a network is unusable for hosts; empty if it is usable."""
    return next((reason for block, reason in _UNUSABLE.items() if cidr.overlaps(block)), "")


@lru_cache(maxsize=1 << 10)
def _network(cidr: str) -> IPv4Network:
    """The parsed network; cached, since the text is otherwise parsed once for each address."""
    return IPv4Network(cidr)


def exhausted(reason: str) -> Refusal:
    """The refusal for lack of numbers or subnets."""
    return Refusal(
        reason=reason,
        explanation=Explanation(considered=0, chosen=reason),
        would_fit=(NumbersOffer(),),
    )


def _no_block(cloud: str, field: str, block: IPv4Network, size: int) -> Refusal:
    return exhausted(placement.SUBNETS_EXHAUSTED(place=f"cloud {cloud}", size=size, field=f"{field} {block}"))
