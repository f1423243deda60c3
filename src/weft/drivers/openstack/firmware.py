"""Firmware versions and BIOS settings of a machine, as Ironic has read them, against the site's lists.

Ironic reads both from the BMC at the end of every cleaning, right before it writes that end into the node's history,
and when a machine is verified at its enrolment. If the BMC didn't answer then, what was read before stays, and nothing
says so; so both are a check of what a tenant left, next to the record of the cleaning, and no proof by themselves.

Source: ironic 39, `conductor.cleaning`, `conductor.utils.node_update_cache`; api-ref, firmware (1.86), BIOS (1.40).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from weft.drivers.openstack.cleaning import Demands
from weft.drivers.openstack.service import Json
from weft.drivers.openstack.session import Project
from weft.model.errors import UnknownError

VERSIONS = {"firmware": "1.86", "bios": "1.78"}
"""Microversions: Bobcat's is the first with firmware."""


def firmware_text(demands: Demands) -> str:
    """For the receipt, of a machine without differences."""
    parts = [f"firmware of {', '.join(sorted(demands.firmware))}"] if demands.firmware else []
    parts += [f"{len(demands.bios)} BIOS settings"] if demands.bios else []
    return f"{' and '.join(parts)} as the site lists them, as Ironic last read them" if parts else ""


def firmware_differences(own: Project, machine: str, demands: Demands) -> tuple[str, ...]:
    """Everything that isn't as the site demands it, one sentence each; nothing is asked where it demands nothing.

    Raises `UnknownError`.
    """
    found: list[str] = []
    if demands.firmware:
        read = _rows(own, machine, "firmware", "component", "current_version")
        found += _versions(demands.firmware, read)
    if demands.bios:
        found += _settings(demands.bios, _rows(own, machine, "bios", "name", "value"))
    return tuple(found)


def _versions(listed: Mapping[str, frozenset[str]], read: Mapping[str, str]) -> Iterator[str]:
    for component, versions in sorted(listed.items()):
        now = read.get(component)
        if now not in versions:
            told = f"is {now}" if now else "isn't known to Ironic"
            yield f"firmware of {component} {told}; the site allows {', '.join(sorted(versions))}"


def _settings(listed: Mapping[str, str], read: Mapping[str, str]) -> Iterator[str]:
    for name, wanted in sorted(listed.items()):
        now = read.get(name)
        if now != wanted:
            told = "isn't known to Ironic" if now is None else f"is {now}"
            yield f"BIOS setting {name} {told}; the site has {wanted}"


def _rows(own: Project, machine: str, what: str, key: str, value: str) -> dict[str, str]:
    asked = f"read {what} of machine {machine}"
    version = VERSIONS[what]
    headers = {"OpenStack-API-Version": f"baremetal {version}", "X-OpenStack-Ironic-API-Version": version}
    answer = own.baremetal.ask(asked, "GET", f"/v1/nodes/{machine}/{what}", headers=headers)
    rows: list[Json] = own.baremetal.rows(asked, answer, what)
    try:
        return {str(row[key]): str(row[value]) for row in rows if row[value] is not None}
    except KeyError as error:
        raise UnknownError(asked, "Ironic", f"a row without {error}: {answer.sentence()}"[:300]) from None
