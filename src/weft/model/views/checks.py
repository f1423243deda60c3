"""Results of nodes' own checks, and the tokens to report them with, as the API shows them."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from weft.model.base import Document
from weft.model.hostchecks import CheckDocument, CheckProblem, CheckState, Judged
from weft.model.ids import Instant
from weft.model.nodetests import NodeTest


class FailedCheckView(Document):
    """A check that failed."""

    code: str
    subject: str
    since: datetime


class NodeChecks(Document):
    """What a node's own checks reported last."""

    node: str
    state: CheckState = Field(
        description="failed: a check failed, and wasn't ok since, however old; old: the last result is too old to "
        "count; never: there is none."
    )
    at: datetime | None = Field(default=None, description="When the last result came; null: never.")
    age: float | None = Field(default=None, description="Seconds since then.")
    problems: tuple[CheckProblem, ...] = Field(
        default=(),
        description="What failed or is unknown, and since when. What failed stays here until it was judged again.",
    )
    document: CheckDocument | None = Field(default=None, description="The last document of weft-check.")
    tests: tuple[NodeTest, ...] = Field(
        default=(), description="Outside tests that the node, which is held, must pass before it is assigned."
    )


class CheckReceipt(Document):
    """Answer to a node that has reported its checks."""

    node: str
    state: CheckState
    outdated: bool = Field(
        default=False, description="It was compared with other values than are expected of the node now."
    )
    left_out: tuple[str, ...] = Field(
        default=(), description="Members of the document that weft doesn't know, and didn't keep."
    )


class CheckJudgement(Document):
    """Body of PUT /v1/checks/{name}/judgement."""

    judged: Judged = Field(
        description="real: the check counts at once on all nodes where it fails now, however many; mistake: it keeps "
        "none of them from orders, until a result judges it otherwise; open: weft decides, by how many nodes have it."
    )


class JudgedCheck(Document):
    """Answer to a judgement of a check."""

    check: str
    judged: Judged
    nodes: tuple[str, ...] = Field(description="Where it fails.")


class CheckTokenRequest(Document):
    """Body of POST /v1/nodes/{name}/check-tokens."""

    until: Instant | None = Field(
        default=None, description="When it ends, with time zone; at most in three years. Default: in a year."
    )


class CheckTokenView(Document):
    """A token with which a node reports its checks; it can do nothing else."""

    id: str
    node: str
    made_at: datetime
    made_by: str = Field(description="User, by name.")
    expires_at: datetime
    used_at: datetime | None = Field(default=None, description="Null: not yet.")


class NewCheckToken(CheckTokenView):
    """A token that was just created. Its secret is shown here alone."""

    token: str
