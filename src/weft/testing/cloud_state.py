"""What the fake cloud holds: things, faults, users, and what it offers."""

from __future__ import annotations

import fnmatch
import random
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from weft.drivers.openstack.errors import known
from weft.model.base import Document
from weft.model.hostneeds import HostNeeds
from weft.model.mark import Mark
from weft.model.messages import outside
from weft.model.resources import AnyKind, Difference, Kind, Observed, Resource, Status
from weft.ports.cloud import Caller
from weft.ports.occupants import SeenMachine

IMMUTABLE: Mapping[AnyKind, frozenset[str]] = {
    Kind.NETWORK: frozenset({"physical_network", "segment"}),
    Kind.SUBNET: frozenset({"network", "cidr"}),
    Kind.PORT: frozenset({"network", "subnet", "address", "vnic_type", "host", "mac"}),
    Kind.FLOATING_IP: frozenset({"external_network"}),
    Kind.KEY_PAIR: frozenset({"public_key"}),
    Kind.SERVER: frozenset({"host", "flavor", "image", "key_pair", "user_data", "ports"}),
    Kind.SHARE: frozenset({"gib", "share_type"}),
    Kind.SHARE_ACCESS: frozenset({"share", "share_id", "port", "read_only"}),
    Kind.VOLUME: frozenset({"gib", "volume_type"}),
    Kind.VOLUME_ATTACHMENT: frozenset({"volume", "volume_id", "server"}),
}
"""Fields that `update` can't repair, as in a real cloud: the thing must be recreated."""

_STORAGE = ("share", "volume", "server")
REFERENCES = frozenset(
    {*_STORAGE, "network", "subnet", "subnets", "security_groups", "port", "ports", "key_pair"}
)
"""Fields of specs that are keys of other resources."""


NEVER_WANTED: Mapping[AnyKind, Mapping[str, object]] = {
    Kind.PORT: {"address_pairs": ()},
    Kind.SHARE: {"others": ()},
}
"""Fields that a tenant can add to a pod's resources, with the value that every spec wants: none."""


class Fault(StrEnum):
    """What can go wrong; see `FakeCloud.plant`."""

    LOST_ANSWER = "lost answer"
    """The work is done, the answer is a `TemporaryError`."""
    ERROR_500 = "error 500"
    """Nothing is done, the answer is a `TemporaryError`."""
    UNREACHABLE = "unreachable"
    """Nothing is done, the answer is an `UnknownError`."""
    REFUSED = "refused"
    """Nothing is done, the answer is a `PermanentError` (quota, policy …)."""
    BROKEN = "broken"
    """What is created comes out broken (server ERROR, port binding_failed); `reason` says why."""
    STUCK = "stuck"
    """What is created never settles (port DOWN, server BUILD)."""
    UNDELETABLE = "undeletable"
    """A deletion is accepted, and the thing stays."""
    SLOW = "slow"
    """The call takes `seconds` longer."""
    EMPTY = "empty"
    """`ports_on` and `ports_in` are answered, and show nothing."""


@dataclass(slots=True)
class Planted:
    """A planted fault; `hits` counts how often it struck."""

    fault: Fault
    verb: str | None
    kind: AnyKind | None
    key: str
    left: int | None
    reason: str
    seconds: float
    hits: int = 0

    def strikes(self, verb: str, kind: AnyKind | None, key: str) -> bool:
        """Whether it applies to this call; if so, the hit is counted, and used up eventually."""
        fits = (
            self.left != 0
            and (self.verb is None or self.verb == verb)
            and (self.kind is None or self.kind is kind)
            and fnmatch.fnmatchcase(key, self.key)
        )
        if fits:
            self.hits += 1
            if self.left is not None:
                self.left -= 1
        return fits

    def lift(self) -> None:
        """Remove the fault."""
        self.left = 0


@dataclass(slots=True)
class Thing:
    """Something in the cloud. Tests may change every field, as someone else might.

    Attributes:
        fields: the spec's fields with ids for keys; a change here is a difference that `find` reports.
        ready_at: monotonic seconds from which it is settled.
        gone_at: monotonic seconds from which it is gone; None: its deletion wasn't requested.
        broken: why it is broken, or empty.
        hosted: a broken server broke on its host, which still has it; otherwise its build failed.
        stuck: why it doesn't settle, or empty.
        hidden: a server was soft-deleted: no listing shows it, but its host still has it.
        had_by: a server's last host.
        left_on: hosts that a server was moved off while their nova-compute was down, so that it still runs there.
    """

    kind: AnyKind
    id: str
    name: str
    project_id: str
    mark: Mark | None
    sequence: int
    fields: dict[str, object] = field(default_factory=dict)
    facts: dict[str, object] = field(default_factory=dict)
    ready_at: float = 0.0
    gone_at: float | None = None
    broken: str = ""
    hosted: bool = False
    stuck: str = ""
    undeletable: bool = False
    hidden: bool = False
    created: datetime | None = None
    ours: bool = True
    had_by: str = ""
    left_on: set[str] = field(default_factory=set[str])

    def observed(self, mark: Mark, wanted: Mapping[str, object], now: float) -> Observed:
        """What `find` shows of the thing. Args: wanted: the desired fields, with ids instead of keys."""
        if self.gone_at is not None:
            return Observed(self.id, Status.PENDING, outside.BEING_DELETED(), facts=self.all_facts())
        if self.hidden:
            return Observed(self.id, Status.BROKEN, outside.SOFT_DELETED(), facts=self.all_facts())
        if self.broken:
            status, reason = Status.BROKEN, outside.SERVER_FAULT(text=self.broken, known=known(self.broken))
        elif self.stuck and (self.kind is not Kind.PORT or self.facts.get("device_id")):
            # A port without a server is at rest, whatever it will do later.
            status, reason = Status.PENDING, self.stuck
        elif now < self.ready_at:
            status, reason = (
                Status.PENDING,
                outside.STATE_OF_CLOUD(state="BUILD" if self.kind is Kind.SERVER else "DOWN"),
            )
        else:
            status, reason = Status.SETTLED, ""
        differences = tuple(
            Difference(field=name, wanted=_text(value), observed=_text(self.fields.get(name)))
            for name, value in wanted.items()
            if name in self.fields and self.fields[name] != value
        )
        if self.mark != mark:
            shown = self.mark.text() if self.mark else "none"
            differences = (Difference(field="mark", wanted=mark.text(), observed=shown), *differences)
        return Observed(self.id, status, reason, differences, self.all_facts())

    def all_facts(self) -> dict[str, object]:
        """Fields and facts as a driver reports them; a broken server that never had a host shows none."""
        hostless = {"host": None} if self.kind is Kind.SERVER and self.broken and not self.hosted else {}
        return {**self.fields, **self.facts, **hostless}


@dataclass(slots=True)
class Trunk:
    """Someone's trunk: ids of the port that is its parent, and of its subports."""

    id: str
    name: str
    project_id: str
    parent: str
    subports: set[str] = field(default_factory=set[str])


def _text(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def wanted_fields(resource: Resource, ids: Mapping[str, str]) -> dict[str, object]:
    """The fields of a spec with ids instead of keys (a key without an id stays a key)."""

    def swap(value: object) -> object:
        if isinstance(value, tuple):
            return tuple(ids.get(str(v), v) for v in value)
        return ids.get(value, value) if isinstance(value, str) else value

    fields: dict[str, object] = {}
    for name in type(resource.spec).model_fields:
        value: object = getattr(resource.spec, name)
        if name != "kind":
            fields[name] = swap(value) if name in REFERENCES else _plain(value)
    return {**fields, **NEVER_WANTED.get(resource.kind, {})}


def _plain(value: object) -> object:
    """Nested values as text, since a cloud's fields are plain."""
    if isinstance(value, tuple):
        return tuple(v.model_dump_json() if isinstance(v, Document) else v for v in value)
    return value


@dataclass(frozen=True, slots=True)
class FakeFlavor:
    """A Nova flavor."""

    vcpus: int = 8
    ram: int = 65_536
    alias: str | None = None
    disk: int = 40
    extra_specs: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(slots=True)
class Offers:
    """What the cloud offers, and to whom; tests may change it."""

    images: set[str] = field(default_factory=lambda: {"ubuntu-24.04"})
    image_properties: dict[str, dict[str, object]] = field(default_factory=dict[str, dict[str, object]])
    """Image -> its properties as Glance shows them: `trait:…`, `hw_architecture`, `min_ram` …"""
    traits: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    """Nova host -> traits of its resource provider."""
    architectures: dict[str, str] = field(default_factory=dict[str, str])
    """Nova host -> architecture of its processor; x86_64 if it isn't here."""
    flavors: dict[str, FakeFlavor] = field(
        default_factory=lambda: {
            "gpu8": FakeFlavor(96, 1_048_576, "h100:8"),
            "gpu1": FakeFlavor(alias="h100:1"),
        }
    )
    external_networks: set[str] = field(default_factory=lambda: {"public"})
    key_pairs: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    quotas: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    """(project, quota's name as in `weft.model.quota`) -> limit; without an entry there is no limit."""
    adapters: list[str] = field(default_factory=lambda: [f"0000:{0x40 + n:02x}:00.0" for n in range(8)])
    """PCI addresses of each host's whole adapters, as in the lab; Nova takes the first free one."""
    functions: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """Nova host -> PCI addresses of its virtual functions, in the order in which Nova takes them."""
    hosts: dict[str, str] = field(default_factory=lambda: {f"gpu{n:02d}": "up" for n in range(1, 17)})
    """Nova host -> `up`, or why not."""
    keeps_names: bool = True
    """Whether DNS names of ports are kept; a Neutron that has no DNS domain configured forgets them."""
    claims: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    """Nova host -> consumers other than its servers that Placement has recent allocations for."""
    leaked: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    """The same, for allocations old enough to be in the listing of all hosts."""
    reserved: dict[str, str] = field(default_factory=dict[str, str])
    """Nova host -> the part of it that is reserved in Placement."""
    busy: dict[str, str] = field(default_factory=dict[str, str])
    """Machine -> what Ironic does with it."""
    machines: dict[str, SeenMachine] = field(default_factory=dict[str, SeenMachine])
    """Machine -> all that a listing of Ironic shows of it."""
    unreadable: set[str] = field(default_factory=set[str])
    """Nova hosts of a cell that doesn't answer."""
    storage_types: dict[str, set[str]] = field(
        default_factory=lambda: {"share": {"default", "fast"}, "volume": {"default", "fast"}}
    )
    """Share types and volume types; empty: the cloud has no Manila, or no Cinder."""
    tokens: dict[str, Caller] = field(default_factory=dict[str, Caller])

    def unfit(self, host: str, image: str, flavor: str) -> str | None:
        """Why Nova's scheduler would not boot the image with the flavor on the host."""
        needs = HostNeeds.of(self.image_properties.get(image, {}), self.flavors[flavor].extra_specs)
        return needs.lacks(self.traits.get(host, ()), self.architectures.get(host, "x86_64"))


@dataclass(slots=True)
class Seeded:
    """Random values that are the same for the same seed."""

    rng: random.Random

    def id(self) -> str:
        """A UUID that depends on the seed alone."""
        return str(uuid.UUID(int=self.rng.getrandbits(128), version=4))

    def around(self, seconds: float) -> float:
        """Between 0.8 and 1.2 times this many seconds."""
        return seconds * self.rng.uniform(0.8, 1.2)


def caller(name: str, project: str | None, roles: Sequence[str], expires: datetime, system: bool) -> Caller:
    """A caller whose user id is derived from the name; project id and name are the same."""
    return Caller(
        user_id=f"user-{name}",
        user_name=name,
        project_id=project,
        project_name=project,
        roles=frozenset(roles),
        expires_at=expires,
        system=system,
        project_domain_id="default" if project else None,
        user_domain_id="default",
    )
