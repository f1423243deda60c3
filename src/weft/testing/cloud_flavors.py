"""The fake cloud: an extra spec of a flavor says that weft made it, or what an adopted one had before."""

from __future__ import annotations

from dataclasses import replace

from weft.model.resources import Difference, Kind, Observed
from weft.testing.cloud_state import Thing

MADE, BEFORE = "weft:made", "weft:before"


def say_made(flavor: Thing) -> None:
    """Write whether weft made the flavor. Called before the mark is written: a flavor without one was there before."""
    if flavor.kind is Kind.FLAVOR and not flavor.facts.keys() & {MADE, BEFORE}:
        flavor.facts[MADE if flavor.mark else BEFORE] = True


def unsaid(thing: Thing, found: Observed) -> Observed:
    """What `find` shows of a flavor, with a difference if the extra spec is missing."""
    if thing.kind is not Kind.FLAVOR or thing.mark is None or thing.facts.keys() & {MADE, BEFORE}:
        return found
    missing = Difference(field="extra_specs", wanted=f"{MADE}=yes", observed=f"{MADE}=none")
    return replace(found, differences=(*found.differences, missing))
