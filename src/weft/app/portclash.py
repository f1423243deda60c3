"""Notes of `weft site check` on web servers that need the same ports of one host: a fabric manager's and a cloud's
dashboard.

The web server of a manager with a REST API (UFM) takes ports 80 and 443 of its host. So does a cloud's dashboard, which
usually shares Keystone's address: the one in clouds.yaml. A manager with another port in the site file was moved.
"""

from __future__ import annotations

import socket
from contextlib import closing
from urllib.parse import urlsplit

from weft.drivers.openstack.session import Sessions
from weft.model.site import Site

_WEB = (80, 443)


def clash_notes(site: Site) -> tuple[str, ...]:
    """One sentence for each manager on a cloud's or another fabric's address. Clouds without a profile are left out."""
    keystones = {
        name: url for name, cloud in site.clouds.items() if (url := _keystone(cloud.profile or name))
    }
    seen: dict[tuple[str, int], str] = {}
    found: list[str] = []
    for fabric, row in sorted(site.fabrics.items()):
        for address in row.manager.addresses:
            host, port = _place(address)
            other = seen.setdefault((host, port), fabric)
            if other != fabric:
                found.append(
                    f"fabrics {other} and {fabric} have the same manager, {address}: each needs one of its own"
                )
            if port not in _WEB:
                continue
            for cloud, url in keystones.items():
                if _is_one(host, _place(url)[0]):
                    found.append(
                        f"the manager of fabric {fabric}, {address}, is on the address of cloud {cloud}, {url}: its web"
                        " server takes ports 80 and 443, which the cloud's dashboard needs too; give it a host of its"
                        " own, or one of them other ports"
                    )
    return tuple(found)


def _keystone(profile: str) -> str:
    """Address of a cloud's Keystone, by the clouds.yaml of this host; empty: it has none."""
    try:
        with closing(Sessions(profile)) as sessions:
            return sessions.auth_url
    except Exception:  # openstacksdk raises anything for a broken file; signing in reports it
        return ""


def _place(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    return (parts.hostname or "").lower(), parts.port or (80 if parts.scheme == "http" else 443)


def _is_one(one: str, other: str) -> bool:
    return one == other or bool(_addresses(one) & _addresses(other))


def _addresses(host: str) -> frozenset[str]:
    """IP addresses of a host name or address; empty: this host can't resolve it."""
    try:
        return frozenset(str(row[4][0]) for row in socket.getaddrinfo(host, None))
    except (OSError, UnicodeError):
        return frozenset()
