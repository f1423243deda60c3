"""What an order says about IPUs."""

from __future__ import annotations

from pydantic import Field, field_validator

from weft.model.base import Document
from weft.model.ids import Name
from weft.model.site import IPUS_PER_MACHINE


class IpusOrder(Document):
    """IPUs in whole, adjacent IPU-Machines, with a V-IPU controller of the pod's own.

    Then `nodes` are its Poplar servers: virtual machines with a virtual function on the pod's data network.
    """

    count: int = Field(
        ge=4,
        le=64,
        description="Number of IPUs, four per IPU-Machine: a power of two, as V-IPU partitions are.",
    )
    ipu_pod: Name | None = Field(default=None, description="IPU-POD by name. Default: the best fit.")

    @field_validator("count")
    @classmethod
    def _whole_runs(cls, count: int) -> int:
        if count & (count - 1):
            raise ValueError("a power of two from 4 to 64: IPUs are assigned in runs of whole machines")
        return count

    @property
    def machines(self) -> int:
        """IPU-Machines that the order takes."""
        return self.count // IPUS_PER_MACHINE


class PodIpus(Document):
    """The IPUs of a pod, and how its servers reach them."""

    count: int = Field(description="Number of IPUs, four in each IPU-Machine.")
    ipu_pod: str = Field(description="IPU-POD that the machines are in.")
    machines: tuple[str, ...] = Field(description="IPU-Machines, in the order of the line or ring.")
    controller: str = Field(
        description="Address and port of the V-IPU controller's user API on the management network."
    )
    data_vlan: int | None = Field(
        default=None, description="VLAN of the data network (IPU over Fabric); null if Neutron allocated it."
    )
    data_addresses: str = Field(description="Addresses of the data network.")
