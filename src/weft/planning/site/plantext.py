"""A site's plan as text for people: +, ~ and −. Equal plans give equal text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from weft.model.kinds import kind_named
from weft.model.siteplan import SitePlan, SiteStep
from weft.planning.shapes.plantext import table
from weft.planning.words import some

MOST_ROWS = 60
"""Resources that are listed individually; more are counted."""
_SIGNS = {"create": "+", "adopt": "~", "change": "~", "recreate": "−+", "remove": "−"}
_DONE = {
    "create": "created",
    "adopt": "adopted",
    "change": "changed in place",
    "recreate": "removed and created again",
    "remove": "removed",
}


def site_plan_text(plan: SitePlan, applied: bool = False) -> str:
    """Steps, conflicts and sums.

    Args:
        applied: whether it is being carried out.
    """
    described = some(plan.resources, "resource")
    if not plan.resources and plan.nothing:
        return f"Site {plan.site} (generation {plan.generation}) describes no networks. Nothing to change.\n"
    notes = [f"Note: {note}." for note in plan.notes]
    if plan.nothing:
        said = f"Site {plan.site} (generation {plan.generation}): {described}, all as described. Nothing to change."
        return "\n".join((said, *notes)) + "\n"
    then = "It is carried out now." if applied else "Nothing was changed."
    head = f"Plan of site {plan.site} (generation {plan.generation}, {described}). {then}"
    sums = list(_sums(plan, "Will" if applied else "Would"))
    sections = [[head], list(_steps(plan)), list(_conflicts(plan)), notes, sums]
    return "\n\n".join("\n".join(s) for s in sections if s) + "\n"


def _steps(plan: SitePlan) -> Iterator[str]:
    rows = [[_SIGNS[s.action], s.key, s.name, s.where, _what(s)] for s in plan.steps]
    if rows:
        yield "Resources:"
        yield from table([["", "key", "name", "where", "what"], *rows[:MOST_ROWS]])
        if len(rows) > MOST_ROWS:
            yield f"  … and {len(rows) - MOST_ROWS} more. Each by name: --json."


def _what(step: SiteStep) -> str:
    changes = "; ".join(f"{f.field}: {f.was} → {f.becomes}" for f in step.fields)
    if step.action == "adopt":
        return f"adopts {step.id}" + (f"; {changes}" if changes else "")
    return changes or step.what


def _conflicts(plan: SitePlan) -> Iterator[str]:
    if plan.conflicts:
        yield "In the way, so nothing would be applied:"
        yield from (f"  {c.key}: {c.what}" for c in plan.conflicts)


def _sums(plan: SitePlan, will: str) -> Iterator[str]:
    for action, done in _DONE.items():
        number = Counter(s.kind for s in plan.steps if s.action == action)
        said = [some(n, kind.row.one, kind.row.many) for k, n in number.items() if (kind := kind_named(k))]
        if said:
            yield f"{will} be {done}: {', '.join(said)}."
