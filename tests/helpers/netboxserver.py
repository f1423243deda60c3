"""A small NetBox: the documented shapes of its API (4.x) for reading, with pages and a token, on a port of its
own."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

TOKEN = "0123456789abcdef0123456789abcdef01234567"
PAGE = 3
"""Objects on a page, few enough that every listing has several pages."""


@dataclass
class Inventory:
    """NetBox's objects, with fields as its API shows them."""

    devices: list[dict[str, Any]] = field(default_factory=list)
    interfaces: list[dict[str, Any]] = field(default_factory=list)
    addresses: list[dict[str, Any]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    answer: tuple[int, bytes] | None = None
    """Status and body to answer every request with."""
    own_url: str | None = None
    """The URL in its links to further pages, if it isn't the one that serves them."""
    hidden: int = 0
    """Number of objects of each listing that are counted but not shown."""

    def device(self, name: str, role: str, rack: str | None = None, site: str = "dc1", **custom: Any) -> int:
        number = len(self.devices) + 1
        self.devices.append(
            {
                "id": number,
                "url": f"http://netbox/api/dcim/devices/{number}/",
                "name": name,
                "role": {
                    "id": 1,
                    "url": "http://netbox/api/dcim/device-roles/1/",
                    "name": role,
                    "slug": role,
                },
                "site": {"id": 1, "url": "http://netbox/api/dcim/sites/1/", "name": site, "slug": site},
                "status": {"value": "active", "label": "Active"},
                "rack": {"id": 1, "url": "http://netbox/api/dcim/racks/1/", "name": rack} if rack else None,
                "custom_fields": custom,
            }
        )
        return number

    def interface(
        self, device: int, name: str, mac: str | None = None, address: str | None = None, **more: Any
    ) -> int:
        """Adds an interface; its id. Args: address: with prefix length. more: dns_name, vlan, to (device,
        interface), lag (id)."""
        number = len(self.interfaces) + 100
        owner = next(d for d in self.devices if d["id"] == device)
        vlan, to = more.pop("vlan", None), more.pop("to", None)
        dns_name = more.pop("dns_name", "")
        far = next((d["id"] for d in self.devices if to and d["name"] == to[0]), 998)
        if "lag" in more:
            more["lag"] = {"id": more["lag"], "url": f"http://netbox/api/dcim/interfaces/{more['lag']}/"}
        short = {"id": device, "url": owner["url"], "name": owner["name"]}
        peer = {"id": 999, "url": "http://netbox/api/dcim/interfaces/999/", "name": to[1]} if to else None
        if to and peer:
            peer["device"] = {"id": far, "url": f"http://netbox/api/dcim/devices/{far}/", "name": to[0]}
        self.interfaces.append(
            {
                "id": number,
                "url": f"http://netbox/api/dcim/interfaces/{number}/",
                "device": short,
                "name": name,
                "type": {"value": "1000base-t", "label": "1000BASE-T (1GE)"},
                "mgmt_only": False,
                "speed": None,
                "mac_address": mac,
                "untagged_vlan": {"id": 7, "url": "http://netbox/api/ipam/vlans/7/", "vid": vlan}
                if vlan
                else None,
                "connected_endpoints": [peer] if peer else None,
                "connected_endpoints_type": "dcim.interface" if peer else None,
                "connected_endpoints_reachable": True if peer else None,
                "cable": {"id": number, "url": f"http://netbox/api/dcim/cables/{number}/"} if peer else None,
                "lag": None,
                "parent": None,
                "bridge": None,
                "wwn": None,
                "custom_fields": {},
                **more,
            }
        )
        if address:
            self.address(number, device, address, dns_name)
        return number

    def address(self, interface: int, device: int, address: str, dns_name: str = "") -> None:
        number = len(self.addresses) + 500
        self.addresses.append(
            {
                "id": number,
                "url": f"http://netbox/api/ipam/ip-addresses/{number}/",
                "address": address,
                "status": {"value": "active", "label": "Active"},
                "role": None,
                "dns_name": dns_name,
                "assigned_object_type": "dcim.interface",
                "assigned_object_id": interface,
                "device_id": device,
            }
        )

    def listed(self, path: str, query: dict[str, list[str]]) -> list[dict[str, Any]] | None:
        ids = {int(i) for i in query.get("device_id", ())}
        if path == "/api/dcim/devices/":
            return [d for d in self.devices if query.get("site", [d["site"]["slug"]])[0] == d["site"]["slug"]]
        if path == "/api/dcim/interfaces/":
            return [i for i in self.interfaces if i["device"]["id"] in ids]
        if path == "/api/ipam/ip-addresses/":
            return [a for a in self.addresses if a["device_id"] in ids]
        return None


@contextmanager
def serving(inventory: Inventory) -> Generator[str]:
    """URL of a running server."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            query = parse_qs(parts.query)
            inventory.asked.append(self.path)
            if inventory.answer is not None:
                self.reply(*inventory.answer)
            elif self.headers["Authorization"] != f"Token {TOKEN}":
                self.reply(403, b'{"detail": "Invalid token"}')
            elif (found := inventory.listed(parts.path, query)) is None:
                self.reply(404, b'{"detail": "Not found."}')
            else:
                start = int(query.get("offset", ["0"])[0])
                after = start + PAGE
                kept = "&".join(
                    f"{k}={v}" for k, vs in query.items() if k not in ("offset", "limit") for v in vs
                )
                following = (
                    f"{inventory.own_url or url}{parts.path}?{kept}&limit={PAGE}&offset={after}"
                    if after < len(found)
                    else None
                )
                page = {
                    "count": len(found) + inventory.hidden,
                    "next": following,
                    "previous": None,
                    "results": found[start:after],
                }
                self.reply(200, json.dumps(page).encode())

        def reply(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("API-Version", "4.2")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield url
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
