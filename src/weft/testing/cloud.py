"""A cloud in memory behind the same ports as the OpenStack driver, with seeded latency and faults.

    cloud = FakeCloud(seed=1)
    token = cloud.add_user("alice", project="team-a", roles=("member",))
    cloud.plant(Fault.LOST_ANSWER, kind=Kind.PORT)           # the ports are created, the answer is lost
    cloud.plant(Fault.BROKEN, key="server/gpu02", reason="No valid host was found.")
    cloud.thing("server/gpu01").fields["host"] = "gpu09"     # someone else's change

It refuses what the real one refuses: duplicate segments and addresses, deleting a network with ports, giving an adapter
of a host to two servers, exceeding a quota. It passes the contract suite of the real driver.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from weft.model.errors import InputError, OutsideError, PermanentError, TemporaryError
from weft.model.hostneeds import too_small
from weft.model.kindrow import Home
from weft.model.kinds import Kind, kinds_at
from weft.model.messages.orders import instead
from weft.model.novaflavor import NovaFlavor, miscounted
from weft.model.order import Order
from weft.model.ordernames import OrderNames
from weft.model.quota import more_quota
from weft.model.resources import (
    NOTHING,
    AnyKind,
    Difference,
    Graph,
    Marked,
    Observed,
    Outcome,
    Resource,
    Status,
)
from weft.model.site import Flavor
from weft.model.uses import InUseError
from weft.ports.cloud import QuotaRow
from weft.ports.occupants import Ended, Ending, Occupant, OnHost, SeenMachine
from weft.ports.resources import Ids, Observations, Outcomes, Scope
from weft.ports.witness import Witness
from weft.testing.cloud_aggregates import given_back, seen_aggregate, write_aggregate
from weft.testing.cloud_existing import SERVICE_PROJECT, known_by_name
from weft.testing.cloud_flavors import MADE, say_made, unsaid
from weft.testing.cloud_people import FakePeople
from weft.testing.cloud_rules import host_of, refusal_of_creation, used_quota
from weft.testing.cloud_servers import FakeServers
from weft.testing.cloud_state import IMMUTABLE, Fault, Thing, wanted_fields
from weft.testing.cloud_storage import FakeStorage

__all__ = ["SERVICE_PROJECT", "FakeCloud", "Fault"]


class FakeCloud(FakeServers, FakeStorage, FakePeople):
    """`ResourceDriver`, `Identity` and `CloudFacts` in one; see the module. Thread-safe."""

    # -- ResourceDriver --------------------------------------------------------------------------------------

    @property
    def kinds(self) -> frozenset[AnyKind]:
        return kinds_at(Home.CLOUD)

    def find(self, scope: Scope, wanted: Sequence[Resource], ids: Ids) -> Observations:
        for kind in sorted({r.kind for r in wanted}):
            self._call("find", kind)
        with self._lock:
            now = self.clock.monotonic()
            mine = self._mine(scope, ids)
            known = {**{key: ts[0].id for key, ts in mine.items()}, **ids}
            return {
                r.key: self._observed(scope, r, mine[r.key][0], known, now)
                if r.key in mine
                else Observed.absent(f"not among the {len(self.things(r.kind))} listed")
                for r in wanted
            }

    def _observed(self, scope: Scope, resource: Resource, thing: Thing, ids: Ids, now: float) -> Observed:
        if thing.kind is Kind.SERVER:
            self._note_host(thing)
        if scope.leaving and resource.spec.stays and thing.mark is None and thing.gone_at is None:
            reason = f"it stays in project {thing.project_id}"
            return Observed(thing.id, Status.KEPT, reason, name=thing.name)
        found = unsaid(thing, thing.observed(scope.mark(resource.key), wanted_fields(resource, ids), now))
        found = seen_aggregate(thing, resource, found)
        if (
            found.status is Status.PENDING
            or not known_by_name(scope, resource)
            or thing.name == resource.name
        ):
            return found
        renamed = Difference(field="name", wanted=resource.name, observed=thing.name)
        return replace(found, differences=(*found.differences, renamed))

    def create(self, scope: Scope, wanted: Sequence[Resource], ids: Ids) -> Outcomes:
        def one(resource: Resource) -> Outcome:
            scope.fence()
            fields = wanted_fields(resource, ids)
            if resource.kind in (Kind.SHARE, Kind.VOLUME) and (
                made := self._mine(scope, {}).get(resource.key)
            ):
                return Outcome(
                    made[0].id
                )  # shares and volumes have nothing unique: the driver looks for them first
            project = scope.project_id if resource.owner == "tenant" else SERVICE_PROJECT
            refusal = refusal_of_creation(
                resource.kind, resource.name, fields, project, self.things(), self.offers
            )
            if refusal is not None:
                # What a request with a lost answer created is returned, not a conflict with it.
                same = self._mine(scope, ids).get(resource.key)
                return Outcome(same[0].id) if same else self._refused("create", resource, refusal)
            thing = self._put(resource.kind, resource.name, project, scope.mark(resource.key), fields)
            self._spoil(thing, resource)
            return Outcome(thing.id, self._forget_name(thing) or self._hosted(thing, resource, made=True))

        outcomes = dict[str, Outcome]()
        try:
            outcomes.update(self._each("create", wanted, one))
        finally:
            # A flavor takes two requests; if the first one's answer was lost, the second was never sent.
            for thing in (t for t in self.things(Kind.FLAVOR) if t.mark and t.mark.owner == scope.owner):
                if (answer := outcomes.get(thing.mark.key if thing.mark else "")) and answer.error is None:
                    say_made(thing)
        return outcomes

    def update(self, scope: Scope, wanted: Sequence[Resource], ids: Ids) -> Outcomes:
        def one(resource: Resource) -> Outcome:
            scope.fence()
            same = self._mine(scope, ids).get(resource.key)
            if not same:
                asked = f"update {resource.kind} {resource.name}"
                return Outcome(error=TemporaryError(asked, f"fake cloud {self.name}", "it is not there"))
            thing, fields = same[0], wanted_fields(resource, ids)
            changed = {n for n, v in fields.items() if thing.fields.get(n) != v}
            fixed = sorted(changed & IMMUTABLE.get(resource.kind, frozenset()))
            if fixed:
                return self._refused("update", resource, f"{', '.join(fixed)} can't be changed")
            if in_use := self._shares_in_use(thing, fields.get("shared_with", ())):
                asked = f"update {resource.kind} {resource.name}"
                return Outcome(error=TemporaryError(asked, f"fake cloud {self.name}", in_use))
            unknown = self._hosted(thing, resource)
            if thing.kind is not Kind.AGGREGATE:
                thing.fields.update(fields)
            say_made(thing)
            thing.mark = scope.mark(resource.key)
            if known_by_name(scope, resource):
                thing.name = resource.name
            return Outcome(thing.id, self._forget_name(thing) or unknown)

        return self._each("update", wanted, one)

    def _hosted(self, thing: Thing, resource: Resource, made: bool = False) -> TemporaryError | None:
        """Write an aggregate's hosts and flavors; other kinds need nothing more."""
        if thing.kind is not Kind.AGGREGATE:
            return None
        fields = wanted_fields(resource, {})
        return write_aggregate(thing, resource.name, fields, self.offers.hosts, made)

    def _forget_name(self, thing: Thing) -> PermanentError | None:
        """Forget a port's DNS name, like a Neutron that has no DNS domain configured."""
        if self.offers.keeps_names or not thing.fields.get("dns_name"):
            return None
        asked = f"give port {thing.name} the host name {thing.fields['dns_name']}"
        thing.fields["dns_name"] = None
        return PermanentError(asked, f"fake cloud {self.name}", "it didn't keep it", "set dns_domain")

    def delete(self, scope: Scope, wanted: Sequence[Resource], ids: Ids) -> Outcomes:
        def one(resource: Resource) -> Outcome:
            scope.fence()
            outcome = Outcome()
            for thing in self._mine(scope, ids).get(resource.key, []):
                made = bool(thing.facts.get(MADE))
                if thing.kind is Kind.AGGREGATE and given_back(thing):
                    outcome = Outcome(thing.id)
                elif scope.leaving and resource.spec.stays and resource.key in ids and not made:
                    thing.mark, thing.name = None, str(thing.fields.get("kept_as", thing.name))
                    outcome = Outcome(thing.id)
                else:
                    outcome = self._remove(thing, resource.key)
                if isinstance(outcome.error, InUseError):
                    outcome = Outcome(error=outcome.error.without(ids.values()))
            return outcome

        return self._each("delete", wanted, one)

    def marked(self, site: str, projects: Sequence[str]) -> Sequence[Marked]:
        self._call("marked", None)
        return [
            Marked(
                t.kind,
                self.name,
                t.id,
                t.name,
                t.mark.owner,
                t.project_id,
                {"key": t.mark.key, **t.all_facts()},
                t.created,
                t.ours if t.kind is Kind.SERVER else None,
            )
            for t in self.things()
            if t.mark and t.mark.site == site and (not projects or t.project_id in projects)
        ]

    def remove_marked(self, things: Sequence[Marked]) -> Mapping[str, Outcome]:
        self._call("remove", None)
        outcomes: dict[str, Outcome] = {}
        with self._lock:
            for marked in things:
                thing = self._things.get(marked.id)
                if thing is None:
                    outcomes[marked.id] = Outcome()
                elif thing.mark is None or thing.mark.owner != marked.owner:
                    asked = f"remove {marked.kind} {marked.name}"
                    error = PermanentError(asked, self.name, "it doesn't carry our mark", "check it by hand")
                    outcomes[marked.id] = Outcome(error=error)
                elif thing.kind is Kind.AGGREGATE and given_back(thing):
                    outcomes[marked.id] = Outcome(thing.id)
                else:
                    outcomes[marked.id] = self._remove(thing, thing.mark.key)
        return outcomes

    # -- CloudFacts -------------------------------------------------------------------------------------------

    def order_names(self, project_id: str) -> OrderNames:
        self._call("facts", None)
        return OrderNames(
            flavors=tuple(sorted(self.offers.flavors)), images=tuple(sorted(self.offers.images))
        )

    def check_order(self, project_id: str, order: Order, flavor: str, counted: Flavor | None = None) -> None:
        self._call("facts", None)
        if order.nodes.image not in self.offers.images:
            raise InputError("nodes.image", order.nodes.image, "the cloud has no such image")
        if flavor not in self.offers.flavors:
            raise InputError("nodes.flavor", flavor, "the cloud has no such flavor")
        image, offered = order.nodes.image, self.offers.flavors[flavor]
        specs = {**offered.extra_specs, "pci_passthrough:alias": offered.alias or ""}
        nova = NovaFlavor(offered.vcpus, offered.ram, specs, self.offers.image_properties.get(image, {}))
        if counted and (why := miscounted(counted, nova)):
            raise InputError(
                "nodes.flavor", flavor, f"a flavor whose entry in the site matches Nova's: {why}"
            )
        if why := too_small(self.offers.image_properties.get(image, {}), flavor, offered.ram, offered.disk):
            raise InputError("nodes.image", image, why)

    def unfit(self, project_id: str, image: str, flavor: str) -> Mapping[str, str]:
        self._call("facts", None)
        if image not in self.offers.images or flavor not in self.offers.flavors:
            return {}
        reasons = {host: self.offers.unfit(host, image, flavor) for host in self.offers.hosts}
        return {host: why for host, why in reasons.items() if why}

    def public_key(self, user_id: str, key_pair: str) -> str:
        self._call("facts", None)
        text = self.offers.key_pairs.get((user_id, key_pair))
        if text is None:
            raise InputError("access.key_pair", key_pair, instead("the user has no such key pair"))
        return text

    def exceeded_quotas(
        self, project_id: str, graph: Graph, flavor: str, freed: Graph = NOTHING
    ) -> Sequence[QuotaRow]:
        self._call("facts", None)
        offered = self.offers.flavors[flavor]
        rows: list[QuotaRow] = []
        for name, wanted in sorted(more_quota(graph, freed, offered.vcpus, offered.ram).items()):
            limit = self.offers.quotas.get((project_id, name), -1)
            used = used_quota(name, project_id, self.things(), self.offers)
            if limit >= 0 and used + wanted > limit:
                rows.append(QuotaRow(name, limit, used, max(wanted, 0)))
        return rows

    def projects(self) -> Mapping[str, str]:
        self._call("facts", None)
        known = {caller.project_id: caller.project_name for caller in self.offers.tokens.values()}
        return {id_: name or id_ for id_, name in known.items() if id_ is not None}

    def hosts(self) -> Mapping[str, str]:
        self._call("facts", None)
        return dict(self.offers.hosts)

    # -- Occupants -------------------------------------------------------------------------------------------

    def servers_on_hosts(self) -> Mapping[str, OnHost]:
        self._call("occupants", None)
        with self._lock:
            seen = {h: self._on_host(h) for h in self.offers.hosts.keys() - self.offers.unreadable}
        return {h: replace(one, occupants=self._listed(h, one), unknown="") for h, one in seen.items()}

    def _listed(self, host: str, one: OnHost) -> tuple[Occupant, ...]:
        """What Nova has on a host or, if that is nothing, what Placement has had there for long."""
        found = tuple(replace(o, placement=False) for o in one.occupants if o.nova)
        return found or tuple(o for o in one.occupants if o.id in self.offers.leaked.get(host, ()))

    def on_hosts(self, hosts: Collection[str]) -> Mapping[str, OnHost]:
        try:
            self._call("occupants", None)
        except OutsideError as error:
            return dict.fromkeys(hosts, OnHost(unknown=str(error)))
        with self._lock:
            return {host: self._on_host(host) for host in hosts}

    def seen_machines(self) -> Mapping[str, SeenMachine]:
        self._call("occupants", None)
        busy = {machine: SeenMachine(use=use) for machine, use in self.offers.busy.items()}
        return {**busy, **self.offers.machines}

    def changed_machines(self) -> Mapping[str, SeenMachine]:
        self._call("changes", None)
        return {machine: SeenMachine(use=use) for machine, use in self.offers.busy.items()}

    def endings(
        self, project_id: str, servers: Collection[str], whole: Mapping[str, str] | None = None
    ) -> Mapping[str, Ending]:
        try:
            self._call("endings", None)
        except OutsideError as error:
            return dict.fromkeys(servers, Ending(Ended.UNKNOWN, str(error)))
        with self._lock:
            self._forget_the_gone()
            unknown = Ending(Ended.NO_RECORD, "Nova has no record of its actions")
            return {server: self._endings.get(server, unknown) for server in servers}

    # -- Witnesses -------------------------------------------------------------------------------------------

    def witness(self, site: str) -> Witness | None:
        self._call("witness", None)
        return self.witnesses.get(site)

    def testify(self, site: str, witness: Witness) -> None:
        self._call("testify", None)
        known = self.witnesses.get(site)
        if known is None or known.number <= witness.number:
            self.witnesses[site] = witness

    def _devices(self, server: Thing) -> tuple[str, ...]:
        """A server's PCI devices in Placement, where Nova reports them to it. Adapters of ports aren't among them."""
        flavor = self.offers.flavors.get(str(server.fields.get("flavor")))
        return ("CUSTOM_PCI_DEVICE",) if flavor is not None and flavor.alias else ()

    def _on_host(self, host: str) -> OnHost:
        state = self.offers.hosts.get(host)
        if state is None or host in self.offers.unreadable:
            busy = self.offers.busy.get(host, "")
            return OnHost(unknown=f"Nova lists no hypervisor of host {host}", busy=busy)
        servers = {
            t.id: Occupant(t.id, t.name, True, True, devices=self._devices(t))
            for t in self.servers
            if host_of(t) == host
        }
        claims = {
            c: Occupant(c, placement=True)
            for c in {*self.offers.claims.get(host, ()), *self.offers.leaked.get(host, ())}
        }
        both = {**claims, **servers}
        return OnHost(
            tuple(both[i] for i in sorted(both)),
            down="" if state == "up" else state,
            busy=self.offers.busy.get(host, ""),
            withheld=self.offers.reserved.get(host, ""),
        )
