"""What the contract of a cloud driver runs on: a pod's graph for two hosts, and methods that disturb it."""

from __future__ import annotations

import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TypeVar

import pytest

from weft.model.mark import outside_name
from weft.model.owner import Owner
from weft.model.resources import Graph, Kind, Marked, Observed, Outcome, Resource, Status
from weft.model.specs import (
    FloatingIPSpec,
    KeyPairSpec,
    NetworkSpec,
    PortSpec,
    RouterSpec,
    SecurityGroupSpec,
    ServerSpec,
    Spec,
    SubnetSpec,
)
from weft.ports.cloud import CloudFacts, Identity
from weft.ports.resources import ResourceDriver, Scope
from weft.testing.cloud import FakeCloud
from weft.testing.seen import there

SITE = "contract"
PUBLIC_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"
T = TypeVar("T")
PATIENCE = 180.0
"""Seconds to wait for a state: far more than the slowest machine needs."""


@dataclass(frozen=True, slots=True)
class Offer:
    """Names of the cloud's flavors, images and networks."""

    cloud: str
    rdma_physical_network: str
    management_physical_network: str
    external_network: str
    image: str
    flavor: str


def pod(pod_id: str, hosts: Sequence[str], offer: Offer, segment: int) -> Graph:
    """A pod's graph with every kind: two networks, a router, a group, a key, and two ports and a server for each
    host.
    """
    made: list[Resource] = []

    def add(key: str, spec: Spec, *needs: str) -> None:
        name = outside_name(pod_id, key)
        made.append(Resource(key=key, name=name, where=offer.cloud, needs=needs, spec=spec))

    rdma = NetworkSpec(physical_network=offer.rdma_physical_network, segment=segment, port_security=False)
    add("network/rdma", rdma)
    management = NetworkSpec(
        physical_network=offer.management_physical_network, segment=segment, port_security=True
    )
    add("network/management", management)
    subnet = SubnetSpec(network="network/rdma", cidr="10.77.1.0/24", gateway=False, dhcp=False)
    add("subnet/rdma", subnet, "network/rdma")
    subnet = SubnetSpec(network="network/management", cidr="10.77.2.0/24", gateway=True, dhcp=True)
    add("subnet/management", subnet, "network/management")
    add("security_group", SecurityGroupSpec(ssh_from=("192.0.2.0/24",)))
    add("key_pair", KeyPairSpec(public_key=PUBLIC_KEY))
    router = RouterSpec(external_network=offer.external_network, subnets=("subnet/management",))
    add("router", router, "subnet/management")
    for number, host in enumerate(hosts):
        hca, mgmt = f"port/{host}/hca", f"port/{host}/management"
        port = PortSpec(
            network="network/rdma",
            subnet="subnet/rdma",
            address=f"10.77.1.{10 + number}",
            vnic_type="direct-physical",
            host=host,
        )
        add(hca, port, "network/rdma", "subnet/rdma")
        port = PortSpec(
            network="network/management",
            subnet="subnet/management",
            address=f"10.77.2.{10 + number}",
            vnic_type="normal",
            security_groups=("security_group",),
            host=host,
        )
        add(mgmt, port, "network/management", "subnet/management", "security_group")
        server = ServerSpec(
            host=host,
            flavor=offer.flavor,
            image=offer.image,
            key_pair="key_pair",
            user_data="#cloud-config\n{}\n",
            ports=(mgmt, hca),
        )
        add(f"server/{host}", server, "key_pair", mgmt, hca)
    address = FloatingIPSpec(external_network=offer.external_network, port=f"port/{hosts[0]}/management")
    add("floating_ip/first", address, "router", f"port/{hosts[0]}/management")
    return Graph(resources=tuple(sorted(made, key=lambda r: (DEPTH[r.kind], r.key))))


DEPTH = {
    Kind.NETWORK: 0,
    Kind.SECURITY_GROUP: 0,
    Kind.KEY_PAIR: 0,
    Kind.SUBNET: 1,
    Kind.ROUTER: 2,
    Kind.PORT: 3,
    Kind.FLOATING_IP: 4,
    Kind.SERVER: 5,
}


def colons(named: Mapping[str, T]) -> dict[str, T]:
    """`trait__CUSTOM_A` -> `trait:CUSTOM_A`."""
    return {name.replace("__", ":"): value for name, value in named.items()}


class Bench(ABC):
    """A cloud under test with a pod of its own. The abstract methods change the cloud from outside."""

    driver: ResourceDriver
    identity: Identity
    facts: CloudFacts
    offer: Offer
    hosts: Sequence[str]
    segment: int
    scope: Scope
    graph: Graph

    def set_pod(self, project_id: str) -> None:
        self.scope = Scope(SITE, Owner.pod(str(uuid.uuid4())), "train", project_id)
        self.graph = pod(self.scope.owner.id, self.hosts, self.offer, self.segment)

    def on_one_host(self) -> None:
        """Reduce the pod to one host, if a second would show nothing else: each costs a real cloud seconds of CPU."""
        self.hosts = self.hosts[:1]
        self.graph = pod(self.scope.owner.id, self.hosts, self.offer, self.segment)

    @property
    def image(self) -> str:
        return self.offer.image

    @property
    def flavor(self) -> str:
        return self.offer.flavor

    def of(self, *kinds: Kind) -> list[Resource]:
        return [r for r in self.graph.resources if r.kind in kinds]

    # -- the driver's verbs, with ids of everything that is there --------------------------------------------

    def ids(self) -> dict[str, str]:
        """Ids of resources with the pod's mark."""
        seen = there(self.driver.find(self.scope, self.graph.resources, {}))
        return {key: one.id for key, one in seen.items()}

    def find(
        self, wanted: Collection[Resource] | None = None, ids: Mapping[str, str] | None = None
    ) -> Mapping[str, Observed]:
        """The existing resources of the graph, or of `wanted`; `ids` if they were read before."""
        chosen = list(self.graph.resources if wanted is None else wanted)
        return there(self.driver.find(self.scope, chosen, self.ids() if ids is None else ids))

    def create(self, wanted: Sequence[Resource]) -> Mapping[str, Outcome]:
        """Create in the order of the kinds, each with the ids of those created before."""
        return self._by_depth(self.driver.create, wanted)

    def update(self, wanted: Sequence[Resource]) -> Mapping[str, Outcome]:
        return self._by_depth(self.driver.update, wanted)

    def delete(self, wanted: Sequence[Resource]) -> Mapping[str, Outcome]:
        return self.driver.delete(self.scope, wanted, self.ids())

    def _by_depth(
        self,
        verb: Callable[[Scope, Sequence[Resource], Mapping[str, str]], Mapping[str, Outcome]],
        wanted: Sequence[Resource],
    ) -> Mapping[str, Outcome]:
        outcomes: dict[str, Outcome] = {}
        ids = self.ids()
        for depth in sorted(set(DEPTH.values())):
            batch = [r for r in wanted if DEPTH[r.kind] == depth]
            if batch:
                outcomes.update(verb(self.scope, batch, ids))
                ids.update((key, o.id) for key, o in outcomes.items() if o.id)
        return outcomes

    def create_all(self) -> None:
        outcomes = self.create(self.graph.resources)
        assert {k: str(o.error) for k, o in outcomes.items() if o.error} == {}

    def delete_all(self) -> None:
        """Delete in reverse order, one kind after the other, each until it is absent."""
        ids = self.ids()
        for depth in sorted(set(DEPTH.values()), reverse=True):
            batch = [r for r in self.graph.resources if DEPTH[r.kind] == depth]
            outcomes = self.driver.delete(self.scope, batch, ids)
            assert {k: str(o.error) for k, o in outcomes.items() if o.error} == {}
            self.wait_absent(batch, ids)

    def marked(self) -> Sequence[Marked]:
        """The pod's resources that the audit lists."""
        seen = self.driver.marked(SITE, [self.scope.project_id])
        return [m for m in seen if m.owner == self.scope.owner]

    def sweep(self) -> None:
        """Remove everything with the mark of the contract's site, in any order."""
        end = time.monotonic() + PATIENCE
        while things := self.driver.marked(SITE, []):
            assert time.monotonic() < end, f"still there: {[(m.kind, m.name) for m in things]}"
            self.driver.remove_marked(things)
            time.sleep(self.pause)
        self.sweep_strangers()

    # -- waiting ---------------------------------------------------------------------------------------------

    pause: float = 0.01

    def wait(
        self,
        until: Callable[[Collection[Observed]], bool],
        wanted: Collection[Resource] | None = None,
        ids: Mapping[str, str] | None = None,
    ) -> Mapping[str, Observed]:
        end = time.monotonic() + PATIENCE
        ids = self.ids() if ids is None else ids
        while True:
            seen = self.find(wanted, ids)
            if until(seen.values()):
                return seen
            assert time.monotonic() < end, {k: (o.status, o.reason) for k, o in seen.items()}
            time.sleep(self.pause)

    def wait_settled(self) -> Mapping[str, Observed]:
        seen = self.wait(lambda all_seen: all(o.status is not Status.PENDING for o in all_seen))
        assert {k: o.reason for k, o in seen.items() if o.status is Status.BROKEN} == {}
        return seen

    def wait_absent(self, wanted: Collection[Resource], ids: Mapping[str, str] | None = None) -> None:
        self.wait(lambda all_seen: not all_seen, wanted, ids)

    # -- from outside -------------------------------------------------------------------------------------

    @abstractmethod
    def other_pod(self, segment: int | None = None) -> Bench:
        """Another pod of the same project on the same hosts and, unless given, the same segment."""

    @abstractmethod
    def duplicate_security_group(self, resource: Resource) -> str:
        """Create it a second time, as after a lost answer; its id."""

    @abstractmethod
    def stranger_security_group(self, name: str) -> str:
        """Create a group with that name and no mark; its id."""

    @abstractmethod
    def stranger_port(self, network_id: str, group_id: str) -> str:
        """Create a port of the tenant's own on a network, in a group; its id."""

    @abstractmethod
    def stranger_trunk(self, parent: str) -> str:
        """Create a trunk of the tenant's own with this port as its parent; its id."""

    @abstractmethod
    def lose_port(self, port_id: str) -> None: ...

    @abstractmethod
    def unmark_security_group(self, group_id: str) -> None: ...

    @abstractmethod
    def is_there(self, group_id: str) -> bool: ...

    @abstractmethod
    def sweep_strangers(self) -> None: ...

    @abstractmethod
    def token(self) -> str:
        """A new token of a member of the project."""

    @abstractmethod
    def revoke(self, token: str) -> None: ...

    @abstractmethod
    def users_key_pair(self) -> tuple[str, str, str]:
        """User id, name and text of a member's own key pair."""

    @contextmanager
    @abstractmethod
    def another_image(self, **properties: object) -> Iterator[str]:
        """Name of an image with these properties, which exists while the context lasts; `:` in their names is
        written `__`.
        """

    @contextmanager
    @abstractmethod
    def another_flavor(self, **extra_specs: str) -> Iterator[str]:
        """Name of a flavor like the bench's with these extra specs, which exists while the context lasts."""

    @contextmanager
    @abstractmethod
    def trait(self, host: str) -> Iterator[str]:
        """Name of a trait that only this host has while the context lasts."""

    @contextmanager
    @abstractmethod
    def quota(self, name: str, limit: int) -> Iterator[None]:
        """Limit the project while the context lasts."""


class FakeBench(Bench):
    """The bench on the cloud in memory."""

    def __init__(self, cloud: FakeCloud, segment: int = 177) -> None:
        self.cloud = cloud
        self.driver = self.identity = self.facts = cloud
        self.offer = Offer("lab", "ibnet", "physnet1", "public", "ubuntu-24.04", "gpu8")
        self.hosts = ("gpu01", "gpu02")
        self.segment = segment
        self.pause = 0.001
        self.set_pod("team-a")

    def other_pod(self, segment: int | None = None) -> Bench:
        return FakeBench(self.cloud, segment or self.segment)

    def duplicate_security_group(self, resource: Resource) -> str:
        mark = self.scope.mark(resource.key)
        return self.cloud.add(resource.kind, resource.name, self.scope.project_id, mark).id

    def stranger_security_group(self, name: str) -> str:
        return self.cloud.add(Kind.SECURITY_GROUP, name, self.scope.project_id).id

    def stranger_port(self, network_id: str, group_id: str) -> str:
        groups = (group_id,)
        project = self.scope.project_id
        return self.cloud.add(Kind.PORT, "own", project, network=network_id, security_groups=groups).id

    def stranger_trunk(self, parent: str) -> str:
        port = next(t for t in self.cloud.things(Kind.PORT) if t.id == parent)
        return self.cloud.make_trunk("own", self.scope.project_id, port).id

    def lose_port(self, port_id: str) -> None:
        self.cloud.lose(next(t for t in self.cloud.things(Kind.PORT) if t.id == port_id))

    def unmark_security_group(self, group_id: str) -> None:
        next(t for t in self.cloud.things() if t.id == group_id).mark = None

    def is_there(self, group_id: str) -> bool:
        return group_id in {t.id for t in self.cloud.things()}

    def sweep_strangers(self) -> None:
        pass

    def token(self) -> str:
        return self.cloud.add_user("alice", project=self.scope.project_id)

    def revoke(self, token: str) -> None:
        self.cloud.revoke(token)

    def users_key_pair(self) -> tuple[str, str, str]:
        self.cloud.offers.key_pairs["user-alice", "laptop"] = f"{PUBLIC_KEY} alice@laptop"
        return "user-alice", "laptop", f"{PUBLIC_KEY} alice@laptop"

    @contextmanager
    def another_image(self, **properties: object) -> Iterator[str]:
        name = f"{self.image}-{len(self.cloud.offers.images)}"
        self.cloud.offers.images.add(name)
        self.cloud.offers.image_properties[name] = colons(properties)
        yield name
        self.cloud.offers.images.remove(name)

    @contextmanager
    def another_flavor(self, **extra_specs: str) -> Iterator[str]:
        flavors = self.cloud.offers.flavors
        name = f"{self.flavor}-{len(flavors)}"
        flavors[name] = replace(flavors[self.flavor], extra_specs=colons(extra_specs))
        yield name
        del flavors[name]

    @contextmanager
    def trait(self, host: str) -> Iterator[str]:
        self.cloud.offers.traits[host] = {"CUSTOM_CONTRACT"}
        yield "CUSTOM_CONTRACT"
        del self.cloud.offers.traits[host]

    @contextmanager
    def quota(self, name: str, limit: int) -> Iterator[None]:
        self.cloud.offers.quotas[self.scope.project_id, name] = limit
        yield
        del self.cloud.offers.quotas[self.scope.project_id, name]


def fake_bench() -> Bench:
    return FakeBench(FakeCloud(seed=1))


def real_bench(request: pytest.FixtureRequest) -> Bench:
    from tests.drivers.openstack.real_bench import RealBench, hosts_of  # needs openstacksdk and a running lab

    lab = request.getfixturevalue("lab")
    return RealBench(lab.clouds_yaml, hosts_of(lab))
