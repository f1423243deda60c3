"""Agents beside adapters, with which weft tests that frames pass between a pod's adapters and reach no others."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from weft.model.base import Document
from weft.model.ids import Name


class ProbeAgent(Document):
    """`weft probe-agent` on a host: a hypervisor, a bare-metal machine, or a server of a pod."""

    name: Name = Field(description="Name of the agent, as in its own settings.")
    url: Annotated[str, StringConstraints(pattern=r"^https://[^\s/?#@]+$", max_length=300)] = Field(
        description="URL that it listens on, with mutual TLS."
    )
    nodes: tuple[Name, ...] = Field(min_length=1, description="Nodes whose adapters it can use.")
    guest: bool = Field(
        default=False,
        description="Set for an agent in a pod's server, which its tenant controls: it takes part in tests of its own "
        "pod only.",
    )


class Traffic(Document):
    """Test frames are sent before a pod is READY, and after its release, before its receipt."""

    agents: tuple[ProbeAgent, ...] = Field(min_length=1, description="Agents; a node has at most one.")
    ca: str = Field(description="PEM file of the CA that signed the agents' certificates.")
    certificate: str = Field(description="PEM file of weft's client certificate.")
    key: str = Field(description="PEM file of its private key.")
    seconds: float = Field(
        default=2.0, ge=0.5, le=10.0, description="How long each adapter sends and listens."
    )
    policy: Literal["warn", "refuse"] = Field(
        default="warn",
        description="What happens if frames can't be tested, because an agent doesn't answer or has no "
        "interface for an adapter. warn: the pod's verification event and the receipt say so. "
        "refuse: the pod isn't READY, and its release waits.",
    )
