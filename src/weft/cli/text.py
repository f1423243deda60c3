"""Plans, changes and refusals as text, from the API's JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from weft.cli.common import Json, cell, table
from weft.model.errors import InputErrors, PermanentError, RefusedError, WeftError


def plan(value: Json) -> str:
    """A plan: what was chosen, why, and what would be created."""
    from pydantic import ValidationError

    from weft.model.plan import Plan
    from weft.planning.shapes.changetext import change_text
    from weft.planning.shapes.plantext import plan_text

    try:
        found = Plan.model_validate(value)
        return (plan_text(found) if found.change is None else change_text(found)).rstrip()
    except ValidationError:
        raise _newer() from None


def site_plan(value: Json, applied: bool = False) -> str:
    """What the site needs in its clouds, against what is there."""
    from pydantic import ValidationError

    from weft.model.siteplan import SitePlan
    from weft.planning.site.plantext import site_plan_text

    try:
        return site_plan_text(SitePlan.model_validate(value), applied).rstrip()
    except ValidationError:
        raise _newer() from None


def _newer() -> PermanentError:
    said = "the server's plan has fields this client doesn't know"
    return PermanentError("show the plan", "weft's API", said, "use --json")


def error_lines(error: WeftError, refused: bool = True) -> list[str]:
    """An error for people, a line each.

    Args:
        refused: with the explanation of an order that is refused.
    """
    from weft.model.errortable import sentence

    lines = [sentence(one) for one in (error.errors if isinstance(error, InputErrors) else [error])]
    if isinstance(error, InputErrors) and error.more:
        lines.append(f"… and {error.more} more")
    if isinstance(error, RefusedError) and refused:
        lines += refusal(error.detail).splitlines()
    return lines


def change(value: Json) -> list[str]:
    """What a change makes different, in a few lines."""
    lines = [f"  ~  {f['field']}: {f['was']} → {f['becomes']}" for f in value.get("fields", ())]
    rows = (
        ("+", "nodes_added", "nodes that come"),
        ("~", "spares_used", "spares that get a server"),
        ("−", "nodes_removed", "nodes that go"),
    )
    for mark, key, what in rows:
        if names := value.get(key):
            lines.append(f"  {mark}  {what}: {', '.join(names)}")
    return lines


def refusal(detail: Mapping[str, Any]) -> str:
    """The explanation of a refused order: filters, quotas, and what would fit."""
    lines: list[str] = []
    for key, value in detail.items():
        if key == "explanation" and isinstance(value, Mapping):
            lines += _explanation(cast(Mapping[str, Any], value))
        elif key == "would_fit" and value:
            lines += ["What would fit:", *(f"  {offer['message']}" for offer in value)]
        elif isinstance(value, list) and value and all(isinstance(row, Mapping) for row in value):
            lines += [f"{key}:", *table(tuple(value[0]), value, "  ")]
        elif key == "earliest_start" and value:
            lines.append(f"Fits as it stands from {cell(value)}, if every lease ends when it says.")
        elif key != "reason" and value and not isinstance(value, Mapping):
            lines.append(f"{key.replace('_', ' ')}: {cell(value)}")
    return "\n".join(lines)


def _explanation(value: Mapping[str, Any]) -> list[str]:
    lines: list[str] = []
    if value.get("compared"):
        lines += ["Compared:", *table(("leaves", "blocks", "leftover", "why"), value["compared"], "  ")]
    if removing := [row for row in value.get("filters") or () if row.get("removed")]:
        lines.append(f"Filters, on {value.get('considered')} nodes:")
        lines += table(("filter", "removed", "left", "examples"), removing, "  ")
    return lines
