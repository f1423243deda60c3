"""Results of outside tests that a held node must pass before it is assigned again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from weft.model.base import Document
from weft.model.ids import Instant

TEST = r"^[a-z0-9][a-z0-9._-]{0,39}$"
OWN_CHECKS = "weft-check"
"""Name of the test that consists of the node's own checks; only weft-check reports it, with the node's token."""
TestOutcome = Literal["passed", "failed", "unknown"]
_PRINTABLE = r"^[^\x00-\x1f\x7f-\x9f]*$"


class NodeTestReport(Document):
    """Body of POST /v1/nodes/{name}/tests/{test}: what an outside test found."""

    status: TestOutcome = Field(description="unknown: it ran, and couldn't judge the node.")
    started: Instant = Field(description="When the test began, with time zone.")
    reason: str = Field(
        default="", max_length=500, pattern=_PRINTABLE, description="What was found; for operators."
    )
    serial: str | None = Field(
        default=None, max_length=200, description="Serial number of the machine that was tested (DMI)."
    )
    product_uuid: str | None = Field(
        default=None, max_length=200, description="UUID of the machine that was tested (DMI)."
    )


class NodeTest(Document):
    """A test that a held node must pass."""

    test: str
    status: Literal["passed", "failed", "unknown", "missing"] = Field(
        description="missing: no result since the hold began, or since a pod left the node."
    )
    at: datetime | None = Field(default=None, description="When the result came.")
    started: datetime | None = Field(default=None, description="When the test began, as it says.")
    reason: str = Field(default="", description="What was found, in the test's words.")
    by: str = Field(default="", description="User that reported it, by name; `weft`: the node's own token.")


class NodeTestReceipt(Document):
    """Answer to a test's report about a node."""

    node: str
    what: str = Field(description="What the node is, or was, held for.")
    accepted: bool = Field(description="All tests passed, and this hold ended.")
    tests: tuple[NodeTest, ...]


def tests_of(names: Iterable[str], stored: Mapping[str, Any]) -> tuple[NodeTest, ...]:
    """The site's tests in its order, each with its result in this hold.

    Args:
        stored: test -> status, at, started, reason and by, as a hold's row has them.
    """
    return tuple(
        NodeTest.model_validate({"test": name, **stored.get(name, {"status": "missing"})}) for name in names
    )
