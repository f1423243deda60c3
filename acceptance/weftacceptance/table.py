"""The table of all checks with their states: of a run, as committed, and the differences."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from weftacceptance.provider import FALSE_PASSES, Check

PASSED, SKIPPED, FAILED, ERROR, EXCLUDED, FALSE = (
    "passed",
    "skipped",
    "failed",
    "error",
    "excluded",
    "false pass",
)
_LINE = re.compile(r"^\s+\[[\w.-]+\] (\w+): (PASSED|SKIPPED|FAILED|ERROR)\b")
_RANKS = {"SKIPPED": 0, "PASSED": 1, "FAILED": 2, "ERROR": 3}
NOT_RUN = "the suite doesn't run it without Kubernetes, or without output of its step"


@dataclass(frozen=True, slots=True)
class Row:
    """A check and its result.

    Attributes:
        reason: why it didn't pass; empty if it did.
    """

    suite: str
    check: str
    id: str
    state: str
    reason: str = ""


def results_of(output: str) -> dict[str, str]:
    """Check -> PASSED, SKIPPED, FAILED or ERROR, from the output of `isvctl`; the worst, if it occurs several
    times."""
    found: dict[str, str] = {}
    for line in output.splitlines():
        if (match := _LINE.match(line)) and _RANKS[match[2]] >= _RANKS.get(found.get(match[1], "SKIPPED"), 0):
            found[match[1]] = match[2]
    return found


def rows_of(
    checks: Iterable[Check],
    output: str,
    answers: Mapping[str, Mapping[str, Any]],
    excluded: Mapping[str, str],
) -> Iterator[Row]:
    """The rows of a suite.

    Args:
        answers: step -> what it answered. A check that passes although its step answered nothing that was read back is
            a false pass.
        excluded: check -> why it isn't run.
    """
    results = results_of(output)
    for one in checks:
        answer = answers.get(one.step, {})
        skipped = str(answer.get("skip_reason", "")) or _part_skipped(one, answer)
        result = results.get(one.name)
        if one.name in excluded:
            state, reason = EXCLUDED, excluded[one.name]
        elif result == "PASSED" and one.name in FALSE_PASSES:
            state, reason = FALSE, FALSE_PASSES[one.name]
        elif result == "PASSED" and (not answer.get("success") or answer.get("skipped")):
            state, reason = FALSE, "passes although its step read nothing"
        elif result == "PASSED":
            state, reason = PASSED, ""
        elif result in ("FAILED", "ERROR"):
            state, reason = (
                result.lower(),
                str(answer.get("error", "")) or "the suite wants more than the step read",
            )
        else:
            state, reason = SKIPPED, skipped or NOT_RUN
        yield Row(one.suite, one.name, one.id, state, reason)


def _part_skipped(check: Check, answer: Mapping[str, Any]) -> str:
    """Why one of two checks of a step is skipped: the audit log's."""
    return str(answer.get("audit_log_entry_skip_reason", "")) if "Entry" in check.name else ""


def compare(rows: Iterable[Row], committed: Iterable[Row]) -> list[str]:
    """What is worse than in the committed table, or better, one line each."""
    was = {(one.suite, one.check): one for one in committed}
    now = {(one.suite, one.check): one for one in rows}
    said: list[str] = []
    for key, one in now.items():
        before = was.get(key)
        if before is None:
            said.append(f"{one.suite} {one.check}: {one.state}, and not in the table")
        elif one.state != before.state and {one.state, before.state} & {PASSED, FAILED, ERROR, FALSE}:
            reason = f" ({one.reason})" if one.reason else ""
            said.append(f"{one.suite} {one.check}: {one.state}, the table says {before.state}{reason}")
    return said + [
        f"{suite} {check}: in the table, and not in the suite"
        for suite, check in was
        if (suite, check) not in now
    ]


def load(file: Path) -> list[Row]:
    """The committed table; empty if there is none."""
    return [Row(**one) for one in json.loads(file.read_text())] if file.exists() else []


def save(file: Path, rows: Iterable[Row]) -> None:
    """Write the rows as JSON, one line each."""
    lines = ",\n".join("  " + json.dumps(asdict(one), ensure_ascii=False) for one in rows)
    file.write_text(f"[\n{lines}\n]\n")


def counts(rows: Iterable[Row]) -> Counter[str]:
    """State -> number of checks."""
    return Counter(one.state for one in rows)


def page(rows: list[Row], head: str) -> str:
    """The page docs/acceptance.md: its text, and the table. Args: head: everything before the table."""
    states = (PASSED, SKIPPED, EXCLUDED, FALSE, FAILED, ERROR)
    lines = [head.rstrip(), "", "## Result", f"| suite | checks | {' | '.join(states)} |", f"|{'---|' * 8}"]
    for suite in dict.fromkeys(one.suite for one in rows):
        mine = [one for one in rows if one.suite == suite]
        lines.append(_counted(suite, mine, states))
    lines += [
        _counted("**together**", rows, states),
        "",
        "## Checks",
        "| check | id | state | why not |",
        "|---|---|---|---|",
    ]
    for one in rows:
        lines.append(
            f"| {one.suite}: `{one.check}` | {one.id} | {one.state} | {one.reason.replace('|', '/')} |"
        )
    return "\n".join(lines) + "\n"


def _counted(name: str, rows: list[Row], states: tuple[str, ...]) -> str:
    found = counts(rows)
    return f"| {name} | {len(rows)} | {' | '.join(str(found[state]) for state in states)} |"
