"""Objects of a V-IPU controller."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from weft.model.specs.base import Spec


class VipuSpec(Spec):
    """A pod's V-IPU controller."""

    tls: bool = Field(
        default=False,
        description="Whether the controller has TLS; those of older pods don't.",
    )
    controller: str = Field(description="The controller's address on the gateways' network.")


class VipuAgentSpec(VipuSpec):
    """An IPU-Machine's agent, bound to the pod's V-IPU controller."""

    kind: Literal["vipu_agent"] = "vipu_agent"
    machine: str = Field(description="Name of the IPU-Machine; the agent's id.")
    address: str = Field(description="Address of its gateway.")
    port: int

    def summary(self) -> str:
        return f"agent of {self.machine}"


class VipuNamedSpec(VipuSpec):
    """A named object of the controller with some of the pod's IPU-Machines, in cable order."""

    name: str
    machines: tuple[str, ...]


class VipuClusterSpec(VipuNamedSpec):
    """The pod's IPU-Machines as a V-IPU cluster."""

    kind: Literal["vipu_cluster"] = "vipu_cluster"
    topology: Literal["mesh", "torus"]

    def summary(self) -> str:
        return f"{self.topology} of {len(self.machines)} machines"


class VipuAllocationSpec(VipuNamedSpec):
    """The part of the cluster that the tenant may create partitions from: all of it."""

    kind: Literal["vipu_allocation"] = "vipu_allocation"
    cluster: str

    def summary(self) -> str:
        return f"{len(self.machines)} machines of cluster {self.cluster}"


class VipuUserSpec(VipuNamedSpec):
    """The tenant's user on the controller; its key is derived and stored nowhere."""

    kind: Literal["vipu_user"] = "vipu_user"
    allocation: str

    def summary(self) -> str:
        return f"user {self.name} of allocation {self.allocation}"
