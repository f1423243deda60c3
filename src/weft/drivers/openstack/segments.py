"""The segments of Neutron's networks.

A network with one segment has it as `provider:*`; one with several (a routed provider network) has `segments` instead,
and no `provider:*` at all. Source: neutron, `plugins.ml2.managers.TypeManager.extend_network_dict_provider`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weft.drivers.openstack.service import Json
from weft.drivers.openstack.session import Project
from weft.model.errors import UnknownError

TYPE, PLACE, NUMBER = "provider:network_type", "provider:physical_network", "provider:segmentation_id"
log = logging.getLogger(__name__)
POLICIES = "get_network:provider:* and get_network:segments (docs/operating-roles.md)"
SHOWN = ("segments", TYPE, PLACE, NUMBER)
"""Fields of a network to ask for."""
_NAMED = 10


@dataclass(frozen=True, slots=True)
class Segment:
    """One segment of a network.

    Attributes:
        type: such as `vlan` or `flat`.
        place: its physical network; None if it is on none.
        number: VLAN id or VNI; None if it has none.
    """

    type: str
    place: str | None
    number: int | None


def read_segments(
    own: Project, asked: str, rows: Sequence[Json], *, of_others: bool = False
) -> Mapping[str, Sequence[Segment]]:
    """Id of a network -> its segments. Networks whose segments Neutron doesn't show are logged and left out.
    Raises `UnknownError` if Neutron shows no network's segments: then a policy is missing.

    Args:
        rows: networks, with their projects and `SHOWN`.
        of_others: raise also if no network of another project shows them, where absence has consequences.
    """
    found = {str(row["id"]): read for row in rows if (read := _of(row)) is not None}
    hidden = sorted(str(row["id"]) for row in rows if str(row["id"]) not in found)
    if hidden:
        mine = own.network.signed_in_project() if of_others else None
        if not any(str(row["id"]) in found for row in rows if row.get("project_id") != mine):
            then = f"give weft's user the policies {POLICIES}"
            raise UnknownError(asked, "network", "Neutron doesn't show their segments", then)
        some = ", ".join(hidden[:_NAMED]) + (
            f" and {len(hidden) - _NAMED} more" if len(hidden) > _NAMED else ""
        )
        log.warning(
            "%s: Neutron doesn't show the segments of %s: weft's user needs %s", asked, some, POLICIES
        )
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
