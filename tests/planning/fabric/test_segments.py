"""Numbers are assigned lowest first and never twice, and a refusal names the exhausted range."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.offers import offers
from tests.helpers.smallsite import small_site
from weft.model.errors import InputError
from weft.model.order import NetworkOrder
from weft.model.placement import Refusal
from weft.model.plan import Allotment, UsedNumbers
from weft.planning.fabric.segments import (
    allot,
    management_address,
    management_pool,
    management_size,
    rdma_address,
    rdma_size,
)
from weft.planning.fabric.subnets import SubnetSet, cut, prefix_for


def numbers(
    used: UsedNumbers | None = None, nodes: int = 4, hcas: int = 4, network: NetworkOrder | None = None
) -> Allotment | Refusal:
    return allot(small_site(), "main", "ib", network or NetworkOrder(), used or UsedNumbers(), nodes, hcas)


def test_lowest_free_numbers_are_allocated() -> None:
    """A gap is filled first."""
    assert numbers() == Allotment(
        segment="0x65",
        rdma_cidr="10.128.0.0/24",
        management_cidr="10.16.0.0/24",
        numbers={"segment/ib": 101, "vlan/main": 1000},
    )
    used = UsedNumbers(
        segments={"ib": frozenset({101, 103}), "other": frozenset({102})},
        vlans={"main": frozenset({1000, 1001, 1003})},
        rdma_cidrs={"main": frozenset({"10.128.0.0/24", "10.128.2.0/24"})},
        management_cidrs={"main": frozenset({"10.16.0.0/23"})},
    )
    assert numbers(used) == Allotment(
        segment="0x66",
        rdma_cidr="10.128.1.0/24",
        management_cidr="10.16.2.0/24",
        numbers={"segment/ib": 102, "vlan/main": 1002},
    )


@pytest.mark.parametrize(
    ("used", "reason"),
    [
        (UsedNumbers(segments={"ib": frozenset(range(101, 227))}),
         "fabric ib: all P_Keys of its range 101 to 226 are in use"),
        (UsedNumbers(vlans={"main": frozenset(range(1000, 1200))}),
         "cloud main: all management VLANs 1000 to 1199 are in use"),
        (UsedNumbers(rdma_cidrs={"main": frozenset({"10.0.0.0/8"})}),
         "cloud main: no free subnet of 18 addresses is left in rdma_addresses 10.128.0.0/16"),
        (UsedNumbers(management_cidrs={"main": frozenset({"10.16.0.0/17", "10.16.128.0/17"})}),
         "cloud main: no free subnet of 21 addresses is left in management.addresses 10.16.0.0/16"),
    ],
)  # fmt: skip
def test_exhausted_range_is_a_refusal_with_the_reason(used: UsedNumbers, reason: str) -> None:
    """The order is refused and not failed, since a released pod frees numbers."""
    refusal = numbers(used)
    assert isinstance(refusal, Refusal)
    assert refusal.reason == reason
    assert offers(refusal)


def test_large_pod_gets_a_larger_subnet() -> None:
    """400 nodes with 4 adapters have 1,600 RDMA addresses: a /21, though the site's usual prefix is 24."""
    allotment = numbers(nodes=400, hcas=4)
    assert isinstance(allotment, Allotment)
    assert (allotment.rdma_cidr, allotment.management_cidr) == ("10.128.0.0/21", "10.16.0.0/23")


def test_pod_larger_than_the_block_is_refused() -> None:
    """No subnet of the block is large enough, however empty it is."""
    refusal = numbers(nodes=10_000, hcas=8)
    assert isinstance(refusal, Refusal)
    assert "no free subnet of 80002 addresses" in refusal.reason


def test_given_subnets_are_used_unchanged() -> None:
    """Other pods may use them too, as long as the pod's own two don't overlap."""
    given = NetworkOrder(rdma=IPv4Network("192.168.0.0/26"), management=IPv4Network("192.168.1.0/24"))
    used = UsedNumbers(rdma_cidrs={"main": frozenset({"192.168.0.0/26"})})
    allotment = numbers(used, network=given)
    assert isinstance(allotment, Allotment)
    assert (allotment.rdma_cidr, allotment.management_cidr) == ("192.168.0.0/26", "192.168.1.0/24")


def test_allocated_subnet_avoids_the_given_one() -> None:
    """A given management subnet moves the allocated RDMA subnet, and vice versa."""
    one = numbers(network=NetworkOrder(management=IPv4Network("10.128.0.0/24")))
    other = numbers(network=NetworkOrder(rdma=IPv4Network("10.16.0.0/23")))
    assert isinstance(one, Allotment)
    assert isinstance(other, Allotment)
    assert one.rdma_cidr == "10.128.1.0/24"
    assert other.management_cidr == "10.16.2.0/24"


@pytest.mark.parametrize(
    ("field", "cidr", "sentence"),
    [
        ("rdma", "192.168.0.0/28", "network.rdma: '192.168.0.0/28' is not allowed: "
         "4 nodes need 18 addresses: at least a /27"),
        ("management", "192.168.0.0/28", "network.management: '192.168.0.0/28' is not allowed: "
         "4 nodes need 21 addresses: at least a /27"),
        ("rdma", "127.0.0.0/16", "network.rdma: '127.0.0.0/16' is not allowed: "
         "a unicast network; this one is for loopback"),
        ("management", "239.0.0.0/16", "network.management: '239.0.0.0/16' is not allowed: "
         "a unicast network; this one is for multicast"),
        ("management", "0.0.0.0/0", "network.management: '0.0.0.0/0' is not allowed: "
         "a unicast network; this one is \"this network\" (0.0.0.0/8)"),
    ],
)  # fmt: skip
def test_unusable_given_subnet_is_an_input_error(field: str, cidr: str, sentence: str) -> None:
    """Too small or not for hosts; one sentence names the field."""
    with pytest.raises(InputError) as caught:
        numbers(network=NetworkOrder(**{field: IPv4Network(cidr)}))
    assert str(caught.value) == sentence


def test_given_subnets_that_overlap_are_refused() -> None:
    """One pod's two networks would have the same addresses."""
    both = NetworkOrder(rdma=IPv4Network("10.0.0.0/16"), management=IPv4Network("10.0.4.0/24"))
    with pytest.raises(
        InputError, match=r"network.management: '10.0.4.0/24' .* overlap network.rdma 10.0.0.0/16"
    ):
        numbers(network=both)


@given(st.integers(1, 300), st.integers(1, 16))
def test_addresses_are_unique_and_inside_their_subnet(nodes: int, hcas: int) -> None:
    """No adapter or server gets the address of the network, the gateway or DHCP."""
    allotment = allot(small_site(), "main", "ib", NetworkOrder(), UsedNumbers(), nodes, hcas)
    assert isinstance(allotment, Allotment)
    rdma = [rdma_address(allotment.rdma_cidr, i, j, hcas) for i in range(nodes) for j in range(hcas)]
    management = [management_address(allotment.management_cidr, i) for i in range(nodes)]
    for cidr, addresses in ((allotment.rdma_cidr, rdma), (allotment.management_cidr, management)):
        network = IPv4Network(cidr)
        assert len(set(addresses)) == len(addresses)
        assert all(IPv4Address(a) in network for a in addresses)
        assert not {str(network[0]), str(network[-1])} & set(addresses)
    first, last = management_pool(allotment.management_cidr)
    network = IPv4Network(allotment.management_cidr)
    pool = {str(network[i]) for i in range(2, 16)}
    assert {first, last} <= pool
    assert not pool & set(management)
    assert str(network[1]) not in management


@given(st.sets(st.integers(0, 255), max_size=60), st.integers(20, 28))
def test_allocated_subnet_is_the_lowest_that_overlaps_nothing(taken: set[int], prefix: int) -> None:
    """Compared with a plain search through all subnets of the block."""
    block = IPv4Network("10.0.0.0/16")
    used = [IPv4Network(f"10.0.{n}.0/{24 + n % 5}") for n in taken]
    expected = next(
        (n for n in block.subnets(new_prefix=prefix) if not any(n.overlaps(u) for u in used)), None
    )
    texts = [str(n) for n in used]
    assert cut(block, prefix, 2, frozenset(texts)) == expected
    assert cut(block, prefix, 2, frozenset(texts[::2]), used[1::2]) == expected
    changed = SubnetSet(texts[::2]).with_changes(texts[:3:2], [*texts[1::2], *texts[:3:2]])
    assert changed == frozenset(texts) and (changed.keys == SubnetSet(texts).keys).all()
    assert cut(block, prefix, 2, changed) == expected


@given(st.integers(2, 1 << 20))
def test_prefix_for_a_number_of_addresses_is_the_smallest_that_holds_them(size: int) -> None:
    """One bit less would be too small."""
    length = prefix_for(size)
    assert 1 << (32 - length) >= size > 1 << (31 - length)


def test_sizes_include_reserved_addresses() -> None:
    """RDMA: network and broadcast address; management: also gateway and DHCP ports."""
    assert rdma_size(4, 4) == 18
    assert management_size(4) == 21
