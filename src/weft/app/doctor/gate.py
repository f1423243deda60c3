"""Whether weft changes anything outside: the notes of the clouds against the database, as its processes read them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import cast

from weft.app.doctor.bounds import DoctorCheck
from weft.app.doctor.findings import DoctorFinding, finding
from weft.drivers.openstack import Sessions
from weft.drivers.openstack.witness import OpenStackWitness
from weft.engine.base.database import Database
from weft.engine.base.epoch import is_behind, was_behind
from weft.engine.store.inspection import inspecting
from weft.model.errors import WeftError

OF = "changes outside"
_REMEDY = "review weft audit, then weft audit --accept"


def gate_check(url: str, site: str, clouds: Mapping[str, Sessions | None], seconds: float) -> DoctorCheck:
    """A check of the gate (`weft.engine.base.gate`); nothing is noted.

    Args:
        clouds: all of the site; None: weft's user got no token there.
    """
    return DoctorCheck(OF, partial(_look, url, site, clouds, seconds))


def _look(
    url: str, site: str, clouds: Mapping[str, Sessions | None], seconds: float
) -> Iterator[DoctorFinding]:
    with inspecting(url, seconds / 2) as inspection:
        if restore := inspection.restored():
            said = (
                f"nothing: the database was restored at {restore.at:%Y-%m-%d %H:%M} UTC by {restore.restored_by} "
                f"from a backup of {restore.taken_at:%Y-%m-%d %H:%M} UTC: {_REMEDY}"
            )
            yield finding("CHANGES_STOPPED", OF, said)
            return
        database, bad = cast(Database, inspection), False  # it has what these functions use
        for cloud, sessions in sorted(clouds.items()):
            try:
                behind, unread = _behind(database, site, cloud, sessions), ""
            except WeftError as error:
                behind, unread = was_behind(database, cloud), str(error)
            if behind:
                said = f"nothing: cloud {cloud} remembers changes that the database doesn't have: {_REMEDY}"
                yield finding("CHANGES_STOPPED", OF, said)
            elif unread:
                said = f"nothing in cloud {cloud}, whose note of the database can't be read: {unread}"
                yield finding("CHANGES_UNREAD", OF, said)
            bad = bad or behind or bool(unread)
        if not bad:
            yield finding("CHANGES_ALLOWED", OF, "the database has all that the clouds remember of it")


def _behind(database: Database, site: str, cloud: str, sessions: Sessions | None) -> bool:
    """Whether the database is behind the cloud's note. Raises `WeftError` if the note can't be read."""
    if sessions is None:
        raise WeftError("weft's user has no token there")
    notes = OpenStackWitness(sessions)
    return is_behind(database, notes.witness(site), cloud, again=lambda: notes.witness(site))
