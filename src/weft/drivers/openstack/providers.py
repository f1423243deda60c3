"""What two listings of Placement say of many hosts at once: their trees of resource providers, and which are unused.

Sources: Placement's "List resource providers", which is never paged, and "List allocation candidates"
(`provider_summaries`: from 1.27 with all inventories, from 1.29 with all providers of a tree). A provider's generation
changes with each allocation that is written to it, since that is how Placement keeps two writers from exceeding a
capacity (`placement.objects.allocation`, `_set_allocations`), and with its inventories. Removing an allocation doesn't
change it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, cast

from weft.drivers.openstack.lookups import PLACEMENT_MICROVERSION
from weft.drivers.openstack.service import Json
from weft.drivers.openstack.session import Project

Tree = Mapping[str, int]
"""Provider -> its generation, for all providers of one tree."""
_WHOLE_TREES = "1.29"
"""Placement's microversion of Rocky."""
_ANY = {"resources": "MEMORY_MB:1"}
"""A resource class that each host of virtual machines has. A host without any left isn't shown, and is asked about by
itself."""
_NOT_SHOWN = (400, 403, 404, 406)
"""Statuses of a Placement that is older, or doesn't let weft's user see candidates: each host is asked about by itself
then."""


def trees(own: Project) -> Mapping[str, Tree]:
    """Provider -> its tree, of the whole cloud. Raises what an unreadable answer raises."""
    asked = "list resource providers"
    headers = {"OpenStack-API-Version": f"placement {PLACEMENT_MICROVERSION}"}
    answer = own.placement.ask(asked, "GET", "/resource_providers", headers=headers)
    of_root: dict[str, dict[str, int]] = {}
    for row in own.placement.rows(asked, answer, "resource_providers"):
        of_root.setdefault(str(row["root_provider_uuid"]), {})[str(row["uuid"])] = int(row["generation"])
    return {provider: tree for tree in of_root.values() for provider in tree}


class Unused(NamedTuple):
    """A provider without any allocation: whether none of its inventories is reserved as a whole, and their resource
    classes."""

    is_open: bool
    classes: frozenset[str]


def unused(own: Project) -> Mapping[str, Unused]:
    """Providers without any allocation. Only of trees that have memory left; one of which no inventory is shown proves
    nothing. Raises what an unreadable answer raises."""
    asked = "list what is used of resource providers"
    headers = {"OpenStack-API-Version": f"placement {_WHOLE_TREES}"}
    answer = own.placement.ask(
        asked, "GET", "/allocation_candidates", params=_ANY, headers=headers, ok=_NOT_SHOWN
    )
    if not answer.fine:
        return {}
    found: dict[str, Unused] = {}
    summaries = own.placement.part(asked, answer, "provider_summaries")
    shown = {one["root_provider_uuid"] for one in summaries.values() if one["resources"]}
    for provider, summary in summaries.items():
        resources = cast(dict[str, Json], summary["resources"])
        if summary["root_provider_uuid"] in shown and all(
            int(one["used"]) == 0 for one in resources.values()
        ):
            is_open = all(int(one["capacity"]) > 0 for one in resources.values())
            found[str(provider)] = Unused(is_open, frozenset(resources))
    return found
