"""The protocol between the OpenSM driver and `weft fabric-agent`: JSON over HTTPS.

    GET  /v1/status       -> AgentStatus
    GET  /v1/partitions   -> AgentPartitions
    PUT  /v1/partitions   PartitionsChange -> ChangeResult; 409 if the file is not the expected one
    POST /v1/tables       TablesQuery -> Tables
    POST /v1/paths        PathsQuery -> Paths
    POST /v1/repair       RepairQuery -> RepairResult
    POST /v1/routes, POST /v1/counters, GET /metrics: see `weft.model.agentlinks`
    POST /v1/certificate/request, PUT /v1/certificate: see `weft.model.agentcertificates`
    GET  /v1/topology     -> ObservedFabric
    GET  /v1/options      -> AgentOptions

Each request has a header `Weft-Nonce` with a number used once; the response has the same, and `Weft-Read-At`: when the
agent began to handle the request, by its own clock.

Both sides send the version of this protocol that they speak in `Weft-Protocol`; without the header it is version 1.
Any change of requests or responses is a new version (`PROTOCOL`); a new path isn't: an older agent answers 404, and
everything else continues. An agent answers in the version of the request, if it knows that; weft
asks an agent that says 426 again in the agent's version, if it knows that: so either may be upgraded first. New fields
have defaults, at which they aren't sent (`weft.model.base.added`), so that the older side reads them.
`OLDEST_PROTOCOL` is raised when messages of an older version would be misunderstood. A side that meets an unsupported
version accepts nothing from the other and reports which of the two to upgrade: until then the state of the fabric is
unknown and is left alone.

Errors are `AgentProblem` with the HTTP status 400 (invalid), 403 (unknown client), 409 (the file has changed), 422
(the file would be wrong), 426 (another version of the protocol), 503 (the fabric or the subnet manager doesn't
respond).
"""

from __future__ import annotations

from typing import Self

from pydantic import Field

from weft.model.base import Document
from weft.model.fabric import ManagerState, PortErrors
from weft.model.fabrictypes import Mode
from weft.model.ids import PKey, WireGuid, format_guid, parse_guid
from weft.model.subnet import Partition, PathProbe

NONCE_HEADER, READ_AT_HEADER, PROTOCOL_HEADER = "Weft-Nonce", "Weft-Read-At", "Weft-Protocol"

PROTOCOL: int = 4
"""The version that this program speaks. 2: a status has takeover problems and the agent's own apart. 3: a reading of
tables and a topology say why they may lack something. 4: ports with errors have GUIDs, and a status says how many
ports weren't read."""
OLDEST_PROTOCOL: int = 1
"""The oldest version that it still understands."""


def version_of(said: str | None) -> int | None:
    """The version that `PROTOCOL_HEADER` names, if this program speaks it; None: it doesn't."""
    text = "1" if said is None else said
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < 6 else 0
    return number if OLDEST_PROTOCOL <= number <= PROTOCOL else None


def other_protocol(said: str | None, other: str, own: str) -> str | None:
    """Why two programs can't talk to each other and which of them to upgrade; None: they can.

    Args:
        said: value of `PROTOCOL_HEADER` from the other side, None if missing.
        other, own: what to call them, such as `the agent` and `weft`.
    """
    if version_of(said) is not None:
        return None
    text = "1" if said is None else said
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < 6 else 0
    mine = str(PROTOCOL) if PROTOCOL == OLDEST_PROTOCOL else f"{OLDEST_PROTOCOL} to {PROTOCOL}"
    older = other if number < OLDEST_PROTOCOL else own
    return f"{other} speaks version {text[:20]!r} of the agents' protocol, {own} {mine}: upgrade {older}"


class AgentProblem(Document):
    """Body of every error response."""

    detail: str


class ConfiguredPartition(Document):
    """A partition as OpenSM reads it from the file."""

    pkey: PKey
    name: str
    members: dict[str, Mode] = Field(description="Port GUID (0x and 16 digits) to membership.")
    everybody: bool = Field(default=False, description="Whether every host port is a member too.")

    @classmethod
    def of(cls, partition: Partition) -> Self:
        """A partition of a file, GUIDs as text."""
        members = {format_guid(guid): membership for guid, membership in partition.members.items()}
        return cls(pkey=partition.pkey, name=partition.name, members=members, everybody=partition.everybody)

    def partition(self) -> Partition:
        """The partition as the value that the planner uses."""
        members = {parse_guid(guid): membership for guid, membership in self.members.items()}
        return Partition(self.pkey, self.name, members, self.everybody)


class WeftPartitionDocument(Document):
    """A partition of weft's section. `mark` is `Mark.text()`; members are port GUIDs, all full."""

    pkey: PKey
    mark: str
    members: tuple[WireGuid, ...]


class AgentPartitions(Document):
    """The partition file of one subnet manager, and whether that one is master."""

    state: ManagerState
    digest: str = Field(description="SHA-256 of the file's octets; empty if there is no file.")
    foreign_digest: str = Field(description="SHA-256 of everything outside weft's section.")
    weft: tuple[WeftPartitionDocument, ...]
    configured: tuple[ConfiguredPartition, ...] = Field(description="Everything, weft's and foreign ones.")
    problems: tuple[str, ...] = ()


class AgentStatus(Document):
    """A subnet manager, its file and its log."""

    name: str
    state: ManagerState
    port_guid: WireGuid | None = Field(default=None, description="Port that the subnet manager runs on.")
    master_guid: WireGuid | None = Field(
        default=None, description="Port of the subnet's master, asked on the wire."
    )
    priority: int | None = None
    process: int | None = Field(
        default=None, description="Process id of the subnet manager; none: not running."
    )
    problems: tuple[str, ...] = Field(default=(), description="Of the subnet manager, its file and its log.")
    takeover_problems: tuple[str, ...] = Field(
        default=(),
        description="What would go wrong if another of weft's subnet managers took over from this one.",
    )
    own_problems: tuple[str, ...] = Field(
        default=(), description="Of the agent itself, such as its certificate."
    )
    digest: str = ""
    foreign_digest: str = ""
    port_errors: tuple[PortErrors, ...] | None = Field(
        default=None, description="Of a master: ports with errors, the worst first; none: not known."
    )
    bad_ports: int | None = Field(
        default=None, description="Of a master: how many ports are bad, listed or not; none: not known."
    )
    unread_ports: int | None = Field(
        default=None,
        description="Of a master: how many cabled ports weren't read an hour ago, or now; none: not known.",
    )

    @property
    def every_problem(self) -> tuple[str, ...]:
        """Problems of the manager, of a takeover by it, and of the agent itself."""
        return (*self.problems, *self.takeover_problems, *self.own_problems)


class PartitionsChange(Document):
    """Desired: all of weft's section. Only written if the file still has `expected_digest`."""

    site: str
    expected_digest: str
    weft: tuple[WeftPartitionDocument, ...]
    reload: bool = Field(default=True, description="Whether to notify the subnet manager (SIGHUP).")
    wait_seconds: float = Field(
        default=0.0,
        ge=0,
        le=60,
        description="How long to wait until the wire is as the file says; 0: not at all.",
    )


class PortMismatch(Document):
    """A port whose table differs from what the file asks for. Keys are 16-bit, with the membership bit."""

    port_guid: WireGuid
    where: str = Field(description="`host` or `leaf`.")
    missing: tuple[int, ...] = ()
    extra: tuple[int, ...] = ()
    unreachable: str = ""


class ChangeResult(Document):
    """The file is written (digest); `settled` only if every table was read and is exact."""

    digest: str
    process: int | None = Field(
        description="Process that was sent SIGHUP; none: it does not run or wasn't asked."
    )
    settled: bool = False
    mismatches: tuple[PortMismatch, ...] = ()
    problems: tuple[str, ...] = Field(default=(), description="From the log since the change, each a line.")


class TablesQuery(Document):
    """Asks for the P_Key tables of host ports and their leaf ports."""

    port_guids: tuple[WireGuid, ...] | None = Field(default=None, description="None: every host port.")


class PortReading(Document):
    """Tables of one host port and its leaf port, entry by entry, without zeros."""

    port_guid: WireGuid
    keys: tuple[int, ...] = ()
    leaf_keys: tuple[int, ...] | None = None
    expected: tuple[int, ...] = Field(default=(), description="What this manager's file asks for.")
    capacity: int = 0
    leaf: str = ""
    leaf_guid: WireGuid | None = None
    leaf_port: int = 0
    unreachable: str = ""


class VacantPort(Document):
    """A port of a leaf that has no link, and whose table still has keys besides the default one."""

    switch_guid: WireGuid
    port: int
    keys: tuple[int, ...]


class Tables(Document):
    """Tables of host ports, and of leaf ports without a link."""

    ports: tuple[PortReading, ...]
    own_port: WireGuid | None = Field(
        default=None, description="Port that the subnet manager runs on, and that the others were asked from."
    )
    vacant: tuple[VacantPort, ...] = ()
    idle: dict[str, tuple[int, ...]] = Field(
        default_factory=dict[str, tuple[int, ...]],
        description="GUID of a leaf, to its ports that have no link and whose tables were read, `vacant` or not.",
    )
    unread_leaves: dict[str, str] = Field(
        default_factory=dict[str, str],
        description="GUID of a leaf whose ports without a cable could not be read, to the reason.",
    )
    partial: tuple[str, ...] = Field(
        default=(),
        description="Why there may be ports that aren't shown, such as time-outs of the discovery; nothing: all are.",
    )


class PathsQuery(Document):
    """Asks the subnet administrator for paths between pairs of port GUIDs."""

    pairs: tuple[tuple[WireGuid, WireGuid], ...]


class Paths(Document):
    """The subnet administrator's answers, in the order of the query's pairs."""

    paths: tuple[PathProbe, ...]


class AgentOptions(Document):
    """opensm's own options that isolation depends on; of secrets only whether they are set."""

    path: str
    options: dict[str, str] = Field(description="Name to value; what isn't here has OpenSM's default.")
    problems: tuple[str, ...] = ()


class RepairQuery(Document):
    """Repair drifted ports, and remove keys from vacant leaf ports."""

    port_guids: tuple[WireGuid, ...] = ()
    vacant_keys: tuple[PKey, ...] = ()


class RepairResult(Document):
    """What was written, and what could not be repaired and why."""

    written: int
    problems: tuple[str, ...] = ()
