"""Keystone, Neutron and Nova in a few lines on loopback, as honest as the real ones until a test makes them answer
falsely.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha224
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

PROJECT = "0123456789abcdef0123456789abcdef"


FILTERS = frozenset(
    {"name", "id", "project_id", "network_id", "device_id", "security_group_id", "security_groups", "binary"}
    | {
        "port_id",
        "router_id",
        "router:external",
        "object_id",
        "object_type",
        "subnet_id",
        "vpnservice_id",
        "local_ep_group_id",
        "mac_address",
        "binding:host_id",
    }
)


ROUTED = {
    "id": "routed-of-the-operator",
    "name": "routed",
    "description": "",
    "project_id": "operators",
    "created_at": "2026-01-01T00:00:00Z",
    "subnets": [],
    "segments": [
        {
            "provider:network_type": "vlan",
            "provider:physical_network": "routednet",
            "provider:segmentation_id": number,
        }
        for number in (4001, 4002)
    ],
}
"""A routed provider network without `provider:*`, in each listing, since every real cloud may have one."""


def _values(row: dict[str, Any], name: str) -> list[str]:
    value = row[name]
    return [str(one).lower() for one in (value if isinstance(value, list) else [value])]


def _is_meant(row: dict[str, Any], filters: dict[str, list[str]]) -> bool:
    """Whether a row passes the filters; a test's row without the field does."""
    return all(
        name not in row or {v.lower() for v in values} & {*_values(row, name)}
        for name, values in filters.items()
    )


def _shown(row: dict[str, Any], filters: dict[str, list[str]]) -> dict[str, Any]:
    """The row with the fields that are filtered by, which the real services show."""
    return {**{name: values[0] for name, values in filters.items()}, **row}


@dataclass(slots=True)
class Reply:
    """An answer; `own`: with the service's request id."""

    status: int
    body: object = None
    content_type: str = "application/json"
    own: bool = True
    headers: dict[str, str] = field(default_factory=dict[str, str])

    def content(self) -> bytes:
        if isinstance(self.body, bytes):
            return self.body
        return self.body.encode() if isinstance(self.body, str) else json.dumps(self.body).encode()


@dataclass(slots=True)
class TinyCloud:
    """The cloud's contents, by service and collection, and its false answers.

    Attributes:
        things: collection -> rows, such as `networks`.
        lies: (pattern of method and path, reply); the first match is answered.
        served: projects for which Keystone gives weft's user tokens, besides its own.
        narrow: projects whose tokens are shown only their own project's resources.
        children: resource provider -> providers of its devices.
        missing_for: projects whose tokens get 404 for every request by id.
        reserved: resource provider -> class -> how many of 8 Placement has reserved.
        trees: root -> resource provider -> generation, if Placement lists all resource providers.
        whole: path of a listing of Placement -> the answer, if it is of the whole cloud.
        used: resource provider -> class -> how many of 8 are used, in `trees`.
        actions: server -> Nova's record of its actions, the oldest first; see `act`.
        deleted: Nova's rows of servers that it deleted, until they are archived.
        filters_all: Nova filters servers by `deleted` and `uuid`, which it ignores for callers without
            `servers:allow_all_filters`.
        shows_segments: Neutron shows segments of routed networks, as to callers with `get_network:segments`.
        shows_hosts: Nova shows the names of events' hosts, as to its administrators, and not only their hashes.
        page: the most actions that Nova lists at once.
        asked: method and path of each request.
        catalog: of each token; services whose address is in the profile aren't looked up in it.
        scopes: kind of scope of each token that was requested.
    """

    things: dict[str, list[dict[str, Any]]] = field(default_factory=dict[str, list[dict[str, Any]]])
    lies: list[tuple[str, Reply]] = field(default_factory=list[tuple[str, Reply]])
    asked: list[str] = field(default_factory=list[str])
    scopes: list[str] = field(default_factory=list[str])
    catalog: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    served: set[str] = field(default_factory=set[str])
    narrow: set[str] = field(default_factory=set[str])
    missing_for: set[str] = field(default_factory=set[str])
    children: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    reserved: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    trees: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    whole: dict[str, Reply] = field(default_factory=dict[str, Reply])
    used: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    actions: dict[str, list[dict[str, Any]]] = field(default_factory=dict[str, list[dict[str, Any]]])
    deleted: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    filters_all: bool = True
    shows_segments: bool = True
    shows_hosts: bool = False
    page: int = 1000

    def act(self, server: str, action: str, *events: tuple[str, str, str], project: str = PROJECT) -> None:
        """Add an action to a server's record, after all others.

        Args:
            events: name without its prefix, host and result; without a result it never ended.
            project: of the request; `hostId` is derived from it and the host.
        """
        record = self.actions.setdefault(server, [])
        at = f"2026-11-23T01:{len(record) // 60:02}:{len(record) % 60:02}"
        rows = [
            {
                "event": f"compute_{name}",
                "start_time": f"{at}.{n:06}",
                "finish_time": f"{at}.{n:06}" if result else None,
                "result": result or None,
                "hostId": sha224((project + host).encode()).hexdigest(),
                **({"host": host} if self.shows_hosts else {}),
            }
            for n, (name, host, result) in enumerate(events)
        ]
        of = {"action": action, "request_id": f"req-{server}-{len(record)}", "project_id": project}
        record.append({**of, "instance_uuid": server, "start_time": f"{at}.000000", "events": rows})

    def _acted(self, path: str, query: dict[str, list[str]]) -> Reply:
        """Nova's record, the newest first, with events; kept for deleted servers."""
        _, _, _, server, _, *request = path.split("/")
        record = self.actions.get(server, [])[::-1]
        if not record:
            return self.absent("compute", server)
        if request:
            one = next(a for a in record if a["request_id"] == request[0])
            return Reply(200, {"instanceAction": {**one, "events": one["events"][::-1]}})
        ids = [a["request_id"] for a in record]
        first = ids.index(query["marker"][0]) + 1 if "marker" in query else 0
        most = min(self.page, int(query["limit"][0]))
        rows = [{k: v for k, v in a.items() if k != "events"} for a in record[first : first + most]]
        links = (
            [{"rel": "next", "href": f"{path}?marker={rows[-1]['request_id']}"}] if len(rows) == most else []
        )
        return Reply(200, {"instanceActions": rows, **({"links": links} if links else {})})

    def reset(self) -> None:
        """A group `default`, a compute service, and no false answers."""
        self.lies, self.asked, self.scopes = [], [], []
        self.served, self.narrow, self.missing_for = set(), set(), set()
        self.children, self.actions, self.reserved = {}, {}, {}
        self.trees, self.used, self.whole = {}, {}, {}
        self.deleted, self.filters_all, self.catalog = [], True, []
        self.shows_segments, self.shows_hosts, self.page = True, False, 1000
        group = {"id": "sg-default", "name": "default", "project_id": PROJECT}
        service = {"host": "gpu01", "binary": "nova-compute", "state": "up"}
        extensions = [{"alias": "router"}, {"alias": "security-group"}, {"alias": "trunk"}]
        self.things = {"security_groups": [group], "services": [service], "extensions": extensions}

    def answer(self, method: str, path: str, query: dict[str, list[str]], seer: str, body: Any) -> Reply:
        """Answer a request; `seer`: project of its token."""
        line = f"{method} {path}"
        self.asked.append(line)
        for pattern, reply in self.lies:
            if re.fullmatch(pattern, line):
                return reply
        if path == "/":  # Keystone's
            return Reply(300, {"versions": {"values": [{"id": "v3.14", "status": "stable"}]}})
        if path == "/v3/auth/tokens":
            scope = body["auth"]["scope"]
            self.scopes.append(next(iter(scope)))
            project = scope.get("project", {}).get("id", PROJECT)
            if project not in (PROJECT, *self.served):
                return Reply(401, {"error": {"code": 401, "message": "no roles", "title": "Unauthorized"}})
            token = {"expires_at": "2999-01-01T00:00:00Z", "issued_at": "2026-01-01T00:00:00Z", "methods": []}
            user = {"id": "u", "name": "weft", "domain": {"id": "default", "name": "Default"}}
            whole = {**token, "user": user, "project": {"id": project}, "catalog": self.catalog, "roles": []}
            return Reply(201, {"token": whole}, headers={"X-Subject-Token": project})
        if path == "/placement/resource_providers" and (root := query.get("in_tree")):
            tree = [*root, *self.children.get(root[0], ())]
            return Reply(200, {"resource_providers": [{"uuid": i} for i in tree]})
        if path in self.whole:
            return self.whole[path]
        if path == "/placement/resource_providers":
            rows = [
                {"uuid": provider, "generation": generation, "root_provider_uuid": root}
                for root, tree in self.trees.items()
                for provider, generation in tree.items()
            ]
            return Reply(200, {"resource_providers": rows})
        if path == "/placement/allocation_candidates":
            return Reply(200, {"allocation_requests": [], "provider_summaries": self._summaries()})
        if path == "/v3/auth/projects":
            return Reply(200, {"projects": [{"id": p, "name": p} for p in sorted({PROJECT, *self.served})]})
        if path.startswith("/placement/") and path.endswith("/inventories"):
            reserved = self.reserved.get(path.split("/")[3], {})
            rows = {name: {"total": 8, "reserved": one} for name, one in {"VCPU": 0, **reserved}.items()}
            return Reply(200, {"inventories": rows})
        if "/os-instance-actions" in path:
            return self._acted(path, query)
        _, service, collection, *rest = path.split("/")
        rows = self.things.get(collection.replace("-", "_").removeprefix("os_"), [])
        if seer in self.narrow and method == "GET":
            rows = [r for r in rows if r.get("project_id", seer) == seer]
        if method == "DELETE":
            rows[:] = [r for r in rows if r["id"] != rest[0]]
            return Reply(204)
        if path == "/compute/servers/detail" and "uuid" in query and self.filters_all:
            rows = [*self.deleted] if query.get("deleted") == ["true"] else rows
            return Reply(200, {"servers": [r for r in rows if r["id"] in query["uuid"]]})
        if not rest or rest == ["detail"]:
            filters = {k: v for k, v in query.items() if k in FILTERS}
            if collection == "networks" and seer not in self.narrow:
                hides = () if self.shows_segments else ("segments",)
                rows = [*rows, {name: value for name, value in ROUTED.items() if name not in hides}]
            shown = [_shown(r, filters) for r in rows if not r.get("hidden") and _is_meant(r, filters)]
            if query.get("is_public") != ["None"]:  # Nova's default, for administrators too
                shown = [r for r in shown if r.get("os-flavor-access:is_public", True)]
            return Reply(200, {collection.replace("-", "_").removeprefix("os_"): shown})
        row = next((r for r in rows if r["id"] == rest[0] and seer not in self.missing_for), None)
        if row is None:
            return self.absent(service, rest[0])
        return Reply(200, {collection.replace("-", "_").removeprefix("os_").rstrip("s"): row})

    def _summaries(self) -> dict[str, Any]:
        def classes(provider: str, used: dict[str, int]) -> dict[str, dict[str, int]]:
            reserved = self.reserved.get(provider, {})
            return {c: {"used": n, "capacity": 8 - reserved.get(c, 0)} for c, n in used.items()}

        roots = {provider: root for root, tree in self.trees.items() for provider in tree}
        return {
            provider: {
                "resources": classes(provider, used),
                "root_provider_uuid": roots.get(provider, provider),
            }
            for provider, used in self.used.items()
        }

    @staticmethod
    def absent(service: str, thing_id: str) -> Reply:
        said = {"message": f"Thing {thing_id} could not be found.", "type": "ThingNotFound", "code": 404}
        return Reply(404, {"NeutronError" if service == "network" else "itemNotFound": said})


@contextmanager
def tiny_cloud(made: type[TinyCloud] = TinyCloud) -> Generator[tuple[TinyCloud, str]]:
    """A cloud, and the text of a clouds.yaml for it."""
    cloud = made()
    cloud.reset()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(cloud.answer))
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield cloud, _CLOUDS.format(url=url)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(
    answer: Callable[[str, str, dict[str, list[str]], str, Any], Reply],
) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # headers and body in one packet

        def _any(self) -> None:
            sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            parts = urlsplit(self.path)
            seer = self.headers.get("X-Auth-Token", "")
            reply = answer(
                self.command, parts.path, parse_qs(parts.query), seer, json.loads(sent) if sent else None
            )
            content = b"" if reply.status == 204 or reply.body is None else reply.content()
            self.send_response(reply.status)
            headers = {
                "Content-Type": reply.content_type,
                "Content-Length": str(len(content)),
                **reply.headers,
            }
            for name, value in headers.items():
                self.send_header(name, value)
            if reply.own:
                self.send_header("x-openstack-request-id", "req-1")
            self.end_headers()
            self.wfile.write(content)
            self.wfile.flush()

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _any  # noqa: N815 - their names

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name
            pass

    return Handler


_CLOUDS = """\
clouds:
  weft:
    auth_type: v3password
    region_name: RegionOne
    network_endpoint_override: {url}/network
    compute_endpoint_override: {url}/compute
    identity_endpoint_override: {url}/v3
    baremetal_endpoint_override: {url}/baremetal
    placement_endpoint_override: {url}/placement
    image_endpoint_override: {url}/image
    shared_file_system_endpoint_override: {url}/share
    block_storage_endpoint_override: {url}/volume
    auth: {{auth_url: {url}/v3, username: weft, password: x, project_name: service, user_domain_id: default,
            project_domain_id: default}}
"""
