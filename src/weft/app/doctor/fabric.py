"""Checks of fabrics: what `weft site check --live` asks managers and agents, and the settings that isolation needs."""

from __future__ import annotations

from collections.abc import Iterator

from weft.app.doctor.findings import DoctorFinding, finding
from weft.app.livecheck import UNCHECKED, check_live
from weft.model.site import Site


def fabric(site: Site, name: str) -> Iterator[DoctorFinding]:
    """One fabric of the site."""
    of = f"fabric {name}"
    if site.fabrics[name].manager.driver == "none":
        return  # weft only plans on it
    alone = site.model_copy(update={"fabrics": {name: site.fabrics[name]}})
    found = check_live(alone)
    for problem in found.problems:
        yield finding("CHECK_FAILED" if UNCHECKED in problem else "FABRIC_PROBLEM", of, problem)
    for weak in found.weaknesses:
        said = (
            f"{weak.manager}: {weak.setting} is {weak.found}, must be {weak.wanted}: it allows {weak.allows}"
        )
        yield finding("FABRIC_WEAK", of, said)
    for differing in found.differences:
        yield finding("FABRIC_DIFFERS", of, differing.what)
    if found.good and not found.managers:
        yield finding("FABRIC_UNASKED", of, "it has no manager that weft could ask")
    elif found.good:
        asked = f"{found.managers} manager{'' if found.managers == 1 else 's'}"
        yield finding("FABRIC_SOUND", of, f"{asked} asked, without a finding")
