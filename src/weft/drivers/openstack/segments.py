"""The segments of Neutron's networks, read in one way everywhere.

A network with one segment has it as `provider:*`; one with several (a routed provider network) has `segments` instead,
and no `provider:*` at all. Source: neutron, `plugins.ml2.managers.TypeManager.extend_network_dict_provider`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weft.drivers.openstack.service import Json
from weft.drivers.openstack.session import Project
from weft.model.errors import UnknownError

TYPE, PLACE, NUMBER = "provider:network_type", "provider:physical_network", "provider:segmentation_id"
SHOWN = ("segments", TYPE, PLACE, NUMBER)
"""Fields to ask for."""


@dataclass(frozen=True, slots=True)
class Segment:
    """One of a network's.

    Attributes:
        type: such as `vlan` or `flat`.
        place: its physical network; None: it is on none.
        number: VLAN id or VNI; None: it has none.
    """

    type: str
    place: str | None
    number: int | None


def read_segments(own: Project, asked: str, rows: Sequence[Json]) -> Mapping[str, Sequence[Segment]]:
    """Id of a network -> its segments; without the networks that Neutron doesn't show them of.

    Raises `UnknownError` if it shows them of no network of another project: then a policy is missing.

    Args:
        rows: networks, with their projects and `SHOWN`.
    """
    found = {str(row["id"]): read for row in rows if (read := _of(row)) is not None}
    if len(found) < len(rows):
        mine = own.network.signed_in_project()
        if all(str(row["id"]) not in found for row in rows if row.get("project_id") != mine):
            then = "give weft's user the policies get_network:provider:* (docs/operating-roles.md)"
            raise UnknownError(asked, "network", "Neutron doesn't show their segments", then)
    return found


def _of(row: Json) -> Sequence[Segment] | None:
    parts = row.get("segments")
    if parts is None:
        parts = [row]
    if not parts or any(name not in part for part in parts for name in (PLACE, NUMBER)):
        return None
    return [_segment(part) for part in parts]


def _segment(part: Json) -> Segment:
    number = part[NUMBER]
    return Segment(str(part.get(TYPE)), part[PLACE], None if number is None else int(number))
