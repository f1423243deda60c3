"""What an Ethernet fabric's ports must be set to so that RoCE loses no packets, or few."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from weft.model.base import Document

Dscp = Annotated[int, Field(ge=0, le=63)]


class Qos(Document):
    """Settings that switches and adapters must have in common; weft reads them and sets none.

    The defaults are those of NVIDIA's adapters and of Cumulus Linux (`nv set qos roce`).
    """

    priority: int = Field(
        default=3, ge=0, le=7, description="Priority of RoCE's packets: their traffic class on switches."
    )
    pfc: bool = Field(
        default=True,
        description="Priority flow control (IEEE 802.1Qbb) on this priority and on no other; false: on none.",
    )
    ecn: bool = Field(
        default=True, description="Switches mark packets of this priority when queues grow (RFC 3168)."
    )
    trust: Literal["dscp", "pcp"] = Field(
        default="dscp",
        description="What a port takes a packet's priority from: the IP header or the VLAN tag.",
    )
    dscp: tuple[Dscp, ...] = Field(
        default=(26,),
        max_length=64,
        description="DSCP values that lead to this priority; with `trust: dscp`.",
    )
    mtu: int = Field(
        default=9000,
        ge=1280,
        le=16_384,
        description="MTU of the adapters in bytes; ports of switches must carry packets of this size.",
    )
    policy: Literal["warn", "refuse"] = Field(
        default="warn",
        description="What happens if a switch port of a pod differs. warn: the pod is READY, and its "
        "condition and the audit show the difference. refuse: it isn't READY.",
    )
