"""Objects of Nautobot's API with NetBox's names of fields. Pure.

Source: Nautobot's REST API (`depth`; serializers of devices, interfaces and IP addresses), versions 1.6 and 2.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from weft.model.errors import InputError

Json = Mapping[str, Any]


def kind_of_object(one: Any) -> str | None:
    """`devices`, `interfaces` or `ip-addresses` for an object of NetBox's or Nautobot's API; otherwise None."""
    url = one.get("url") if isinstance(one, Mapping) else None
    found = re.search(
        r"/api/(?:dcim|ipam)/(devices|interfaces|ip-addresses)/", url if isinstance(url, str) else ""
    )
    return found[1] if found else None


def other_object(one: Any) -> str | None:
    """`dcim/racks` for an object of NetBox's or Nautobot's API that isn't hardware with interfaces; otherwise None."""
    url = one.get("url") if isinstance(one, Mapping) else None
    found = re.search(r"/api/((?:dcim|ipam|circuits|virtualization|wireless|extras)/[a-z-]+)/", url or "")
    return found[1] if found and kind_of_object(one) is None else None


def as_netbox(one: Json) -> Json:
    """An object with NetBox's names of fields: Nautobot has one end of a cable, parents under another name, statuses
    and roles that are objects with a name, and addresses that list their interfaces."""
    found = dict(one)
    kind = kind_of_object(one)
    for name in ("role", "device_role"):
        role = one.get(name)
        if (
            not isinstance(role, Mapping) or "slug" in role or "value" in role
        ):  # a choice has a value: addresses' roles
            continue
        label = role.get("name") or role.get("display")
        if label is None:  # a bare reference: `?depth=0`
            where = f"{kind or 'devices'} {one.get('id')}"
            raise InputError(
                name, str(role.get("url")), "its name: save Nautobot's listing with ?depth=1", where
            )
        slug = re.sub(r"[^a-z0-9]+", "-", str(label).lower()).strip("-")
        found[name] = {"slug": slug, "value": slug}
    if isinstance(status := one.get("status"), Mapping) and "value" not in status:
        found["status"] = str(status.get("name") or status.get("display") or "").lower() or None
    if "connected_endpoint" in one and "connected_endpoints" not in one:
        end = one["connected_endpoint"]
        found["connected_endpoints"] = [end] if end else None
        found["connected_endpoints_type"] = one.get("connected_endpoint_type") or (
            end and end.get("object_type")
        )
        found["connected_endpoints_reachable"] = one.get("connected_endpoint_reachable")
    if "parent_interface" in one:
        found["parent"] = one["parent_interface"]
    if "assigned_object_type" not in one and kind == "ip-addresses":
        ends = one.get("interfaces") or ()
        found["assigned_object_type"] = "dcim.interface" if ends else None
        found["assigned_object_id"] = ends[0]["id"] if ends else None
        found["address"] = one.get("address") or one.get("display")
    return found
