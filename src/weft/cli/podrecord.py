"""A pod as `weft pod show` and the commands that change one show it: short, with details on demand."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from weft.cli.common import Json
from weft.cli.output import Listing, Record

_USERS = ("ubuntu", "debian", "fedora", "rocky", "almalinux", "cirros", "opensuse", "alpine", "arch")
"""Distributions whose cloud images have a login user of that name (cloud-init, `config/cloud.cfg.tmpl`; CirrOS)."""
_CLOUD_USER = ("rhel", "red hat", "red-hat", "redhat", "centos-stream", "centos stream", "centos")
_OLD_CENTOS = re.compile(r"centos\D*[678](?!\d)")
"""Up to release 8, Stream 8 included, their user was `centos`; since then it is `cloud-user`, as RHEL's."""
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


@dataclass(frozen=True, slots=True)
class Login:
    """How to log in to a server of a pod.

    Attributes:
        server: as the API has it; None: there is none, or none of that name.
        user: of the image; empty: not known.
        address: empty: it has none yet.
        through: floating IP of another server of the pod, which leads to it; empty: not needed, or there is none.
        missing: what the order lacks for logging in; empty: nothing.
    """

    server: Json | None
    user: str
    address: str
    through: str = ""
    missing: str = ""

    @property
    def command(self) -> str:
        """For a shell; empty without an address."""
        user = self.user or "USER"
        jump = f"-J {user}@{self.through} " if self.through else ""
        return f"ssh {jump}{user}@{self.address}" if self.address else ""

    @property
    def public(self) -> bool:
        """Whether it can be reached from outside, as far as addresses go."""
        return bool(self.server and self.server.get("floating_ip")) or bool(self.through)

    @property
    def note(self) -> str:
        """What to know about the command, a line each; empty: nothing."""
        notes = [
            self.missing,
            "from inside: it has no floating IP" if self.address and not self.public else "",
            "USER: the image's login user, docs/tenants.md" if self.address and not self.user else "",
        ]
        return "\n".join(note for note in notes if note)


def login(pod: Json, node: str | None = None) -> Login:
    """To the server on a node, or of a name; None: the first one that can be reached from outside, or the first."""
    servers = [s for s in pod.get("servers") or () if s.get("floating_ip") or s.get("management_address")]
    public = next((s for s in servers if s.get("floating_ip")), None)
    if node is None:
        server = public or next(iter(servers), None)
    else:
        named = next((s for s in servers if s.get("name") == node), None)
        server = named or next((s for s in servers if s.get("node") == node), None)
    order = cast(Mapping[str, Any], pod.get("order") or {})
    image = str((order.get("nodes") or {}).get("image") or "").lower()
    user = _user(image)
    missing = _missing(order)
    if server is None:
        return Login(None, user, "", missing=missing)
    own = server.get("floating_ip") or server["management_address"]
    jump = public["floating_ip"] if public is not None and not server.get("floating_ip") else ""
    return Login(server, user, own, jump, missing)


def _user(image: str) -> str:
    """The login user of an image by its name in lower case; empty: the name doesn't show it."""
    if _OLD_CENTOS.match(image):
        return "centos"
    if image.startswith(_CLOUD_USER):
        return "cloud-user"
    return next((name for name in _USERS if image.startswith(name)), "")


def _missing(order: Mapping[str, Any]) -> str:
    access = order.get("access") or {}
    if "access" not in order or access.get("key_pair") or access.get("ssh_key") or access.get("user_data"):
        return ""
    return "no SSH key in the order (access.key_pair, access.ssh_key)"


def record(pod: Json, resources: bool = False, events: Sequence[Json] | None = None) -> Record:
    """A pod in short; with its servers, places, conditions and resources, or its events, if they are given."""
    how = login(pod)
    placed = [p["node"] for p in pod.get("placed") or ()]
    fields: dict[str, Any] = {
        **{name: pod.get(name) for name in _FIELDS},
        "placed_on": _short(placed),
        "server_names": _short([s["name"] for s in pod.get("servers") or ()]),
        "fabric": " ".join(filter(None, [pod.get("fabric"), pod.get("segment")])) or None,
        "lease_end": pod.get("lease_end"),
        "ssh": how.command,
        "ssh_note": how.note if pod.get("servers") else "",
    }
    details = _details(pod) if resources else {}
    if events is not None:
        details["events"] = Listing(("sequence", "at", "type", "message"), events, more=CODED)
    return Record(fields, pod, details)


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
