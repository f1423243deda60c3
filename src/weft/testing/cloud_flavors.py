"""The fake cloud: flavors say in an extra spec whether weft made them, or what they had before."""

from __future__ import annotations

from dataclasses import replace

from weft.model.resources import Difference, Kind, Observed
from weft.testing.cloud_state import Thing

MADE, BEFORE = "weft:made", "weft:before"


def say_made(flavor: Thing) -> None:
    """Before its mark is written: one without a mark was there already, and is adopted."""
    if flavor.kind is Kind.FLAVOR and not flavor.facts.keys() & {MADE, BEFORE}:
        flavor.facts[MADE if flavor.mark else BEFORE] = True


def unsaid(thing: Thing, found: Observed) -> Observed:
    """With a difference, if it says neither."""
    if thing.kind is not Kind.FLAVOR or thing.mark is None or thing.facts.keys() & {MADE, BEFORE}:
        return found
    missing = Difference(field="extra_specs", wanted=f"{MADE}=yes", observed=f"{MADE}=none")
    return replace(found, differences=(*found.differences, missing))
