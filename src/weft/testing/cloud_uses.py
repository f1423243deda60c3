"""The fake cloud: what uses its networks, groups, ports and routers, and how that ends."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from weft.model.errors import TemporaryError
from weft.model.kinds import Kind
from weft.model.resources import Outcome
from weft.model.uses import SUBPORT, InUseError, Use
from weft.ports.listings import SharedListings
from weft.testing.cloud_state import Thing, Trunk
from weft.testing.cloud_store import CloudStore

_INTERFACE = "network:router_interface"


class FakeUses(CloudStore):
    """`CloudNetworks` without the segments.

    Fields say who uses what: `owner` and `device_id` of a port, `port` and `router` of a floating IP. A security group
    that is shared by RBAC has the fact `rbac`.
    """

    def share(self, thing: Thing, project: str) -> None:
        """Share a network or a security group with another project, as its owner."""
        if thing.kind is Kind.SECURITY_GROUP:
            thing.facts["rbac"] = (*_many(thing, "rbac"), project)
        else:
            thing.fields["shared_with"] = (*_many(thing, "shared_with"), project)

    def make_trunk(self, name: str, project: str, parent: Thing, *subports: Thing) -> Trunk:
        """`openstack network trunk create`: the subports are owned by it."""
        with self._lock:
            trunk = Trunk(self._seeded.id(), name, project, parent.id, {port.id for port in subports})
            self.trunks[trunk.id] = trunk
        return trunk

    def on_networks(
        self, project_id: str, networks: Collection[str], listings: SharedListings | None = None
    ) -> Sequence[Use]:
        self._call("networks", None)
        return list(self._on_networks(networks))

    def uses(self, project_id: str, things: Mapping[Kind, Collection[str]]) -> Sequence[Use]:
        self._call("networks", None)
        return [use for kind, ids in things.items() for use in self._uses(kind, ids)]

    def take_off(self, project_id: str, use: Use) -> None:
        self._call("take_off", None)
        with self._lock:
            if use.kind == "share":
                self._unshare(self._things[use.on], use)
            elif use.kind == "trunk":
                self._leave_trunk(use)
            elif (thing := self._things.get(use.id)) is None:
                return
            elif use.of is Kind.SECURITY_GROUP:
                left = tuple(g for g in _many(thing, "security_groups") if g != use.on)
                thing.fields["security_groups"] = left
            elif use.kind == "floating_ip":
                thing.fields |= {"port": None, "router": None}
            else:
                outcome = self._remove(thing, "")
                if outcome.error is not None:
                    raise outcome.error

    def _unshare(self, thing: Thing, use: Use) -> None:
        users = self._ports_on(thing) if thing.kind is Kind.NETWORK else self._ports_in(thing)
        if any(p.project_id == use.project_id for p in users):
            raise TemporaryError(f"take {use.text()} back", self.name, "RbacPolicyInUse")
        where, name = (thing.fields, "shared_with") if thing.kind is Kind.NETWORK else (thing.facts, "rbac")
        where[name] = tuple(p for p in _many(thing, name) if p != use.project_id)

    def _leave_trunk(self, use: Use) -> None:
        trunk = self.trunks.get(use.id)
        if trunk is None:
            return
        if use.owner == SUBPORT:
            trunk.subports.discard(use.on)
        elif self._things[use.on].facts.get("device_id"):
            raise TemporaryError(f"delete trunk {use.id}", self.name, "TrunkInUse")
        else:
            del self.trunks[use.id]

    def _remove(self, thing: Thing, key: str) -> Outcome:
        """Delete a thing; the error names what is in the way, as the driver's does."""
        outcome = super()._remove(thing, key)
        error = outcome.error
        if not isinstance(error, TemporaryError) or not isinstance(thing.kind, Kind):
            return outcome
        uses = [use for use in self._uses(thing.kind, [thing.id]) if use.kind != "share"]
        owner = thing.mark.owner.kind if thing.mark else "pod"
        return Outcome(
            error=InUseError(
                error.asked, error.of, error.answer, uses=uses, project_id=thing.project_id, owner=owner
            )
        )

    # -- what uses what --------------------------------------------------------------------------------------

    def _uses(self, kind: Kind, ids: Collection[str]) -> Iterator[Use]:
        match kind:
            case Kind.NETWORK:
                yield from self._on_networks(ids)
            case Kind.SECURITY_GROUP:
                yield from self._in_groups(ids)
            case Kind.PORT:
                yield from self._of_ports(ids)
            case Kind.ROUTER:
                yield from self._of_routers(ids)
            case _:
                return

    def _on_networks(self, networks: Collection[str]) -> Iterator[Use]:
        for thing in self.things():
            network = str(thing.fields.get("network"))
            if thing.kind is Kind.NETWORK and thing.id in networks:
                for p in _many(thing, "shared_with"):
                    yield Use("share", f"{thing.id} {p}", Kind.NETWORK, thing.id, "", p)
            elif thing.kind is Kind.PORT and network in networks:
                yield self._port(thing, Kind.NETWORK, network)
            elif thing.kind is Kind.SUBNET and network in networks:
                yield Use("subnet", thing.id, Kind.NETWORK, network, thing.name, thing.project_id)

    def _in_groups(self, groups: Collection[str]) -> Iterator[Use]:
        for thing in (t for t in self.things(Kind.SECURITY_GROUP) if t.id in groups):
            for port in self._ports_in(thing):
                yield self._port(port, Kind.SECURITY_GROUP, thing.id)
            for p in _many(thing, "rbac"):
                yield Use("share", f"{thing.id} {p}", Kind.SECURITY_GROUP, thing.id, "", p)

    def _of_ports(self, ports: Collection[str]) -> Iterator[Use]:
        for trunk in self.trunks.values():
            if trunk.parent in ports:
                yield Use("trunk", trunk.id, Kind.PORT, trunk.parent, trunk.name, trunk.project_id)
            for port in sorted(trunk.subports.intersection(ports)):
                yield Use("trunk", trunk.id, Kind.PORT, port, "", trunk.project_id, owner=SUBPORT)
        yield from self._floating_ips("port", Kind.PORT, ports)

    def _of_routers(self, routers: Collection[str]) -> Iterator[Use]:
        for port in self.things(Kind.PORT):
            use = self._port(port, Kind.ROUTER, str({**port.fields, **port.facts}.get("device_id")))
            if use.owner == _INTERFACE and use.device in routers:
                yield use
        yield from self._floating_ips("router", Kind.ROUTER, routers)

    def _floating_ips(self, by: str, of: Kind, ids: Collection[str]) -> Iterator[Use]:
        for thing in self.things(Kind.FLOATING_IP):
            if (on := str(thing.fields.get(by))) in ids:
                address = str(thing.facts.get("address"))
                yield Use("floating_ip", thing.id, of, on, address, thing.project_id)

    def _port(self, port: Thing, of: Kind, on: str) -> Use:
        known = {**port.fields, **port.facts}
        owner, device = str(known.get("owner") or ""), str(known.get("device_id") or "")
        server = self._things.get(device)
        named = server.name if server is not None and server.kind is Kind.SERVER else ""
        network = str(known.get("network"))
        return Use("port", port.id, of, on, port.name, port.project_id, owner, device, network, named)

    def _ports_on(self, network: Thing) -> list[Thing]:
        return [p for p in self.things(Kind.PORT) if p.fields.get("network") == network.id]

    def _ports_in(self, group: Thing) -> list[Thing]:
        return [p for p in self.things(Kind.PORT) if group.id in _many(p, "security_groups")]

    def _shares_in_use(self, network: Thing, kept: object = ()) -> str:
        """Why a network's shares can't be removed now, except these; empty: they can."""
        assert isinstance(kept, tuple)
        shared = _many(network, "shared_with") if network.kind is Kind.NETWORK else ()
        users = [p for p in self._ports_on(network) if p.project_id in shared and p.project_id not in kept]
        return (
            f"RbacPolicyInUse: port {users[0].name} of project {users[0].project_id} is on it"
            if users
            else ""
        )


def _many(thing: Thing, name: str) -> tuple[str, ...]:
    value = {**thing.fields, **thing.facts}.get(name) or ()
    assert isinstance(value, tuple)
    return tuple(map(str, value))
