"""What tenants see of refused orders and requests: refusals, conflicts, allowed values."""

from __future__ import annotations

import re

from weft.app.sayings.forms import forms, told
from weft.model.messages import OPERATORS, for_tenant
from weft.planning.shapes.resolve import SHAPES

_SPARE = ("", " ({n} of them spare)")


REFUSALS = forms(
    *(
        f"{{n}} node{s}{spare} {verb} requested, but {{n}} {those} available…"
        for s, verb in (("", "is"), ("s", "are"))
        for spare in _SPARE
        for those in ("is", "are")
    ),
    *(
        f"{{n}} nodes{spare} are requested in groups of {{n}} {where}, but only {{n}} of the {{n}} available nodes "
        f"form such groups (locality.slice is {{n}})."
        for spare in _SPARE
        for where in ("per leaf", "per NVLink domain", "that are whole NVLink domains")
    ),
    *(f"{{n}} nodes{spare} can't be on one node: locality.required is node." for spare in _SPARE),
    *(
        f"{{n}} server{s} with {{n}} {{node}} each are requested on shared nodes, and there is capacity for {{n}}…"
        for s in ("", "s")
    ),
    *(
        f"{{n}} server{s} with {{n}} {{node}} each fit, but at most {{n}} within one {{level}}…"
        for s in ("", "s")
    ),
    *(
        f"{{n}} node{s} {verb} available{group}, but at most {{n}} of the {{n}} within one {{level}}…"
        for s, verb in (("", "is"), ("s", "are"))
        for group in ("", " in groups of {n}")
    ),
    *(
        f"{{n}} node{s} {verb} available{group}, but no leaves whose uplinks have {{n}} Gb/s left…"
        for s, verb in (("", "is"), ("s", "are"))
        for group in ("", " in groups of {n}")
    ),
    *(
        f"the project has {{n}} of at most {{n}} nodes; {{n}} more are requested{spare}"
        for spare in ("", ", {n} of them spare")
    ),
    *(
        f"subnet {{cidr}} of the pod's {{field}} network has {{n}} addresses, and {{n}} are needed for {{n}} {one}; "
        "a subnet can't grow while servers are on it"
        for one in ("node", "nodes")
    ),
    "{place}: all its management VLANs are in use",
    "{place}: all management VLANs {n} to {n} are in use",
    "{place}: no free subnet of {n} addresses is left…",
    "{place}: no free subnet is left…",
    *(text for shape in SHAPES for text in shape.says.refusals),
)


def refusal(text: str) -> str:
    """Why an order is refused."""
    if known := for_tenant(text):
        return known
    if more := re.match(r"\d{1,9} additional (?:node|server)s? for the \d{1,9} of the pod: ", text):
        return more.group() + refusal(text[more.end() :])
    return told(REFUSALS, text) or quotas(text) or f"the order can't be served ({OPERATORS})"


def quotas(text: str) -> str | None:
    row = r"[A-Za-z() ]{1,40}: \d+ used \+ \d+ (?:requested|wanted) > \d+"
    return text if re.fullmatch(rf"the project's quotas would be exceeded: {row}(?:; {row})*", text) else None
