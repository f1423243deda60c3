"""A row of the bench's table."""

from __future__ import annotations

from typing import Any


def row(
    name: str, value: float, unit: str, goal: str = "", met: bool | None = None, compared_with: str = ""
) -> dict[str, Any]:
    """What was measured, whether it meets its goal (`met`; None: it has none), and what it is compared with."""
    shown = float(f"{value:.4g}")
    return {
        "name": name,
        "value": shown,
        "unit": unit,
        "goal": goal,
        "met": met,
        "compared_with": compared_with,
    }
