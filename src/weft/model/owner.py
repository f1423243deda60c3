"""Owner of an external resource: a pod, the site, or a network that a tenant created itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

OwnerKind = Literal["pod", "site", "network"]
OWNER_KINDS: tuple[OwnerKind, ...] = ("pod", "site", "network")


@dataclass(frozen=True, slots=True, order=True)
class Owner:
    """One owner. All kinds have rows, marks, a loop, audit, tombstones and a receipt.

    Attributes:
        kind: `pod`: what a tenant ordered; `site`: what the operator brings up, such as provider networks;
            `network`: segments of a network that a tenant made in Neutron.
        id: a UUID, unique among all kinds.
    """

    kind: OwnerKind
    id: str

    @classmethod
    def pod(cls, pod_id: object) -> Owner:
        """The pod of this id."""
        return cls("pod", str(pod_id))

    def __str__(self) -> str:
        return f"{self.kind} {self.id}"
