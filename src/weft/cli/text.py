"""Plans, pods and refusals as text, from the API's JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from weft.cli.common import Json, cell, fields, table
from weft.model.errors import PermanentError


def plan(value: Json) -> str:
    """A plan: what was chosen, why, and what would be created."""
    from pydantic import ValidationError

    from weft.model.plan import Plan
    from weft.planning.shapes.changetext import change_text
    from weft.planning.shapes.plantext import plan_text

    try:
        found = Plan.model_validate(value)
        return (plan_text(found) if found.change is None else change_text(found)).rstrip()
    except ValidationError:
        raise _newer() from None


def site_plan(value: Json, applied: bool = False) -> str:
    """What the site needs in its clouds, against what is there."""
    from pydantic import ValidationError

    from weft.model.siteplan import SitePlan
    from weft.planning.site.plantext import site_plan_text

    try:
        return site_plan_text(SitePlan.model_validate(value), applied).rstrip()
    except ValidationError:
        raise _newer() from None


def _newer() -> PermanentError:
    said = "the server's plan has fields this client doesn't know"
    return PermanentError("show the plan", "weft's API", said, "use --json")


def change(value: Json) -> list[str]:
    """What a change makes different, in a few lines."""
    lines = [f"  ~  {f['field']}: {f['was']} → {f['becomes']}" for f in value.get("fields", ())]
    for mark, key, what in (("+", "nodes_added", "nodes that come"), ("−", "nodes_removed", "nodes that go")):
        if names := value.get(key):
            lines.append(f"  {mark}  {what}: {', '.join(names)}")
    return lines


def refusal(detail: Mapping[str, Any]) -> str:
    """The explanation of a refused order: filters, quotas, and what would fit."""
    lines: list[str] = []
    for key, value in detail.items():
        if key == "explanation" and isinstance(value, Mapping):
            lines += _explanation(cast(Mapping[str, Any], value))
        elif key == "would_fit" and value:
            lines += ["What would fit:", *(f"  {change}" for change in value)]
        elif isinstance(value, list) and value and all(isinstance(row, Mapping) for row in value):
            lines += [f"{key}:", *table(tuple(value[0]), value, "  ")]
        elif key == "earliest_start" and value:
            lines.append(f"Fits as it stands from {cell(value)}, if every lease ends when it says.")
        elif key != "reason" and value and not isinstance(value, Mapping):
            lines.append(f"{key.replace('_', ' ')}: {cell(value)}")
    return "\n".join(lines)


def _explanation(value: Mapping[str, Any]) -> list[str]:
    lines: list[str] = []
    if value.get("compared"):
        lines += ["Compared:", *table(("leaves", "blocks", "leftover", "why"), value["compared"], "  ")]
    if value.get("filters"):
        lines.append(f"Filters, on {value.get('considered')} nodes:")
        lines += table(("filter", "removed", "left", "examples"), value["filters"], "  ")
    return lines


def pod(value: Json) -> list[str]:
    """A pod in full."""
    lines = fields(
        [
            *((name, value.get(key)) for name, key in _POD_FIELDS),
            ("nodes", value.get("nodes")),
        ]
    )
    conditions = value.get("conditions") or ()
    if conditions:
        lines += [
            "",
            "Conditions:",
            *table(("type", "status", "reason", "since", "message"), conditions, "  "),
        ]
    servers = value.get("servers") or ()
    if servers:
        columns = ("name", "node", "management_address", "rdma_addresses", "floating_ip")
        lines += ["", "Servers:", *table(columns, servers, "  "), *_log_in(value, servers)]
    placed = value.get("placed") or ()
    if placed:
        lines += ["", "Placed on:", *table(("node", "rack", "leaf", "block"), placed, "  ")]
    spares = value.get("spares") or ()
    if spares:
        lines += ["", "Held as spares:", *table(("node", "rack", "leaf", "block"), spares, "  ")]
    resources = value.get("resources") or ()
    if resources:
        lines += [
            "",
            "Resources:",
            *table(("kind", "name", "where", "state", "id", "reason"), resources, "  "),
        ]
    differences = [{"name": r["name"], **d} for r in resources for d in r.get("differences", ())]
    if differences:
        lines += ["", "Differences:", *table(("name", "field", "wanted", "observed"), differences, "  ")]
    return lines


_USERS = ("ubuntu", "debian", "fedora", "rocky", "almalinux", "centos", "cirros")
"""Distributions whose cloud images have a login user of that name."""


def _log_in(value: Json, servers: Sequence[Json]) -> list[str]:
    """The command for the first server that has an address; of the others it differs by that."""
    addresses = ((s.get("floating_ip"), s.get("management_address")) for s in servers)
    there = next(((public, own) for public, own in addresses if public or own), None)
    if there is None:
        return []
    image = str(((value.get("order") or {}).get("nodes") or {}).get("image") or "").lower()
    user = next((name for name in _USERS if image.startswith(name)), "USER")
    where = "" if there[0] else "  (from inside: it has no floating IP)"
    which = "" if user != "USER" else "  (USER: the image's login user, docs/tenants.md)"
    return [f"  Log in: ssh {user}@{there[0] or there[1]}{where}{which}"]


_POD_FIELDS = (
    ("name", "name"),
    ("id", "id"),
    ("project", "project_id"),
    ("ordered by", "created_by"),
    ("generation", "generation"),
    ("state", "state"),
    ("phase", "phase"),
    ("why", "reason"),
    ("since", "since"),
    ("ordered at", "created_at"),
    ("position in the queue", "position"),
    ("starts about", "expected_start"),
    ("lease ends", "lease_end"),
    ("site", "site"),
    ("cloud", "cloud"),
    ("flavor", "flavor"),
    ("fabric", "fabric"),
    ("segment", "segment"),
    ("VLAN", "vlan"),
)
