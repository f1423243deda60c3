"""A pod as `weft pod show` and the commands that change one show it: short, with details on demand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.cli.common import Json
from weft.cli.output import Listing, Record
from weft.generate.login import login

_FIELDS = (
    *(
        "id",
        "name",
        "project_id",
        "state",
        "reason",
        "code",
        "since",
        "changing_since",
        "generation",
        "nodes",
    ),
    *("position", "expected_start"),
)
CODED = ("code", "params")
"""Keys of a message beside its sentence."""
SERVER_COLUMNS = ("name", "node", "management_address", "rdma_addresses", "floating_ip")
_ROOM = 50
"""Characters for names of nodes on a line of 80."""


def record(pod: Json, resources: bool = False, events: Sequence[Json] | None = None) -> Record:
    """A pod in short; with its servers, places, conditions and resources, or its events, if they are given."""
    how = login(pod)
    placed = [p["node"] for p in pod.get("placed") or ()]
    fields: dict[str, Any] = {
        **{name: pod.get(name) for name in _FIELDS},
        "placed_on": _short(placed),
        "server_names": _short([*dict.fromkeys(s["name"] for s in pod.get("servers") or ())]),
        "fabric": " ".join(filter(None, [pod.get("fabric"), pod.get("segment")])) or None,
        **_ipus(pod.get("ipus")),
        "lease_end": pod.get("lease_end"),
        **_trouble(pod),
        "ssh": how.command,
        "ssh_note": how.note if pod.get("servers") else "",
    }
    details = _details(pod) if resources else {}
    if events is not None:
        details["events"] = Listing(("sequence", "at", "type", "message"), events, more=CODED)
    return Record(fields, pod, details)


def _trouble(pod: Json) -> dict[str, Any]:
    """Trouble of the pod's nodes that its state doesn't show, with what its project can do; empty for most pods."""
    found = {c["type"]: c for c in pod.get("conditions") or () if c["status"] == "true"}
    named = (("Maintenance", "maintenance"), ("NodesFail", "nodes_fail"))
    return {
        name: f"{found[kind]['message']}; {_way(pod, found[kind])}" for kind, name in named if kind in found
    }


def _way(pod: Json, said: Json) -> str:
    """The command for the first node that a message names; IPUs and hosts of weft's own servers aren't replaced."""
    values = said.get("params") or {}
    first = (values.get("problems") or [said])[0].get("params") or {}
    node = first.get("node") or next(iter(first.get("nodes") or ()), None)
    if node is None or pod.get("ipus"):
        return f"weft pod release {pod['name']}"
    return f"weft pod replace {pod['name']} {node}"


def _ipus(ipus: Json | None) -> dict[str, Any]:
    """Fields of a pod of IPUs; none for any other."""
    if not ipus:
        return {}
    vlan = f"VLAN {ipus['data_vlan']}, " if ipus["data_vlan"] is not None else ""
    return {
        "ipus": f"{ipus['count']} of {ipus['ipu_pod']}",
        "controller": ipus["controller"],
        "data_network": f"{vlan}{ipus['data_addresses']}",
    }


def _short(names: Sequence[str]) -> str:
    """As many names as fit on a line."""
    shown = ", ".join(names)
    if len(shown) <= _ROOM:
        return shown
    fit = next(n for n in range(len(names), -1, -1) if len(", ".join(names[:n])) <= _ROOM - 14)
    return f"{', '.join(names[:fit])} and {len(names) - fit} more"


def _details(pod: Json) -> dict[str, Listing]:
    places = ("node", "rack", "leaf", "block")
    resources = pod.get("resources") or ()
    differences = [{"name": r["name"], **d} for r in resources for d in r.get("differences", ())]
    found = {
        "conditions": Listing(
            ("type", "status", "reason", "since", "message"), pod.get("conditions") or (), more=CODED
        ),
        "servers": Listing(SERVER_COLUMNS, pod.get("servers") or ()),
        "placed": Listing(places, pod.get("placed") or ()),
        "held_as_spares": Listing(places, pod.get("spares") or ()),
        "resources": Listing(("id", "kind", "name", "where", "state", "reason"), resources, more=CODED),
        "differences": Listing(("name", "field", "wanted", "observed"), differences),
    }
    return {name: listing for name, listing in found.items() if listing.rows}
