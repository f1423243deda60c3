"""Checks of the settings of nodes' own checks."""

from __future__ import annotations

from collections.abc import Iterator

from weft.model.hostchecks import CODES
from weft.model.site import Site
from weft.planning.site.wrongvalues import WrongValue


def check_host_checks(site: Site) -> Iterator[WrongValue]:
    """Codes are those of weft-check."""
    for code in site.checks.codes:
        if code not in CODES:
            yield ("checks", "codes", code), code, f"a code of weft-check: {', '.join(sorted(CODES))}"
