"""UFM's versions: what differs, and with which of them no partition may be changed. Pure.

Sources: UFM Enterprise REST API and release notes 6.10 to 6.24 (RN: number of a bug there), and reports from real ones.
Where formats differ, the readers accept all of them; the table says why.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_TEXT = re.compile(r"(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?(?:-(\d{1,6}))?")

Version = tuple[int, int, int, int]
"""A version, such as (6, 19, 1, 5) for `6.19.1-5`."""

OLDEST: Version = (6, 12, 0, 0)
"""The first version whose documentation has PUT of a whole list of members, and jobs."""
NEWEST: Version = (6, 24, 9999, 0)
"""The newest version whose documentation this driver follows."""
_END: Version = (9999, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class VersionRow:
    """One difference between versions.

    Attributes:
        since, before: versions that it applies to, `before` excluded.
        what: what is different.
        then: what an operator should do; empty: nothing, the driver knows it.
        blocks: no partition is changed on such a version.
    """

    since: Version
    before: Version
    what: str
    then: str = ""
    blocks: bool = False


TABLE: tuple[VersionRow, ...] = (
    VersionRow((0, 0, 0, 0), OLDEST, "it is older than 6.12", "upgrade UFM", blocks=True),
    VersionRow(
        (6, 15, 1, 0),
        (6, 15, 6, 4),
        "a change by REST may break partitions.conf (PARSE ERROR), and every port becomes a full member of the default "
        "partition (RN 4040154)",
        "upgrade UFM to 6.15.6-4 or later",
        blocks=True,
    ),
    VersionRow(
        (6, 15, 0, 0),
        (6, 15, 6, 0),
        "access tokens can be abused (RN 4012415)",
        "upgrade UFM to 6.15.6 or later",
    ),
    VersionRow((6, 15, 2, 0), (6, 17, 0, 0), "P_Keys without members are left behind (RN 3816196)"),
    VersionRow(
        (6, 16, 0, 0),
        (6, 17, 0, 0),
        "links stay in INIT after a fail-over where SHARP and P_Keys are used (RN 3863958)",
        "upgrade UFM to 6.17.0 or later",
    ),
    VersionRow(
        (6, 15, 2, 0),
        (6, 18, 0, 0),
        "ports deleted by the CloudX API stay members (RN 3881365): it is never used",
    ),
    VersionRow(
        (0, 0, 0, 0),
        (6, 15, 1, 0),
        "the REST API may stall (RN 3495692, 3752196): a request that runs out of time is read back",
    ),
    VersionRow(
        (6, 17, 2, 0), (6, 18, 0, 0), "an empty P_Key refuses GUIDs (RN 3985023): weft never creates one"
    ),
    VersionRow((0, 0, 0, 0), (6, 16, 0, 0), "POST /resources/pkeys/add isn't there: it is never used"),
    VersionRow((0, 0, 0, 0), (6, 17, 0, 0), "alarms have related_object_name and numbers"),
    VersionRow((6, 17, 0, 0), _END, "alarms have object_name and texts"),
    VersionRow((6, 14, 0, 0), _END, "roles are checked for each route: Fabric Admin may change P_Keys"),
    VersionRow((0, 0, 0, 0), (6, 19, 0, 0), "the default partition's membership can't be read over REST"),
    VersionRow(
        (6, 19, 0, 0), _END, "0x7fff has its membership in the listing; guids_data with qos_conf hides GUIDs"
    ),
    VersionRow(
        (6, 24, 2, 0),
        _END,
        "SHARP's reservations by P_Key no longer take changes by REST: weft makes none",
    ),
    VersionRow(
        NEWEST,
        _END,
        "it is newer than 6.24, the newest that this driver was written for",
        "check for a newer weft",
    ),
)


def parse_version(text: str) -> Version | None:
    """The version in UFM's words; None: it isn't one."""
    found = _TEXT.match(text.strip())
    if found is None:
        return None
    major, minor, patch, build = (int(p or 0) for p in found.groups())
    return major, minor, patch, build


def differences(version: Version) -> tuple[VersionRow, ...]:
    """The rows that apply to a version."""
    return tuple(d for d in TABLE if d.since <= version < d.before)


def troubles(version: Version) -> tuple[str, ...]:
    """What an operator should know about a version, one sentence each."""
    return tuple(f"{d.what}: {d.then}" for d in differences(version) if d.then)


def why_not_change(version: Version) -> str:
    """Why no partition may be changed on this version; empty: partitions may be changed."""
    return next((f"{d.what}: {d.then}" for d in differences(version) if d.blocks), "")


def text_of(version: Version) -> str:
    """A version as UFM writes it."""
    major, minor, patch, build = version
    return f"{major}.{minor}.{patch}" + (f"-{build}" if build else "")
