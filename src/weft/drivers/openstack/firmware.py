"""Firmware versions and BIOS settings of a machine, as Ironic has read them, against the site's lists.

Ironic reads both from the BMC at the end of every cleaning, right before it writes that end into the node's history,
and when a machine is verified at its enrolment. If the BMC doesn't answer then, the earlier values stay
without notice. So both are a check of what a tenant left, in addition to the record of the cleaning, and no
proof by themselves.

Source: ironic 39, `conductor.cleaning`, `conductor.utils.node_update_cache`; api-ref, firmware (1.86), BIOS (1.40).
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence

from weft.drivers.openstack.cleaning import Demands
from weft.drivers.openstack.service import Json
from weft.drivers.openstack.session import Project
from weft.model.errors import UnknownError
from weft.model.messages import outside

VERSIONS = {"firmware": "1.86", "bios": "1.78"}
"""Microversions: Bobcat's is the first with firmware."""


def firmware_text(demands: Demands) -> str:
    """The text for the receipt of a machine without differences."""
    parts = [f"firmware of {', '.join(sorted(demands.firmware))}"] if demands.firmware else []
    parts += [f"{len(demands.bios)} BIOS settings"] if demands.bios else []
    demanded = [f"{' and '.join(parts)} as the site lists them"] if parts else []
    demanded += ["all other firmware as at the enrolment"] if demands.unchanged else []
    return f"{', '.join(demanded)}, as Ironic last read them" if demanded else ""


def firmware_differences(own: Project, machine: str, demands: Demands) -> tuple[str, ...]:
    """Everything that differs from the site's demands, one sentence each; Ironic isn't asked if there are no
    demands.

    Raises `UnknownError`.
    """
    found: list[str] = []
    if demands.firmware or demands.unchanged:
        rows = _rows(own, machine, "firmware", "component", "current_version")
        found += _versions(demands.firmware, _values(rows, "component", "current_version"))
        if demands.unchanged:
            found += _changed(rows, demands.firmware) if rows else ("Ironic has read no firmware of it",)
    if demands.bios:
        rows = _rows(own, machine, "bios", "name", "value")
        found += _settings(demands.bios, _values(rows, "name", "value"))
    return tuple(found)


def _versions(listed: Mapping[str, frozenset[str]], read: Mapping[str, str]) -> Iterator[str]:
    for component, versions in sorted(listed.items()):
        now = read.get(component)
        if now not in versions:
            state = f"is {now}" if now else "isn't known to Ironic"
            yield f"firmware of {component} {state}; the site allows {', '.join(sorted(versions))}"


def _changed(rows: Sequence[Json], listed: Container[str]) -> Iterator[str]:
    """Differences of components that the site has no list for."""
    for row in rows:
        name, now = str(row["component"]), row["current_version"]
        first = row.get("initial_version")
        # `last_version_flashed` records every change that Ironic has read, no matter who made it: it proves
        # nothing.
        if name in listed or (now is not None and now == first):
            continue
        state = f"is {now}" if now else "isn't known to Ironic any more"
        yield f"firmware of {name} {state}; it was {first or 'not known'} at the enrolment"


def _settings(listed: Mapping[str, str], read: Mapping[str, str]) -> Iterator[str]:
    for name, wanted in sorted(listed.items()):
        now = read.get(name)
        if now != wanted:
            state = "isn't known to Ironic" if now is None else f"is {now}"
            yield f"BIOS setting {name} {state}; the site has {wanted}"


def _values(rows: Sequence[Json], key: str, value: str) -> dict[str, str]:
    return {str(row[key]): str(row[value]) for row in rows if row[value] is not None}


def _rows(own: Project, machine: str, what: str, *fields: str) -> list[Json]:
    """Rows of one kind, each with these fields."""
    asked = f"read {what} of machine {machine}"
    version = VERSIONS[what]
    headers = {"OpenStack-API-Version": f"baremetal {version}", "X-OpenStack-Ironic-API-Version": version}
    answer = own.baremetal.ask(asked, "GET", f"/v1/nodes/{machine}/{what}", headers=headers)
    rows: list[Json] = own.baremetal.rows(asked, answer, what)
    if missing := [name for row in rows for name in fields if name not in row]:
        raise UnknownError(
            asked, "Ironic", outside.ODD_ANSWER(what=f"a row without {missing[0]}", answer=answer.sentence())
        )
    return rows
