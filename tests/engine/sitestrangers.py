"""What others do at random beside a site, on it and to it; and checks that all of theirs is as they left it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any, cast

from tests.engine.sitehouse import SiteHouse
from tests.engine.sitelists import BLOCKS, NETWORKS, NUMA, VLANS, some_mac
from weft.model.resources import Kind
from weft.planning.site.graph import site_graph
from weft.testing.cloud_rules import refusal_of_creation, refusal_of_deletion
from weft.testing.cloud_state import Thing, wanted_fields

TEAMS = ("team-a", "team-b", "team-c", "service")
State = tuple[str, str, object, dict[str, object]]


class Strangers:
    """Tenants, and an operator with tools of its own who is also in weft's project.

    Attributes:
        theirs: id -> what they have made and how they left it. What weft was asked to adopt is no longer in it.
    """

    def __init__(self, house: SiteHouse, dice: random.Random) -> None:
        self.house, self.cloud, self.dice = house, house.cloud, dice
        self.theirs: dict[str, State] = {}
        self.made = 0

    def act(self) -> str:
        acts: list[Callable[[], str]] = [self.port, self.subnet, self.network, self.group, self.router]
        acts += [self.flavor, self.alike, self.edit, self.leave, self.drift, self.take_away]
        act = self.dice.choices(acts, [6, 1, 2, 2, 1, 1, 4, 2, 4, 4, 2])[0]
        return f"{act.__name__}: {act()}"

    # -- what they make ---------------------------------------------------------------------------------------------

    def _add(self, kind: Kind, name: str, project: str, **fields: object) -> str:
        """Create a resource of theirs, if the cloud lets them."""
        things, offers = self.cloud.things(), self.cloud.offers
        if why := refusal_of_creation(kind, name, fields, project, things, offers):
            return f"refused: {why}"
        self.made += 1
        thing = self.cloud.add(kind, name, project, None, **fields)
        self.theirs[thing.id] = state_of(thing)
        return f"{kind} {name} {thing.id} of {project} {fields}"

    def _there(self, kind: Kind) -> list[Thing]:
        """Resources of a kind, except pods': other tests cover what happens to resources on those."""
        return [t for t in self.cloud.things(kind) if t.mark is None or t.mark.owner.kind == "site"]

    def port(self) -> str:
        """Create a port on a network, in groups, perhaps with the name or the MAC address of hardware."""
        dice = self.dice
        networks = self._there(Kind.NETWORK)
        where = self._there(Kind.SUBNET)
        groups = [g for g in self._there(Kind.SECURITY_GROUP) if dice.random() < 0.4]
        project = dice.choice(TEAMS)
        fields: dict[str, object] = {"security_groups": tuple(g.id for g in groups), "network": "n-7"}
        if networks and (dice.random() < 0.8 or not groups):
            network = dice.choice(networks)
            fields["network"] = network.id
            project = dice.choice(_may(network))
            subnets = [s for s in where if s.fields["network"] == network.id]
            if subnets:
                block = str(dice.choice(subnets).fields["cidr"]).rpartition(".")[0]
                fields["subnet"] = next(
                    s.id for s in subnets if str(s.fields["cidr"]).startswith(f"{block}.")
                )
                fields["address"] = f"{block}.{dice.choice((dice.randint(3, 14), dice.randint(100, 250)))}"
        fields.setdefault("address", "")
        fields["mac"] = some_mac(dice) if dice.random() < 0.2 else f"06:00:00:00:{self.made % 256:02x}:01"
        fields["dns_name"] = dice.choice((None, "theirs", "m1-bmc", "nas1-eth0"))
        return self._add(Kind.PORT, f"theirs{self.made}", project, **fields)

    def subnet(self) -> str:
        networks = self._there(Kind.NETWORK)
        if not networks:
            return ""
        network = self.dice.choice(networks)
        cidr = f"{self.dice.choice((*BLOCKS, '192.0.2'))}.0/24"
        return self._add(Kind.SUBNET, "old", "service", network=network.id, cidr=cidr)

    def network(self) -> str:
        name = self.dice.choice(sorted(NETWORKS))
        place = NETWORKS[name]["physical_network"]
        fields = {"physical_network": place, "segment": self.dice.choice(VLANS[name]), "shared_with": ()}
        fields |= {"mtu": 1500, "port_security": True, "external": name == "public"}
        called = self.dice.choice((name, "by-hand"))
        return self._add(Kind.NETWORK, called, self.dice.choice(TEAMS), **fields)

    def group(self) -> str:
        name = f"lab-{self.dice.choice(('bmc', 'gateway', 'storage', 'management', 'web'))}"
        ssh = self.dice.choice(((), ("0.0.0.0/0",)))
        fields = {"ssh_from": ssh, "ingress": (), "egress": None, "shared_with": ()}
        return self._add(Kind.SECURITY_GROUP, name, self.dice.choice(("service", "team-a")), **fields)

    def router(self) -> str:
        name = f"lab-{self.dice.choice(('storage', 'management', 'web'))}"
        subnets = self.dice.choice(((), ("s-7",)))
        return self._add(Kind.ROUTER, name, "service", external_network="public", subnets=subnets)

    def flavor(self) -> str:
        fields = {"vcpus": self.dice.choice((4, 8)), "ram": 4096, "disk": 0, "extra_specs": {}, "former": ()}
        return self._add(Kind.FLAVOR, NUMA, "service", **fields)

    def alike(self) -> str:
        """Create a resource just as the site describes it, or nearly: weft could adopt it."""
        graph = site_graph(self.house.site)
        there = {t.mark.key: t.id for t in self._sites() if t.mark} | self._known()
        missing = [r for r in graph.resources if r.key not in there and str(r.kind) != "image_properties"]
        ready = [r for r in missing if set(r.needs) <= there.keys()]
        if not ready:
            return ""
        resource = self.dice.choice(ready)
        fields = wanted_fields(resource, there)
        if self.dice.random() < 0.3:
            fields |= {
                n: v
                for n, v in {"mtu": 1400, "ssh_from": ("0.0.0.0/0",), "dns_name": "x"}.items()
                if n in fields
            }
        return self._add(cast(Kind, resource.kind), resource.name, "service", **fields)

    def _known(self) -> dict[str, str]:
        """Keys of the site's networks and subnets that are in the cloud -> their ids."""
        found: dict[str, str] = {}
        for resource in site_graph(self.house.site).resources:
            if resource.kind not in (Kind.NETWORK, Kind.SUBNET):
                continue
            wanted = wanted_fields(resource, found)
            same = ("physical_network", "segment") if resource.kind is Kind.NETWORK else ("network", "cidr")
            for thing in self.cloud.things(resource.kind):
                if all(thing.fields.get(n) == wanted[n] for n in same):
                    found[resource.key] = thing.id
        return found

    # -- what they do to their own ----------------------------------------------------------------------------------

    def _own(self) -> Iterator[Thing]:
        return (t for t in self.cloud.things() if t.id in self.theirs)

    def edit(self) -> str:
        """Change one of theirs: a port's groups, a group's rules, a router's interfaces, a name."""
        own = list(self._own())
        if not own:
            return ""
        thing = self.dice.choice(own)
        if thing.kind is Kind.PORT:
            groups = self._there(Kind.SECURITY_GROUP)
            thing.fields["security_groups"] = tuple(g.id for g in groups if self.dice.random() < 0.5)
        elif thing.kind is Kind.ROUTER:
            thing.fields["subnets"] = self.dice.choice(((), ("s-7",), ("s-7", "s-8")))
        elif thing.kind is Kind.SECURITY_GROUP:
            thing.fields["ssh_from"] = self.dice.choice(((), ("198.51.100.0/24",)))
        thing.name = self.dice.choice((thing.name, f"{thing.name}-x"))
        self.theirs[thing.id] = state_of(thing)
        return f"{thing.kind} {thing.id} is {state_of(thing)}"

    def leave(self, chosen: Thing | None = None) -> str:
        """Remove one of theirs, if the cloud lets them."""
        own = [chosen] if chosen is not None else list(self._own())
        own = [t for t in own if not refusal_of_deletion(t, self.cloud.things())]
        if not own:
            return ""
        thing = self.dice.choice(own)
        along = [t for t in self.cloud.things(Kind.SUBNET) if t.fields.get("network") == thing.id]
        for one in (thing, *along):
            self.theirs.pop(one.id, None)
        self.cloud.lose(thing)
        return f"{thing.kind} {thing.name} {thing.id}"

    def leave_all(self) -> None:
        """Remove all of theirs, in an order that the cloud allows."""
        while self.theirs:
            before = len(self.theirs)
            for thing in list(self._own()):
                if thing.id in self.theirs:
                    self.leave(thing)
            if len(self.theirs) == before:
                raise AssertionError(f"they can't remove {[t.name for t in self._own()]}")

    # -- what they do to weft's -------------------------------------------------------------------------------------

    def _sites(self) -> list[Thing]:
        return [
            t for t in self.cloud.things() if t.mark and t.mark.owner.kind == "site" and t.gone_at is None
        ]

    def drift(self) -> str:
        """Change a field of something of weft's."""
        sites = self._sites()
        if not sites:
            return ""
        thing = self.dice.choice(sites)
        fields: dict[Any, dict[str, object]] = {
            Kind.NETWORK: {"mtu": 1300, "shared_with": ("mallory",)},
            Kind.SUBNET: {"pool": None, "dns": ("192.0.2.1",)},
            Kind.PORT: {"dns_name": "wrong", "address_pairs": ("0.0.0.0/0",)},
            Kind.ROUTER: {"subnets": ()},
            Kind.SECURITY_GROUP: {"ssh_from": ("0.0.0.0/0",), "shared_with": ("mallory",)},
        }
        changes = fields.get(thing.kind, {})
        if not changes:
            return ""
        field = self.dice.choice(sorted(changes))
        thing.fields[field] = changes[field]
        if self.dice.random() < 0.3:
            thing.name = "renamed"
        return f"{thing.kind} {thing.name} {thing.id}: {field}"

    def take_away(self) -> str:
        """Delete something of weft's, if the cloud lets them."""
        sites = [t for t in self._sites() if not refusal_of_deletion(t, self.cloud.things())]
        if not sites:
            return ""
        thing = self.dice.choice(sites)
        self.cloud.lose(thing)
        return f"{thing.kind} {thing.name} {thing.id}"

    # -- checks ----------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Fail unless everything of theirs is there as they left it."""
        there = {t.id: t for t in self.cloud.things()}
        for id_, state in self.theirs.items():
            assert id_ in there, f"{id_} of others is gone: {state}"
            assert there[id_].gone_at is None, f"{id_} of others is being removed: {state}"
            assert state_of(there[id_]) == state, f"{id_} of others is {state_of(there[id_])}, was {state}"


def _may(network: Thing) -> tuple[str, ...]:
    """Projects that may have ports on a network."""
    shared = network.fields.get("shared_with") or ()
    assert isinstance(shared, tuple)
    return (network.project_id, *(str(p) for p in shared))


def state_of(thing: Thing) -> State:
    return thing.name, thing.project_id, thing.mark, dict(thing.fields)
