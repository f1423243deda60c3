"""What an audit found, and the log of who did what."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from weft.model.base import Document
from weft.model.ids import Instant
from weft.model.views.searched import Searched


class Finding(Document):
    """One finding of an audit."""

    category: Literal["orphan", "missing", "different", "foreign", "late", "unknown"] = Field(
        description="orphan: has weft's mark, but belongs to no live pod; missing, different: a pod's resource; "
        "foreign: not weft's, but within weft's ranges or on a pod's network; late: found by the sweep after the "
        "pod's receipt was signed; unknown: could not be read."
    )
    kind: str
    where: str
    subject: str
    id: str = Field(default="", description="External id of the subject, if it has one.")
    pod: str | None = Field(default=None, description="Name of the pod.")
    pod_id: str | None = Field(default=None, description="Id of the pod, which the database may not know.")
    owner: str | None = Field(
        default=None, description="Owner, if not a pod: the site, or a tenant's own network."
    )
    what: str = Field(description="One sentence: what was observed and what was desired.")
    key: str = Field(default="", description="Names the finding in `findings` of a repair.")
    repair: str = Field(default="", description="What `--repair` does about it, or why it does nothing.")
    repairable: bool = Field(default=False, description="Whether `--repair` does something about it.")
    repaired: bool | None = Field(
        default=None, description="With `--repair`: whether the repair was confirmed."
    )


class AuditReport(Document):
    """The result of an audit; clean only without any findings."""

    at: datetime
    site: str
    checked: dict[str, int] = Field(description="Number of objects examined, by kind.")
    limits: tuple[str, ...] = Field(
        default=(),
        description="What weft can't do or prove on a fabric, and nodes that get no new orders because of their own "
        "checks, one sentence each; no finding.",
    )
    findings: tuple[Finding, ...] = ()


class AuditLogEntry(Document):
    """Who did what, when, from where, with what result."""

    sequence: int
    at: datetime
    last_at: datetime = Field(description="When it last happened; the other fields describe that occurrence.")
    times: int = Field(
        default=1,
        description="Occurrences within the hour; refused requests of non-operators are counted together.",
    )
    user: str = Field(description="Name of the user; only the id identifies them.")
    user_id: str | None = Field(description="Null in entries of earlier versions.")
    user_domain_id: str | None
    project_id: str | None
    project_domain_id: str | None
    action: str
    subject: str
    address: str
    user_agent: str
    request_id: str
    outcome: str


class AuditLogSearch(Document):
    """Filters and paging of the audit log, newest first."""

    after: int = Field(
        default=0, ge=0, le=2**63 - 1, description="Only entries with a higher sequence number."
    )
    before: int | None = Field(
        default=None,
        ge=0,
        le=2**63 - 1,
        description="Only entries with a lower sequence number: the next page.",
    )
    since: Instant | None = Field(default=None, description="Only entries since this time, with time zone.")
    user: Searched | None = Field(default=None, description="Only entries of this user, by id or name.")
    project: Searched | None = Field(default=None, description="Only entries of this project, by id.")
    action: Searched | None = Field(
        default=None, description="Only entries with this action, such as `pod create`."
    )
    limit: int = Field(default=1000, ge=1, le=1000, description="Maximum number of entries.")
