"""Storage of a pod: what an order may ask for, its resources, and what its servers mount.

Shares are open to the addresses of the pod's own ports alone: one rule for each. A volume belongs to a server's number
in the pod, not to its node.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from weft.model.errors import ConflictError, InputError
from weft.model.messages import orders
from weft.model.messages.orders import instead
from weft.model.order import Order
from weft.model.podkeys import place
from weft.model.site import Cloud, Flavor, Storage
from weft.model.specs import (
    Egress,
    PortSpec,
    SecurityGroupSpec,
    ShareAccessSpec,
    ShareSpec,
    VolumeAttachmentSpec,
    VolumeSpec,
)
from weft.model.storageorder import StorageOrder
from weft.planning.shapes.graph import DesiredResource, Member
from weft.planning.shapes.mounts import Mount, nfs_options, with_mounts

STORAGE_GROUP = "security_group/storage"


def check_storage(order: Order, cloud: str, place_: Cloud, flavor: Flavor) -> None:
    """Raise `InputError` for storage that the site doesn't have, or that these servers can't use."""
    offer, bare = place_.storage, order.nodes.kind == "bare_metal"
    for number, entry in enumerate(order.storage):
        field = f"storage.{number}.{entry.kind}"
        if entry.kind == "share" and not offer.shares:
            raise InputError(
                field, entry.name, instead("cloud {cloud} has no shares (Manila) in the site", cloud=cloud)
            )
        if entry.kind == "volume" and not offer.volumes:
            raise InputError(
                field, entry.name, instead("cloud {cloud} has no volumes (Cinder) in the site", cloud=cloud)
            )
        if entry.kind == "volume" and bare:
            raise InputError(
                field,
                entry.name,
                instead("must be omitted with nodes.kind bare_metal: only virtual machines can have volumes"),
            )
        if entry.kind == "export" and entry.name not in offer.exports:
            known = ", ".join(sorted(offer.exports)) or "none"
            raise InputError(
                field, entry.name, instead("exports of cloud {cloud}: {known}", cloud=cloud, known=known)
            )
        if entry.kind == "scratch" and not flavor.nvme:
            raise InputError(
                field,
                entry.name,
                instead("must be omitted: servers of this flavor have no local NVMe drives in the site"),
            )
        if entry.kind in ("share", "export") and bare and offer.network:
            raise InputError(
                field,
                entry.name,
                instead(
                    "must be omitted with nodes.kind bare_metal: machines aren't on the storage network of cloud "
                    "{cloud}",
                    cloud=cloud,
                ),
            )
        if entry.kind == "volume" and entry.existing and len(entry.existing) < order.nodes.count:
            raise _too_few(number, entry, order.nodes.count)


def check_addresses(order: Order, cloud: str, offer: Storage) -> None:
    """Raise `InputError` if the order chooses its own addresses on a network where access rules identify the servers
    of all pods by address."""
    if order.network.management is not None and offer.shares and offer.network is None:
        raise InputError(
            "network.management",
            str(order.network.management),
            f"must be omitted: servers of cloud {cloud} mount shares from these addresses, which weft gives to one pod "
            "alone",
        )


@dataclass(frozen=True, slots=True)
class ServerStorage:
    """One server's part of the pod's storage.

    Attributes:
        ports: keys of the ports for storage, which come after its others.
        needs: keys of resources that must exist before it boots.
        places: as `ServerSpec.storage`.
    """

    ports: tuple[str, ...]
    needs: tuple[str, ...]
    places: tuple[str, ...]
    user_data: str | None


@dataclass(frozen=True, slots=True)
class PodStorage:
    """The storage of one pod.

    Args:
        inside: its servers.
    """

    order: Order
    offer: Storage
    inside: Sequence[Member]

    def wanted(self) -> Iterator[DesiredResource]:
        """Every resource of the pod's storage."""
        if self._has_ports:
            yield from self._ports()
        for entry in self.order.storage:
            if entry.kind == "share":
                yield from self._share(entry)
            elif entry.kind == "volume":
                yield from self._volumes(entry)

    def of(self, member: Member, own: str | None) -> ServerStorage:
        """Storage of one server. Args: own: its user data without storage. Raises `InputError` if too long."""
        ports = (_port(member),) if self._has_ports else ()
        named = [e for e in self.order.storage if e.kind in ("share", "volume")]
        rules = [_access(e, member) for e in named if e.kind == "share"]
        things = [_thing(e, member) for e in named]
        made = [t for t, e in zip(things, named, strict=True) if not e.existing]
        places = tuple(t for t, e in zip(things, named, strict=True) if e.kind == "share" or not e.existing)
        user_data = with_mounts(own, (self._mount(e, member) for e in self.order.storage))
        return ServerStorage(ports, (*made, *rules), places, user_data)

    @property
    def _has_ports(self) -> bool:
        """Whether servers get ports on the site's storage network."""
        return self.offer.network is not None and any(
            e.kind in ("share", "export") for e in self.order.storage
        )

    def _ports(self) -> Iterator[DesiredResource]:
        out = tuple(Egress(protocol=p, to="0.0.0.0/0") for p in ("tcp", "udp", "icmp"))
        # Servers mount; nothing on the storage network may connect to them.
        yield DesiredResource(STORAGE_GROUP, SecurityGroupSpec(ssh_from=(), egress=out))
        for m in self.inside:
            port = PortSpec(
                network="",
                subnet="",
                site_network=self.offer.network,
                address="",
                vnic_type="normal",
                security_groups=(STORAGE_GROUP,),
                host=m.node.nova_host,
            )
            yield DesiredResource(_port(m), port, (STORAGE_GROUP,), m.node.name)

    def _share(self, entry: StorageOrder) -> Iterator[DesiredResource]:
        key = f"share/{entry.name}"
        ports = {m.name: self._mounts_from(m) for m in self.inside}
        if not entry.existing:
            share = ShareSpec(
                gib=entry.gib,
                share_type=entry.type or self.offer.share_type,
                ports=tuple(sorted(ports.values())),
                kept_as=f"{self.order.name}-{entry.name}" if entry.keep else None,
            )
            yield DesiredResource(key, share)
        for m in self.inside:
            rule = ShareAccessSpec(
                share="" if entry.existing else key,
                share_id=entry.existing[0] if entry.existing else None,
                port=ports[m.name],
                read_only=entry.read_only,
            )
            needs = (ports[m.name],) if entry.existing else (key, ports[m.name])
            yield DesiredResource(_access(entry, m), rule, needs, m.node.name)

    def _volumes(self, entry: StorageOrder) -> Iterator[DesiredResource]:
        for m in self.inside:
            key = f"volume/{entry.name}/{m.index}"
            if not entry.existing:
                volume = VolumeSpec(
                    gib=entry.gib,
                    volume_type=entry.type or self.offer.volume_type,
                    kept_as=f"{self.order.name}-{entry.name}-{m.index}" if entry.keep else None,
                )
                yield DesiredResource(key, volume)
            if entry.existing and m.index >= len(entry.existing):  # numbers of nodes that left stay free
                raise _too_few(self.order.storage.index(entry), entry, m.index + 1)
            server = f"server/{m.name}"
            attached = VolumeAttachmentSpec(
                volume="" if entry.existing else key,
                volume_id=entry.existing[m.index] if entry.existing else None,
                server=server,
            )
            needs = (server,) if entry.existing else (key, server)
            yield DesiredResource(f"volume_attachment/{entry.name}/{m.name}", attached, needs, m.node.name)

    def _mount(self, entry: StorageOrder, member: Member) -> Mount:
        match entry.kind:
            case "share":
                return Mount("nfs", entry.mount, place(_thing(entry, member)), nfs_options(entry.read_only))
            case "export":
                export = self.offer.exports.get(entry.name)
                if export is None:  # the order was checked when the site had it
                    raise ConflictError(orders.EXPORT_NOT_IN_SITE(export=entry.name, pod=self.order.name))
                options = nfs_options(entry.read_only or export.read_only, export.options)
                return Mount("nfs", entry.mount, export.location, options)
            case "volume":
                id_ = entry.existing[member.index] if entry.existing else place(_thing(entry, member))
                return Mount("volume", entry.mount, id_, "existing" if entry.existing else "new")
            case "scratch":
                return Mount("scratch", entry.mount)

    def _mounts_from(self, member: Member) -> str:
        return _port(member) if self.offer.network is not None else member.management_port


def storage_words(entry: StorageOrder) -> tuple[str, str]:
    """What an entry is, and who may use it for how long, for people."""
    reads = "read by" if entry.read_only else "for"
    size = f", {entry.size}" + (f", type {entry.type}" if entry.type else "") if entry.size else ""
    what = f"{entry.kind} {entry.name}{size}" + (
        f", existing: {', '.join(entry.existing)}" if entry.existing else ""
    )
    until = (
        "stays when the pod is released"
        if entry.keep or entry.existing
        else "deleted with everything on it when the pod is released"
    )
    match entry.kind:
        case "share":
            return what, f"{reads} the pod's addresses alone; {until}"
        case "volume":
            return what, f"one for each server; {until}"
        case "export":
            return what, "the site's own: weft only mounts it, and its server says who may"
        case "scratch":
            return "local NVMe drives, striped", "each server its own, for as long as it exists"


def _too_few(number: int, entry: StorageOrder, needed: int) -> InputError:
    given = len(entry.existing)
    return InputError(
        f"storage.{number}.existing",
        given,
        instead("at least {needed} volumes, one for each node", needed=needed),
    )


def _port(member: Member) -> str:
    return f"port/{member.name}/storage"


def _access(entry: StorageOrder, member: Member) -> str:
    return f"share_access/{entry.name}/{member.name}"


def _thing(entry: StorageOrder, member: Member) -> str:
    """Key of the share or volume; the id of an existing one."""
    if entry.kind == "share":
        return entry.existing[0] if entry.existing else f"share/{entry.name}"
    return entry.existing[member.index] if entry.existing else f"volume/{entry.name}/{member.index}"
