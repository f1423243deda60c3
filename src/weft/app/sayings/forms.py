"""Forms of sentences: text with gaps that take only numbers, times, standard words and the tenant's own names."""

from __future__ import annotations

import re
from collections.abc import Iterable

from weft.model.kinds import Kind
from weft.model.pod import PodState
from weft.planning.shapes.resolve import SHAPES
from weft.ports.servers import Action

_PLACES = "|".join(("cloud", "fabric", *(p for shape in SHAPES for p in shape.says.places)))
UNITS = "|".join(shape.units for shape in SHAPES)
GAPS = {
    "n": r"\d{1,9}",
    "action": "|".join(Action),
    "name": r"(?:weft-[0-9a-f]{8}-[A-Za-z0-9._-]{1,120}|[a-z0-9][a-z0-9-]{0,62})",
    "node": r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}",
    "nodes": r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}(?:, [A-Za-z0-9][A-Za-z0-9._-]{0,62})*",
    "pod": r"'?[a-z0-9][a-z0-9-]{0,39}'?",
    "time": r"\d{4}-\d\d-\d\dT\d\d:\d\dZ",
    "user": r"[\w.@-]{1,64}",
    "span": r"[1-9]\d{0,6}[smhd]",
    "state": "|".join(PodState),
    "kind": "|".join(Kind),
    "level": r"node|nvlink_domain|leaf|block|hall|building|site",
    "place": rf"(?:{_PLACES}) [A-Za-z0-9][A-Za-z0-9._-]{{0,62}}",
    "field": r"[a-z_]{1,40}",
    "list": r"[A-Za-z0-9 ._:,-]{1,2000}",
    "cidr": r"[0-9./]{7,18}",
    "id": r"[0-9a-f-]{36}|0x[0-9a-f]{1,4}|weft-[0-9a-f]{8}-[A-Za-z0-9._-]{1,120}",
    "space": r"(?:segment|vlan|data)/[A-Za-z0-9][A-Za-z0-9._-]{0,62}",
}


def form(text: str) -> re.Pattern[str]:
    """`{n}` is a gap; `…` matches anything and is not shown. What is shown is in the pattern's groups."""
    parts = re.split(r"(\{\w+\}|…)", text)
    made = ""
    shown = False
    for part in parts:
        if part == "…":
            made, shown = made + (")" if shown else "") + "(?:.*)", False
            continue
        made, shown = made + ("" if shown else "("), True
        made += f"(?:{GAPS[part[1:-1]]})" if part[:1] == "{" and part[-1:] == "}" else re.escape(part)
    return re.compile(made + (")" if shown else ""), re.DOTALL)


def forms(*texts: str) -> tuple[re.Pattern[str], ...]:
    return tuple(form(text) for text in texts)


def told(forms: Iterable[re.Pattern[str]], text: str) -> str | None:
    """The part of a sentence that is shown, if it matches one of the forms."""
    for form in forms:
        if found := form.fullmatch(text):
            return "".join(g for g in found.groups() if g).rstrip(" (,:")
    return None
