"""Where machines' BMCs may be: on networks that no tenant reaches. Pure.

Anyone who reaches a BMC can switch the machine off, boot anything on it, and read its console.
"""

from __future__ import annotations

from ipaddress import AddressValueError, IPv4Address, IPv4Network

from weft.model.site import Node, Site
from weft.planning.site.networks import blocks_of_pods


def bmc_wrong(site: Site, node: Node, host: str) -> str | None:
    """What is allowed instead of this address of a machine's BMC; None: it is fine.

    Pods' addresses are never allowed. Where the site describes networks for BMCs, it must be on one of them, and match
    the machine's own interface there; a name isn't enough then, since DNS may change what it resolves to.
    """
    subnets = {
        f"{name}/{subnet}": one.addresses
        for name, network in site.networks.items()
        for subnet, one in network.subnets.items()
        if network.cloud == node.cloud and one.role == "bmc"
    }
    try:
        address = IPv4Address(host)
    except AddressValueError:
        return f"an address {_in(subnets)}, and no name" if subnets else None
    for _, block, owner in blocks_of_pods(site):  # of all clouds: they may reach each other
        if address in block:
            return f"an address outside of {block}, which is for pods ({owner})"
    if not subnets:
        return None
    if not any(address in block for block in subnets.values()):
        return f"an address {_in(subnets)}"
    networks = {name.partition("/")[0] for name in subnets}
    known = sorted(str(i.address) for i in site.interfaces if i.device == node.name and i.network in networks)
    return f"{' or '.join(known)}, as the site has it" if known and str(address) not in known else None


def _in(subnets: dict[str, IPv4Network]) -> str:
    return f"in {' or '.join(f'{block} ({name})' for name, block in sorted(subnets.items()))}"
