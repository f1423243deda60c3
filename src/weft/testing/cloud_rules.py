"""What the fake cloud refuses, like the real services, and what servers do to their ports."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from ipaddress import IPv4Network

from weft.model.resources import AnyKind, Kind
from weft.model.specs import RULES_OF_A_GROUP
from weft.testing.cloud_aggregates import kept_off
from weft.testing.cloud_state import Offers, Thing, Trunk

_Rule = Callable[[str, Mapping[str, object], Sequence[Thing], Sequence[Thing], Offers], str | None]

VLAN_IN_USE = "HTTP 409: VLAN"
"""Beginning of the refusal of a VLAN that another network has."""


def refusal_of_creation(
    kind: AnyKind,
    name: str,
    fields: Mapping[str, object],
    project_id: str,
    things: Sequence[Thing],
    offers: Offers,
) -> str | None:
    """Why the cloud refuses to create it, or None."""
    quota = kind.row.quota
    limit = offers.quotas.get((project_id, quota), -1)
    if 0 <= limit <= used_quota(quota, project_id, things, offers):
        return f"Quota exceeded for resources: {quota}, limit {limit}"
    same = [t for t in things if t.kind is kind]
    rule = _RULES.get(kind)
    return rule(name, fields, same, things, offers) if rule else None


def refusal_of_deletion(thing: Thing, things: Sequence[Thing], trunks: Iterable[Trunk] = ()) -> str | None:
    """What still uses the thing, or None."""
    for trunk in trunks:
        if thing.id == trunk.parent:
            return f"HTTP 409 PortInUseAsTrunkParent: trunk {trunk.id}"
        if thing.id in trunk.subports:
            return f"HTTP 409 PortInUseAsSubPort: trunk {trunk.id}"
    users: Mapping[AnyKind, tuple[Kind, ...]] = {
        Kind.NETWORK: (Kind.PORT,),
        Kind.SUBNET: (Kind.PORT, Kind.ROUTER),
        Kind.SECURITY_GROUP: (Kind.PORT,),
        Kind.ROUTER: (Kind.FLOATING_IP,),
        Kind.VOLUME: (Kind.VOLUME_ATTACHMENT,),
    }
    for other in things:
        on_it = other.kind is Kind.SERVER and _host(other) == thing.fields.get("machine")
        if thing.kind is Kind.MACHINE and on_it:
            return f"it has instance {other.id}"
        if other.kind in users.get(thing.kind, ()) and _mentions(other, thing):
            return f"HTTP 409: still in use by {other.kind} {other.name}"
        if other.kind is Kind.SUBNET and _is_sites(thing) and other.fields.get("network") == thing.id:
            return f"it still has subnet {other.name}, which Neutron would delete with it"
    return None


def _is_sites(thing: Thing) -> bool:
    return thing.kind is Kind.NETWORK and thing.mark is not None and thing.mark.owner.kind == "site"


def used_quota(name: str, project_id: str, things: Sequence[Thing], offers: Offers) -> int:
    """How much of a quota the project uses now."""
    mine = [t for t in things if t.project_id == project_id]
    servers = [t for t in mine if t.kind is Kind.SERVER]
    if name in ("cores", "RAM (MiB)"):
        flavors = [offers.flavors[str(s.fields.get("flavor"))] for s in servers if s.fields.get("flavor")]
        return sum(f.vcpus if name == "cores" else f.ram for f in flavors)
    if name == "security group rules":
        groups = [t for t in mine if t.kind is Kind.SECURITY_GROUP]
        return sum(RULES_OF_A_GROUP + len(_many(g, "ssh_from")) + len(_many(g, "ingress")) for g in groups)
    sized = {"share gigabytes": Kind.SHARE, "volume gigabytes": Kind.VOLUME}
    if name in sized:
        return sum(int(str(t.fields["gib"])) for t in mine if t.kind is sized[name])
    return sum(1 for t in mine if t.kind.row.quota == name)


def failed_boot(server: Thing, things: Sequence[Thing], offers: Offers) -> str:
    """Why the scheduler finds no host for a new server, or an empty string."""
    if server.kind is not Kind.SERVER:
        return ""
    host = str(server.fields.get("host"))
    if offers.hosts.get(host) != "up":
        return f"No valid host was found. {host} is {offers.hosts.get(host, 'unknown')}"
    image, flavor = str(server.fields.get("image")), str(server.fields.get("flavor"))
    if flavor in offers.flavors and (why := offers.unfit(host, image, flavor)):
        return f"No valid host was found. {why}"
    if why := kept_off(host, flavor, things):
        return f"No valid host was found. {why}"
    whole = {t.id for t in things if t.fields.get("vnic_type") == "direct-physical"}
    for other in things:
        rival = other.kind is Kind.SERVER and other.id != server.id and other.fields.get("host") == host
        if (
            rival
            and not other.broken
            and whole.intersection(_many(server, "ports"))
            and whole.intersection(_many(other, "ports"))
        ):
            return f"No valid host was found. The adapters of {host} are with {other.name}"
    return ""


def _host(server: Thing) -> str:
    return str(server.fields.get("host") or "")


def host_of(server: Thing) -> str:
    """Nova host of a server; one that is broken or shelved has none."""
    return "" if server.broken and not server.hosted else str(server.fields.get("host") or "")


def bind_ports(server: Thing, things: Mapping[str, Thing], offers: Offers, away: bool = False) -> None:
    """Bind a server's ports on its host when it is created, and unbind them when it is deleted."""
    if server.kind is not Kind.SERVER:
        return
    for port in (things[i] for i in _many(server, "ports") if i in things):
        vif = {"direct-physical": "hostdev_physical", "direct": "hw_veb", "baremetal": "other"}
        port.facts["device_id"] = "" if away else server.id
        port.facts["vif_type"] = "unbound" if away else vif.get(str(port.fields.get("vnic_type")), "ovs")
        port.facts["bound_host"] = "" if away else server.fields.get("host")
        if port.fields.get("vnic_type") in ("direct", "direct-physical"):
            taken = {
                t.facts.get("pci_slot") for t in things.values() if t.facts.get("bound_host") == _host(server)
            }
            whole = port.fields.get("vnic_type") == "direct-physical"
            there = offers.adapters if whole else offers.functions.get(_host(server), [])
            free = [slot for slot in there if slot not in taken]
            port.facts["pci_slot"] = None if away or not free else free[0]


def segments_of(network: Thing) -> list[tuple[str, int]]:
    """Physical network and VLAN of each segment. A network with several (a routed provider network) lists them in
    `segments`.
    """
    several = network.fields.get("segments") or ()
    assert isinstance(several, tuple)
    one = (network.fields.get("physical_network"), network.fields.get("segment"))
    return [(str(place), number) for place, number in (one, *several) if isinstance(number, int)]


def _network(
    name: str, fields: Mapping[str, object], same: Sequence[Thing], things: Sequence[Thing], offers: Offers
) -> str | None:
    where = (fields["physical_network"], fields["segment"])
    for other in same if where[1] is not None else ():
        if where in segments_of(other):
            return f"{VLAN_IN_USE} {where[1]} on {where[0]} is in use by {other.name}"
    return None


def _port(
    name: str, fields: Mapping[str, object], same: Sequence[Thing], things: Sequence[Thing], offers: Offers
) -> str | None:
    where = (fields["network"], fields.get("site_network"), fields["address"])
    for other in same if fields["address"] else ():
        there = (other.fields.get("network"), other.fields.get("site_network"), other.fields.get("address"))
        if there == where:
            return f"HTTP 409: address {fields['address']} is in use by {other.name}"
        if fields.get("mac") and (there[:2], other.fields.get("mac")) == (where[:2], fields["mac"]):
            return f"HTTP 409: MAC address {fields['mac']} is in use by {other.name}"
    return None


def _subnet(
    name: str, fields: Mapping[str, object], same: Sequence[Thing], things: Sequence[Thing], offers: Offers
) -> str | None:
    block = IPv4Network(str(fields["cidr"]))
    for other in (s for s in same if s.fields.get("network") == fields["network"]):
        if IPv4Network(str(other.fields["cidr"])).overlaps(block):
            return f"HTTP 400: {block} overlaps {other.fields['cidr']} of {other.name}"
    return None


def _server(
    name: str, fields: Mapping[str, object], same: Sequence[Thing], things: Sequence[Thing], offers: Offers
) -> str | None:
    host = str(fields["host"])
    if host not in offers.hosts:
        return f"HTTP 400: compute host {host} could not be found"
    wanted = fields["ports"]
    assert isinstance(wanted, tuple)
    for other in same:
        if taken := set(wanted) & set(_many(other, "ports")):
            return f"HTTP 409: port {min(taken)} is in use by {other.name}"
    return None


def _aggregate(
    name: str, fields: Mapping[str, object], same: Sequence[Thing], things: Sequence[Thing], offers: Offers
) -> str | None:
    return next((f"HTTP 409: Aggregate {t.name} already exists." for t in same if t.name == name), None)


def _key_pair(
    name: str, fields: Mapping[str, object], same: Sequence[Thing], things: Sequence[Thing], offers: Offers
) -> str | None:
    return next((f"HTTP 409: key pair {t.name} is there" for t in same if t.name == name), None)


def _attachment(
    name: str, fields: Mapping[str, object], same: Sequence[Thing], things: Sequence[Thing], offers: Offers
) -> str | None:
    volume = fields["volume_id"] or fields["volume"]
    taken = next((t for t in same if volume in (t.fields["volume_id"], t.fields["volume"])), None)
    if taken is not None:
        return f"HTTP 400: volume {volume} is in-use by {taken.name}"
    there = {t.id for t in things}
    return next((f"HTTP 404: no {one}" for one in (volume, fields["server"]) if one not in there), None)


def _access(
    name: str, fields: Mapping[str, object], same: Sequence[Thing], things: Sequence[Thing], offers: Offers
) -> str | None:
    share = fields["share_id"] or fields["share"]
    if share not in {t.id for t in things}:
        return f"HTTP 404: share {share} could not be found"
    where = (share, fields["port"])
    taken = (t for t in same if (t.fields["share_id"] or t.fields["share"], t.fields["port"]) == where)
    return next((f"HTTP 400: {t.name} has that address" for t in taken), None)


def _external(
    name: str, fields: Mapping[str, object], same: Sequence[Thing], things: Sequence[Thing], offers: Offers
) -> str | None:
    external = fields["external_network"]
    return None if external in offers.external_networks else f"HTTP 404: no external network {external}"


_RULES: Mapping[AnyKind, _Rule] = {
    Kind.NETWORK: _network,
    Kind.PORT: _port,
    Kind.SUBNET: _subnet,
    Kind.SERVER: _server,
    Kind.AGGREGATE: _aggregate,
    Kind.KEY_PAIR: _key_pair,
    Kind.ROUTER: _external,
    Kind.FLOATING_IP: _external,
    Kind.VOLUME_ATTACHMENT: _attachment,
    Kind.SHARE_ACCESS: _access,
}


def _many(thing: Thing, field: str) -> tuple[str, ...]:
    value = thing.fields.get(field, ())
    return tuple(str(v) for v in value) if isinstance(value, tuple) else (str(value),)


def _mentions(user: Thing, thing: Thing) -> bool:
    return any(thing.id in _many(user, name) for name in user.fields)
