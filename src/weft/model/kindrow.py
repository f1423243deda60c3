"""All that is known of a kind of resource: its row in a table of kinds (`weft.model.kinds`)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from weft.model.specs import Spec


class Home(StrEnum):
    """Where resources of a kind live."""

    CLOUD = "cloud"
    FABRIC = "fabric"
    """A fabric with its managers; remains of a resource are read from the fabric itself."""
    MACHINES = "machines"
    """A manager of accelerators that aren't in a cloud's host, such as an IPU-POD's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KindRow:
    """One row.

    Attributes:
        spec: class of its desired state.
        one, many: its name for people; by default several have an s more.
        home: where it lives; `Resource.where` has the name.
        shown: fields of the spec that tenants see; None: the kind is hidden from tenants.
        shown_of_site: the same for resources in the project of weft's service user.
        quota: the cloud's quota that one counts against; more: `Spec.quota`.
        settles: dependents wait until it is at rest; for other kinds an accepted request is enough until everything
            is verified.
        boots: creation and deletion take minutes, not seconds, and the pod is BOOTING meanwhile.
        on_host: it runs on the host of its node, and listings of the host contain its id.
        network: others can put ports, subnets and shares on it (`weft.ports.networks`).
        joins_networks: it has ports of its own on networks, as their device, which have no rows.
        keeps_node: its node can't be released as long as one exists.
        lent: it exists before and after, and its id is another owner's next: seeing it later proves nothing.
        in_place: fields of the spec that can change in place; others stay as created.
        detachable: its dependents keep running without it once it is no longer ordered.
        ends_with: name of a kind that it needs and that is deleted with it: where both go, only that one is deleted.
        repaired_unasked: recreated when missing. Otherwise only on an operator's request: a tenant may have deleted it.
        cleaned: a cleaning runs on its node when it is deleted: the node's adapters leave the segment before that
            begins.
        admits: it gives the pod's addresses access to something that outlives the pod: the next holder of these
            addresses would get in.
        data: it holds what a tenant has written: once its pod has served, weft neither replaces nor recreates it.
    """

    spec: type[Spec]
    one: str
    many: str = ""
    home: Home = Home.CLOUD
    shown: frozenset[str] | None = None
    shown_of_site: frozenset[str] | None = None
    quota: str = ""
    settles: bool = False
    boots: bool = False
    on_host: bool = False
    network: bool = False
    joins_networks: bool = False
    keeps_node: bool = False
    lent: bool = False
    in_place: frozenset[str] = frozenset()
    detachable: bool = False
    ends_with: str = ""
    repaired_unasked: bool = True
    cleaned: bool = False
    admits: bool = False
    data: bool = False

    def __post_init__(self) -> None:
        if not self.many:
            object.__setattr__(self, "many", f"{self.one}s")


class AnyKind(StrEnum):
    """Base of the tables: a member is the name of a kind and has its row."""

    row: KindRow
    _value_: str

    def __new__(cls, name: str, row: KindRow) -> Self:
        self = str.__new__(cls, name)
        self._value_, self.row = name, row
        return self
