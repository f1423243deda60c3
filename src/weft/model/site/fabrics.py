"""Fabrics and what manages them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints

from weft.model.base import Document
from weft.model.fabrictypes import ADriver, AFabricKind, FabricKind, FabricType, Level
from weft.model.ids import Name
from weft.model.ranges import Range
from weft.model.site.deployment import Url, reachable
from weft.model.site.qos import Qos
from weft.model.site.switching import Switching
from weft.model.site.traffic import Traffic

HttpsUrl = Annotated[Url, StringConstraints(pattern=r"^https://[^\s/?#@]+$")]
"""An HTTPS URL with nothing after host and port."""


def _without_user(url: str) -> str:
    if "@" in url:
        raise ValueError("a URL without user and password")
    return reachable(url)


class FabricAgent(Document):
    """`weft fabric-agent` next to one subnet manager."""

    name: Name = Field(description="Name of the agent, as in its certificate.")
    url: Annotated[str, AfterValidator(_without_user)] = Field(
        pattern=r"^https://", description="URL that it listens on, with mutual TLS."
    )
    node: Name | None = Field(
        default=None, description="Node (role `subnet-manager`) that the subnet manager runs on."
    )


class FabricManager(Document):
    """How the fabric is managed."""

    driver: ADriver = Field(
        description="opensm: the subnet managers of an InfiniBand fabric, through their agents. ufm: NVIDIA "
        "UFM Enterprise, through its REST API. switches: the switches of an Ethernet fabric, each "
        "through its own API (`switching`). none: Omni-Path; its fabric manager is the "
        "operator's, and weft neither queries nor changes it."
    )
    agents: tuple[FabricAgent, ...] = Field(
        default=(),
        description="Agents, one next to each subnet manager. With UFM they are optional: they read the "
        "ports' own P_Key tables as additional evidence.",
    )
    addresses: tuple[HttpsUrl, ...] = Field(
        default=(),
        max_length=4,
        description="UFM: base URLs of its REST API, such as https://ufm.example. For a high-availability pair, the "
        "virtual address or both nodes' addresses.",
    )
    authentication: Literal["token", "basic", "session", "certificate"] = Field(
        default="token",
        description="UFM: how weft authenticates. token: access token (/ufmRestV3). basic: user and password "
        "with each request (/ufmRest). session: user and password once, then a cookie "
        "(/ufmRestV2). certificate: weft's client certificate (/ufmRest).",
    )
    credentials: str | None = Field(
        default=None,
        description="UFM: YAML file with `token`, or `username` and `password`, readable by weft only. None: the "
        "environment variables WEFT_UFM_TOKEN, or WEFT_UFM_USERNAME and WEFT_UFM_PASSWORD.",
    )
    ca: str | None = Field(
        default=None,
        description="PEM file of the CA that signed the agents' certificates, and UFM's. None, for UFM: the host's "
        "own trusted CAs.",
    )
    certificate: str | None = Field(default=None, description="PEM file of weft's client certificate.")
    key: str | None = Field(default=None, description="PEM file of its private key.")
    switching: Switching | None = Field(
        default=None, description="Driver switches: how the switches are managed, and the links between them."
    )


class Fabric(Document):
    """An RDMA network with its own isolation."""

    type: AFabricKind = Field(default=FabricKind.INFINIBAND, description="Type of the fabric.")
    physical_network: Name = Field(description="Name of the physical network in Neutron.")
    segments: Range = Field(
        description="P_Keys or VLANs that weft may allocate; each is also the segmentation id of a Neutron network."
    )
    manager: FabricManager = Field(description="What manages the fabric.")
    tenant_networks: bool = Field(
        default=False,
        description="InfiniBand: networks that tenants create in Neutron on `physical_network` get a partition each, "
        "with exactly the ports that Neutron has bound. Their VLANs must be within `segments`.",
    )
    leave_tenant_networks: bool = Field(
        default=False,
        description="UFM, once `tenant_networks` is false: partitions of those networks stay as they are, for "
        "another manager to take over. Otherwise weft removes them.",
    )
    qos: Qos | None = Field(
        default=None,
        description="Ethernet: settings for RoCE that switches and adapters must have; weft compares them but "
        "configures none.",
    )

    mtu: int | None = Field(
        default=None,
        ge=1280,
        le=65_520,
        description="MTU in bytes of pods' networks in Neutron, and so of their servers' adapters. Default: "
        "that of `qos`; without `qos`, Neutron's choice.",
    )

    traffic: Traffic | None = Field(
        default=None,
        description="Ethernet: agents on hosts with adapters, with which weft tests whether frames pass. "
        "None: this isn't tested.",
    )

    evidence: Level = Field(
        default=Level.CONFIGURATION,
        description="How close to actual forwarding each former member's port must be read for a clean receipt. "
        "configuration: the configuration of its switch, or of UFM, is enough. operational: what the device itself "
        "reports as in effect (P_Key tables read from the ports; Arista EOS and Open vSwitch; not SONiC, NVUE and UFM "
        "without agents), or frames. frames: test frames (`traffic`). Receipts name the level of each port. A level "
        "that the fabric can never show is refused, such as operational with UFM where nodes give virtual functions "
        "(`vfs`): no agent can read those functions' tables.",
    )

    @property
    def network_mtu(self) -> int | None:
        """MTU of pods' networks in Neutron; None: Neutron picks it."""
        return self.mtu if self.mtu is not None or self.qos is None else self.qos.mtu

    @property
    def is_neutrons(self) -> bool:
        """Whether Neutron puts ports into segments, and weft only reads them."""
        switching = self.manager.switching
        return switching is not None and switching.configured_by == "neutron"

    @property
    def words(self) -> FabricType:
        """Properties of the fabric's type: what segments are called, how their numbers are written."""
        return self.type.row
