"""Problems are values from which sentences are made."""

from __future__ import annotations

import re

import pytest

from weft.model.problem import (
    _ROWS,  # pyright: ignore[reportPrivateUsage]
    Problem,
    ProblemKind,
    Severity,
    render,
    unread,
)


@pytest.mark.parametrize("kind", ProblemKind)
def test_every_kind_has_severity_and_sentence(kind: ProblemKind) -> None:
    """A missing row or value would otherwise show only when the problem occurs."""
    _, code = _ROWS[kind]
    names = set(code.types) & set(re.findall(r"\{(\w+)\}", code.operator)) - {"subject"}
    problem = Problem(kind, "gpu01/mlx5_0", "ib0", detail={n: f"<{n}>" for n in names})
    assert all(f"<{n}>" in problem.text() for n in names)
    assert problem.unknown == (problem.severity is Severity.UNKNOWN)


def test_external_text_is_not_a_format_string() -> None:
    """It may contain braces."""
    assert unread("cloud", "HTTP 500: {'code': {0}}").text() == "HTTP 500: {'code': {0}}"


def test_first_problems_are_listed_and_others_counted() -> None:
    wrong = [Problem(ProblemKind.MISSING, f"port p{i}") for i in range(4)]
    assert render([unread("ib0", "silent"), *wrong], most=2) == (
        "unknown: silent; port p0 is missing (and 3 more)"
    )
    assert render(wrong[:1]) == "port p0 is missing"
