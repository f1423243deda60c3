"""How to log in to a pod's server: its login user (by the image's name), its address, and the way there."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

Json = dict[str, Any]

_USERS = ("ubuntu", "debian", "fedora", "rocky", "almalinux", "cirros", "opensuse", "alpine", "arch")
"""Distributions whose cloud images have a login user of that name (cloud-init, `config/cloud.cfg.tmpl`; CirrOS)."""
_CLOUD_USER = ("rhel", "red hat", "red-hat", "redhat", "centos-stream", "centos stream", "centos")
_OLD_CENTOS = re.compile(r"centos\D*[678](?!\d)")
"""Up to release 8, Stream 8 included, their user was `centos`; since then it is `cloud-user`, as RHEL's."""


@dataclass(frozen=True, slots=True)
class Login:
    """How to log in to a server of a pod.

    Attributes:
        server: as the API returns it; None: the pod has no server, or none of that name.
        user: the image's login user; empty: not known.
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
        """The `ssh` command; empty without an address."""
        user = self.user or "USER"
        jump = f"-J {user}@{self.through} " if self.through else ""
        return f"ssh {jump}{user}@{self.address}" if self.address else ""

    @property
    def public(self) -> bool:
        """Whether it can be reached from outside, as far as addresses go."""
        return bool(self.server and self.server.get("floating_ip")) or bool(self.through)

    @property
    def note(self) -> str:
        """What to know about the command, one remark a line; empty: nothing."""
        notes = [
            self.missing,
            "from inside: it has no floating IP" if self.address and not self.public else "",
            "USER: by image, such as ubuntu or debian: docs/tenants.md"
            if self.address and not self.user
            else "",
        ]
        return "\n".join(note for note in notes if note)


def login(pod: Json, node: str | None = None) -> Login:
    """How to log in to the server on the node, or with the name, `node`. None: the first server that can be reached
    from outside, or else the first one."""
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
