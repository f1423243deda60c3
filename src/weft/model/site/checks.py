"""The operator's settings of nodes' own checks (weft-check)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from weft.model.base import Document
from weft.model.ids import Duration
from weft.model.site.expected import ExpectedHost

CheckAction = Literal["exclude", "warn", "ignore"]
"""exclude: no new order gets the node; warn: it is shown as failed, and pods there say so; ignore: it doesn't count."""
CodeAction = Literal["replace", "exclude", "warn", "ignore"]
"""replace: as exclude, and pods whose orders ask for it get another node."""


class ChecksPolicy(Document):
    """What follows from results of nodes' own checks."""

    age: Duration = Field(
        default="26h",
        description="How long a result counts. An older one is `old`: unknown, whatever it says.",
    )
    failed: CheckAction = Field(
        default="exclude",
        description="What a failed check does. exclude: no new order gets the node until a later result says that the "
        "check no longer fails; warn: the node is shown as failed, and its pods have a condition; ignore: it doesn't "
        "count.",
    )
    codes: dict[str, CodeAction] = Field(
        default_factory=dict[str, CodeAction],
        description="What failed checks do, by code, instead of `failed`. replace: as exclude, and after "
        "`repair.check_failed` the node counts as failed: pods with `on_failure: replace` get another one.",
    )
    unknown: Literal["exclude", "ignore"] = Field(
        default="ignore",
        description="Whether a check that couldn't be judged keeps the node from new orders.",
    )
    missing: Literal["exclude", "ignore"] = Field(
        default="ignore",
        description="Whether a node without a result, or with an old one, is kept from new orders. Make sure first "
        "that all nodes report: `outage` doesn't count these. A result that was compared with other values than are "
        "expected now counts here until it is old by its age.",
    )
    outage: int = Field(
        default=16,
        ge=1,
        le=100_000,
        description="If the same check of more nodes than this, or of more than half of a machine type, begins to fail "
        "within a day, what it is compared with "
        "is probably wrong: for a day only the first ones are kept from new orders because of it, and "
        "`weft_checks_suspended` is an alarm.",
    )

    expected: dict[str, ExpectedHost] = Field(
        default_factory=dict[str, ExpectedHost],
        description="What is expected of hosts, by machine type: h100x8 has eight accelerators of type h100, cpu has "
        "none. weft-check reads it from weft; a result that was compared with other values is `old`.",
    )

    def action(self, code: str) -> CodeAction:
        """What a failed check does."""
        return self.codes.get(code, self.failed)

    def excludes(self, code: str) -> bool:
        """Whether a failed check keeps the node from new orders."""
        return self.action(code) in ("exclude", "replace")
