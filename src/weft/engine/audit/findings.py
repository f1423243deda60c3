"""An audit's findings, as rows of its report."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from weft.model.owner import Owner
from weft.model.views import Finding


class Findings:
    """Findings so far, and what was checked for them.

    Attributes:
        rows: findings in the order in which they were made.
        checked: what was checked -> how many.
    """

    def __init__(self) -> None:
        self.rows: list[Finding] = []
        self.checked: dict[str, int] = {}

    def add(self, category: str, kind: str, where: str, subject: str, what: str, **more: Any) -> None:
        """Add a finding. Args: more: the other fields of `Finding`."""
        known = {"category": category, "kind": str(kind), "where": where, "subject": subject, "what": what}
        finding = Finding.model_validate({**known, **more})
        self.rows.append(finding.model_copy(update={"key": key_of(finding)}))


def identity(finding: Finding) -> tuple[str, ...]:
    """Equal for two findings about the same thing, whatever they say of it."""
    named = finding.id or finding.subject
    return (finding.category, finding.kind, finding.where, named, finding.pod_id or finding.owner or "")


def key_of(finding: Finding) -> str:
    """Names a finding in requests: 16 hexadecimal digits that follow from its `identity`."""
    return sha256("\0".join(identity(finding)).encode()).hexdigest()[:16]


def after_repair(finding: Finding, repaired: bool, why: str) -> Finding:
    """A finding after a repair; `why`: why it could not be removed."""
    done = finding.repaired is True or repaired
    return finding.model_copy(update={"repaired": done, "repair": why or finding.repair})


def about(owner: Owner | None, name: str | None) -> dict[str, str | None]:
    """The fields of a finding that name its owner: a pod by name and id, any other by one text."""
    if owner is None or owner.kind == "pod":
        return {"pod": name, "pod_id": owner and owner.id}
    return {"owner": f"{owner.kind} {name or owner.id}"}
