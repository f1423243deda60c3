"""A cloud in memory with Keystone, Glance, Neutron, Nova and weft, which answers truthfully or lies in one way."""

from __future__ import annotations

import re
import socketserver
import threading
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha512
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

from weftacceptance.cloud import Answer, Json, LostError

LIES = ("deaf", "undying", "empty", "lost", "garbled", "refuses")
"""deaf: reports changes and doesn't make them. undying: reports deletions and doesn't make them. empty: lists are
empty, and nothing is found. lost: doesn't answer. garbled: answers have another shape. refuses: every answer is 500."""
DONE = {"POST": 201, "PUT": 200, "PATCH": 200, "DELETE": 204}


def now() -> str:
    return datetime.now(UTC).isoformat()


class World:
    """The resources of all services. Args: leaves: their number; each has two nodes."""

    def __init__(self, leaves: int = 3) -> None:
        self.lie = ""
        self.rows: dict[str, dict[str, Json]] = {}
        self.nodes: dict[str, Json] = {
            f"gpu{n:02}": {"leaf": f"leaf{(n - 1) // 2 + 1:02}", "pod": None, "history": []}
            for n in range(1, 2 * leaves + 1)
        }
        self.down: set[str] = set()
        self.checks = "never"
        self.log: list[Json] = []
        self.devices: list[str] = []
        self.trail: list[Json] = []
        self.home: dict[str, str] = {}
        self.sent = 0

    def kept(self, kind: str) -> dict[str, Json]:
        return self.rows.setdefault(kind, {})

    def caller(self, name: str) -> FakeCaller:
        return FakeCaller(self, name, f"user-{name}", "project-" + name.removesuffix("-reader"))

    def system(self, name: str) -> FakeCaller:
        return self.caller(name)

    def key(self, key_id: str, secret: str) -> FakeCaller:
        return FakeCaller(self, "key", "", "project-team-a", key=(key_id, secret))

    def login(self, user_id: str, password: str, project_id: str) -> FakeCaller:
        return FakeCaller(self, "login", user_id, project_id)


class FakeCaller:
    """A caller of the world's services."""

    def __init__(
        self, world: World, name: str, user: str, project: str, key: tuple[str, str] | None = None
    ) -> None:
        self.world, self.name, self._user, self.project_id, self._key = world, name, user, project, key

    @property
    def user_id(self) -> str:
        if self._key is None:
            return self._user
        found = self.world.kept("keys").get(self._key[0])
        return str(found["user"]) if found else ""

    @property
    def is_reader(self) -> bool:
        return self.name.endswith("-reader")

    def ask(
        self, service: str, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        lie, split = self.world.lie, urlsplit(path)
        query = {k: v[0] for k, v in parse_qs(split.query).items()}
        if lie == "lost":
            raise LostError("no answer")
        if lie == "refuses":
            return Answer(500, {"error": "internal"})
        if lie == "garbled":
            return Answer(DONE.get(method, 200), ["what is", "this"])
        if lie == "empty" and method == "GET":
            return (
                Answer(404, None)
                if re.search(r"/[^/]*-[^/]*$|/v1/(site|audit)$|/metadata$", split.path)
                else Answer(200, Empty())
            )
        if (lie == "deaf" and method != "GET") or (lie == "undying" and method == "DELETE"):
            if service == "accelerator-pod" and split.path.endswith("/plan"):
                return Answer(200, {"placement": {"nodes": []}})
            return Answer(DONE.get(method, 200), Pretended())
        if self._key is not None and not self._holds_key():
            return Answer(401, {"error": "refused"})
        handler = {
            "accelerator-pod": weft,
            "identity": keystone,
            "image": glance,
            "network": neutron,
            "compute": nova,
            "baremetal": ironic,
            "shared-file-system": manila,
            "block-storage": cinder,
        }
        answer = handler[service](self, method, split.path, query, body)
        if service == "network" and method != "GET":
            answer = self._logged(answer, method, split.path, dict(headers or {}))
        return answer

    def _logged(self, answer: Answer, method: str, path: str, headers: Mapping[str, str]) -> Answer:
        """Adds the request to Neutron's audit trail."""
        request = f"req-{uuid4()}"
        host = {"address": "127.0.0.1", "agent": headers.get("User-Agent", "python")}
        event = {
            "eventTime": now(),
            "action": {"POST": "create", "PUT": "update", "DELETE": "delete"}[method],
            "requestPath": path,
            "initiator": {"id": self.user_id, "request_id": request, "host": host},
            "target": {"typeURI": "service/network/security-groups", "addresses": [{"url": "http://net"}]},
        }
        outcome = "success" if answer.is_done else "failure"
        self.world.trail += [{**event, "outcome": "pending"}, {**event, "outcome": outcome}]
        return Answer(answer.status, answer.body, {"X-Openstack-Request-Id": request})

    def _holds_key(self) -> bool:
        assert self._key is not None
        found = self.world.kept("keys").get(self._key[0])
        user = self.world.kept("users").get(str(found["user"])) if found else None
        if found is None or user is None or not user["enabled"] or found["secret"] != self._key[1]:
            return False
        return not found.get("expires_at") or datetime.fromisoformat(
            found["expires_at"] + "+00:00"
        ) > datetime.now(UTC)


class Empty(dict[str, Any]):
    """An answer in which each list is empty."""

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> Any:
        return []


class Pretended(dict[str, Any]):
    """An answer to a change that wasn't made: it contains whatever is looked up."""

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> Any:
        key = "pretended-1"
        return {"id": key, "secret": "s"} if name not in ("id", "token") else key


def crud(
    caller: FakeCaller, kind: str, one: str, key: str | None, method: str, query: Mapping[str, str], body: Any
) -> Answer:
    """Create, read, update and delete of a plain collection."""
    rows = caller.world.kept(kind)
    if key is None and method == "GET":
        wanted = {k: v for k, v in query.items() if k != "limit"}
        found = [r for r in rows.values() if all(str(r.get(k)) == v for k, v in wanted.items())]
        return Answer(200, {kind: [r for r in found if seen(caller, r)]})
    if key is None:
        made = {"id": str(uuid4()), "project_id": caller.project_id, **body[one]}
        rows[made["id"]] = made
        return Answer(201, {one: made})
    row = rows.get(key)
    if row is None or not seen(caller, row):
        return Answer(404)
    if method == "DELETE":
        del rows[key]
        return Answer(204)
    if method in ("PUT", "PATCH"):
        row |= body[one]
    return Answer(200, {one: row})


def seen(caller: FakeCaller, row: Json) -> bool:
    return caller.name == "operator" or row.get("project_id", caller.project_id) == caller.project_id


def keystone(caller: FakeCaller, method: str, path: str, query: Mapping[str, str], body: Any) -> Answer:
    world = caller.world
    if path == "/auth/projects":
        return Answer(200, {"projects": [{"id": caller.project_id}]})
    if path == "/endpoints":
        return Answer(200, {"endpoints": [{"url": "http://net", "region_id": "RegionOne"}]})
    if path == "/roles":
        return Answer(200, {"roles": [{"id": f"role-{query['name']}"}]})
    if "/roles/" in path:
        return Answer(204)
    if match := re.fullmatch(r"/users/([^/]+)/application_credentials(?:/([^/]+))?", path):
        keys = world.kept("keys")
        if method == "POST":
            made = {**body["application_credential"], "id": str(uuid4()), "secret": "s", "user": match[1]}
            keys[made["id"]] = made
            return Answer(201, {"application_credential": made})
        if match[2] not in keys:
            return Answer(404)
        if method == "DELETE":
            del keys[match[2]]
            return Answer(204)
        return Answer(200, {"application_credential": keys[match[2]]})
    _, kind, *rest = path.split("/")
    if kind == "users" and method == "POST":
        body["user"]["enabled"] = True
    if kind == "users" and method == "DELETE":
        keys = world.kept("keys")
        for key in [k for k, v in keys.items() if v["user"] == rest[0]]:
            del keys[key]
    return crud(caller, kind, kind[:-1], rest[0] if rest else None, method, {}, body)


def glance(caller: FakeCaller, method: str, path: str, query: Mapping[str, str], body: Any) -> Answer:
    rows = caller.world.kept("images")
    if path == "/v2/info/stores":
        return Answer(200, {"stores": [{"id": "file"}]})
    if path == "/v2/images" and method == "GET":
        return Answer(
            200, {"images": [r for r in rows.values() if query.get("name", r["name"]) == r["name"]]}
        )
    if path == "/v2/images":
        if caller.is_reader:
            return Answer(403)
        made = {**body, "id": str(uuid4()), "status": "queued", "project_id": caller.project_id}
        rows[made["id"]] = made
        return Answer(201, made)
    key = path.split("/")[3]
    if key not in rows or not seen(caller, rows[key]):
        return Answer(404)
    if path.endswith("/file"):
        rows[key] |= {"status": "active", "os_hash_value": sha512(body).hexdigest()}
        return Answer(204)
    if method == "DELETE":
        del rows[key]
        return Answer(204)
    return Answer(200, rows[key])


_DEFAULTS: dict[str, Json] = {
    "subnets": {"host_routes": [], "dns_nameservers": []},
    "ports": {"device_owner": "", "device_id": "", "security_groups": [], "port_security_enabled": True},
    "networks": {"tags": [], "status": "ACTIVE"},
    "security-group-rules": {"remote_ip_prefix": None, "remote_group_id": None},
}


def neutron(caller: FakeCaller, method: str, path: str, query: Mapping[str, str], body: Any) -> Answer:
    world = caller.world
    _, _, kind, *rest = path.split("/")
    if caller.is_reader and method != "GET":
        return Answer(403)
    if len(rest) == 3:  # a resource's tag
        world.kept("networks")[rest[0]]["tags"].append(rest[2])
        return Answer(201)
    if method == "POST":
        (one,) = body
        given = _DEFAULTS.get(kind, {}) | body[one]
        if kind == "subnets":
            base = given["cidr"].rsplit(".", 1)[0]
            given["allocation_pools"] = [{"start": f"{base}.2", "end": f"{base}.254"}]
        if kind == "ports":
            subnet = given["fixed_ips"][0]["subnet_id"]
            base = world.kept("subnets")[subnet]["cidr"].rsplit(".", 1)[0]
            given["fixed_ips"] = [
                {"subnet_id": subnet, "ip_address": f"{base}.{len(world.kept('ports')) + 2}"}
            ]
        body = {one: given}
    if kind == "networks" and method == "DELETE":
        for row in [s for s in world.kept("subnets").values() if s["network_id"] == rest[0]]:
            del world.kept("subnets")[row["id"]]
    one, many = kind[:-1].replace("-", "_"), kind.replace("-", "_")
    if kind == "security-groups" and method == "GET" and query.get("name") == "default":
        rule = {"direction": "ingress", "remote_group_id": "default", "protocol": None}
        default = {"id": "default", "project_id": caller.project_id, "security_group_rules": [rule]}
        return Answer(200, {"security_groups": [default]})
    got = crud(caller, many, one, rest[0] if rest else None, method, query, body)
    if got.is_done and got.body and method == "GET":
        for row in got.body[many] if many in got.body else [got.body[one]]:
            if kind == "networks":
                row["subnets"] = [
                    s["id"] for s in world.kept("subnets").values() if s["network_id"] == row["id"]
                ]
            if kind == "security-groups":
                rules = world.kept("security_group_rules").values()
                row["security_group_rules"] = [r for r in rules if r["security_group_id"] == row["id"]]
    return got


def nova(caller: FakeCaller, method: str, path: str, query: Mapping[str, str], body: Any) -> Answer:
    world = caller.world
    rows = world.kept("servers")
    mine = [
        row for row in rows.values() if caller.name == "operator" or row["project_id"] == caller.project_id
    ]
    if path == "/os-hypervisors/detail":
        hosts = [
            {"hypervisor_hostname": n, "state": "down" if n in world.down else "up"} for n in world.nodes
        ]
        return Answer(200, {"hypervisors": hosts})
    if path == "/flavors":
        return Answer(200, {"flavors": [{"name": "gpu8"}, {"name": "metal8"}]})
    if path.startswith("/os-keypairs"):
        keys = world.kept("keypairs")
        if method == "GET":
            shown = [{"keypair": one} for one in keys.values() if one["project_id"] == caller.project_id]
            return Answer(200, {"keypairs": shown})
        if method == "DELETE":
            return Answer(202 if keys.pop(path.rsplit("/", 1)[1], None) else 404)
        keys[body["keypair"]["name"]] = {**body["keypair"], "project_id": caller.project_id}
        return Answer(201, {})
    if path in ("/servers", "/servers/detail"):
        return Answer(
            200, {"servers": [one for one in mine if query.get("name", one["name"]) == one["name"]]}
        )
    _, _, key, *rest = path.split("/")
    if key not in [one["id"] for one in mine]:
        return Answer(404)
    row = rows[key]
    if rest == ["metadata"]:
        row["metadata"] |= body["metadata"] if body else {}
        return Answer(200, {"metadata": row["metadata"]})
    if rest == ["action"] and caller.is_reader:
        return Answer(403)
    if rest == ["action"] and "os-getConsoleOutput" in body:
        return Answer(200, {"output": row["console"]})
    if rest == ["action"]:
        row |= {"status": "SHUTOFF"} if "os-stop" in body else {"status": "ACTIVE", "boot": str(uuid4())}
        return Answer(202)
    return Answer(200, {"server": row})


def cinder(caller: FakeCaller, method: str, path: str, query: Mapping[str, str], body: Any) -> Answer:
    _, kind, *rest = path.split("/")
    return crud(caller, kind, "volume", rest[0] if rest else None, method, query, body)


def manila(caller: FakeCaller, method: str, path: str, query: Mapping[str, str], body: Any) -> Answer:
    world, (_, kind, *rest) = caller.world, path.split("/")
    if kind == "scheduler-stats":
        return Answer(200, {"pools": [{"capabilities": {"total_capacity_gb": 100.0}}]})
    if kind == "share-access-rules":
        rows = [one for one in world.kept("rules").values() if one["share"] == query["share_id"]]
        return Answer(200, {"access_list": rows})
    if rest[1:] == ["action"]:
        rule = {**body["allow_access"], "state": "active", "share": rest[0]}
        world.kept("rules")[str(uuid4())] = rule
        return Answer(202)
    if rest[1:] == ["export_locations"]:
        return Answer(200, {"export_locations": [{"path": f"10.79.0.2:/shares/{rest[0]}"}]})
    if method == "POST":
        body = {"share": {**body["share"], "status": "available", "files": {}}}
    return crud(caller, "shares", "share", rest[0] if rest else None, method, query, body)


def ironic(caller: FakeCaller, method: str, path: str, query: Mapping[str, str], body: Any) -> Answer:
    """Consoles of machines."""
    world, name = caller.world, path.split("/")[3]
    if caller.name != "operator":
        return Answer(403)
    if method == "PUT":
        world.kept("consoles")[name] = {"enabled": body["enabled"]}
        return Answer(202)
    enabled = world.kept("consoles").get(name, {}).get("enabled", False)
    info = {"type": "socat", "url": f"tcp://127.0.0.1:{_relay(world)}"} if enabled else None
    return Answer(200, {"console_enabled": enabled, "console_info": info})


def _relay(world: World) -> int:
    """Port of a server that sends what servers write to their consoles."""

    class Sender(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            for _ in range(100):
                text = "".join(row["console"] for row in world.kept("servers").values())
                try:
                    self.request.sendall(text.encode())
                except OSError:
                    return
                time.sleep(0.02)

    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Sender)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return int(server.server_address[1])


class FakeLogins:
    """Logins to the world's servers. They don't lie."""

    public_key, key_file, within = "ssh-ed25519 AAAA", Path("/nowhere/key"), ()

    def __init__(self, world: World) -> None:
        self._world = world

    def enter(self, pod: Json, cidr: str) -> None:
        pass

    def run(self, pod: Json, cidr: str, address: str, command: str) -> str:
        found = [one for one in self._world.kept("servers").values() if one["address"] == address]
        if not found or found[0]["status"] != "ACTIVE":
            raise LostError("no login")
        if command.startswith("echo wacc") and "dmesg" in command:
            return f"12.5 20.0\n[   12.400000] {command.split()[1].rstrip(';')}"
        if "head -c 100000" in command:
            self._world.sent += 100_000
            return ""
        if command.startswith("logger"):
            return f"Nov 30 08:00:00 host acceptance: {command.split()[3].rstrip(';')}"
        if command.startswith("ip address add"):  # an address of another network isn't reached
            return ""
        if command == "echo here":
            return "here"
        if "sha512sum" in command:
            return f"{self._world.kept('images')[found[0]['image']['id']].get('os_hash_value')}  -"
        if "ping" in command:
            there = [one["address"] for one in self._world.kept("servers").values()]
            return command.split()[-1] if command.split()[-1] in there else ""
        if "boot_id" in command:
            return str(found[0]["boot"])
        if "uptime" in command:
            return "12.5 20.0"
        if command.startswith("echo "):
            found[0]["console"] += command.split()[1] + "\n"
        return ""


def weft(caller: FakeCaller, method: str, path: str, query: Mapping[str, str], body: Any) -> Answer:
    """weft's API, as far as steps use it."""
    for pattern, (handler, methods) in _ROUTES.items():
        if method in methods and (match := re.fullmatch(pattern, path)):
            return handler(caller, body, query, *match.groups())
    raise AssertionError(f"{method} {path}")


def _row(world: World, name: str) -> Json:
    node, drains, quarantine = world.nodes[name], world.kept("drains"), world.kept("quarantine")
    holds = [one for one in world.kept("holds").values() if one["node"] == name]
    pod = node["pod"]
    state = "quarantined" if name in quarantine else "busy" if pod else "held" if holds else "free"
    state = "drained" if name in drains and state == "free" else state
    failed = world.kept("checks").get(name, {}).get("failed", [])
    return {
        "name": name,
        "rack": node["leaf"].replace("leaf", "rack"),
        "leaf": node["leaf"],
        "state": state,
        "pod": pod["name"] if pod else None,
        "project_id": pod["project_id"] if pod else None,
        "reason": quarantine.get(name, {}).get("reason", ""),
        "holds": holds,
        "reports": [one for one in world.kept("reports").values() if one["node"] == name],
        "checks": "failed" if failed else world.checks,
        "failed_checks": failed,
    }


def _free(world: World, project: str) -> list[str]:
    reserved = {
        name
        for one in world.kept("reservations").values()
        if one["project_id"] != project
        for name in one["nodes"]
    }
    return [name for name in world.nodes if _row(world, name)["state"] == "free" and name not in reserved]


def _choose(caller: FakeCaller, given: Json) -> list[str] | None:
    count, free = given["nodes"]["count"], _free(caller.world, caller.project_id)
    if given.get("locality", {}).get("required") != "leaf":
        return free[:count] if len(free) >= count else None
    for leaf in dict.fromkeys(one["leaf"] for one in caller.world.nodes.values()):
        mine = [name for name in free if caller.world.nodes[name]["leaf"] == leaf]
        if len(mine) >= count:
            return mine[:count]
    return None


def _placed(world: World, names: list[str]) -> list[Json]:
    rows = [_row(world, name) for name in names]
    return [{"node": r["name"], "leaf": r["leaf"], "rack": r["rack"]} for r in rows]


def _plan(caller: FakeCaller, body: Any, query: Mapping[str, str]) -> Answer:
    names = _choose(caller, body)
    return (
        Answer(422) if names is None else Answer(200, {"placement": {"nodes": _placed(caller.world, names)}})
    )


def _pods(caller: FakeCaller, body: Any, query: Mapping[str, str]) -> Answer:
    world = caller.world
    pods = world.kept("pods")
    if body is None:
        return Answer(200, {"pods": [one for one in pods.values() if one["project_id"] == caller.project_id]})
    if caller.is_reader:
        return Answer(403)
    names = _choose(caller, body)
    if names is None:
        return Answer(422)
    pod: Json = {
        "id": str(uuid4()),
        "name": body["name"],
        "project_id": caller.project_id,
        "state": "READY",
        "changing_since": None,
        "segment": f"0x{0x101 + len(pods):x}",
        "fabric": "ib0",
        "placed": _placed(world, names),
        "servers": [{"node": name, "name": f"{body['name']}-{n}"} for n, name in enumerate(names)],
        "events": [],
        "vlan": 1000,
        "resources": [{"key": "subnet/management", "id": "managed-1", "name": "subnet"}],
    }
    pods[pod["id"]] = pod
    _boot(caller, pod, body["nodes"].get("image", "guest"))
    for name in names:
        world.nodes[name]["pod"] = pod
    return Answer(202, pod)


def _boot(caller: FakeCaller, pod: Json, image: str) -> None:
    """Creates the pod's servers in Nova, and its management subnet."""
    world = caller.world
    world.kept("images")["guest-1"] = {"id": "guest-1", "name": "guest", "status": "active"}
    image = next((key for key, row in world.kept("images").items() if row["name"] == image), "guest-1")
    subnet = {"id": "managed-1", "cidr": "10.64.0.0/24", "network_id": "managed"}
    world.kept("subnets")["managed-1"] = subnet | {"project_id": caller.project_id}
    made: list[Json] = pod["servers"]
    for one in made:
        one["management_address"] = f"10.64.0.{len(world.kept('servers')) + 16}"
        row: Json = {
            "id": str(uuid4()),
            "name": one["name"],
            "project_id": caller.project_id,
            "status": "ACTIVE",
            "key_name": "wacc-key",
            "boot": str(uuid4()),
            "console": "booted\n",
            "metadata": {},
            "image": {"id": image},
            "address": one["management_address"],
            "addresses": {"management": [{"addr": one["management_address"]}]},
            "OS-EXT-SRV-ATTR:host": one["node"],
        }
        world.kept("servers")[row["id"]] = row


def _reboot(caller: FakeCaller, body: Any, query: Mapping[str, str], name: str, server: str) -> Answer:
    for row in caller.world.kept("servers").values():
        if row["name"] == server:
            row["boot"] = str(uuid4())
    return Answer(202, {})


def _pod(caller: FakeCaller, name: str) -> Json | None:
    mine = [
        one
        for one in caller.world.kept("pods").values()
        if name in (one["id"], one["name"])
        and (caller.name == "operator" or one["project_id"] == caller.project_id)
    ]
    return mine[-1] if mine else None


def _show(caller: FakeCaller, body: Any, query: Mapping[str, str], name: str) -> Answer:
    pod = _pod(caller, name)
    return Answer(404) if pod is None else Answer(200, pod)


def _release(caller: FakeCaller, body: Any, query: Mapping[str, str], name: str) -> Answer:
    pod, world = _pod(caller, name), caller.world
    world.log.append({"action": "pod release", "subject": name, "last_at": now(), "user_id": caller.user_id})
    if pod is None:
        return Answer(404)
    pod["state"] = "RELEASED"
    for node in world.nodes.values():
        if node["pod"] is pod:
            node["pod"] = None
    names = [one["name"] for one in pod["servers"]]
    for key in [k for k, row in world.kept("servers").items() if row["name"] in names]:
        del world.kept("servers")[key]
    return Answer(202, pod)


def _about(caller: FakeCaller, body: Any, query: Mapping[str, str], name: str, what: str) -> Answer:
    pod = _pod(caller, name)
    if pod is None:
        return Answer(404)
    if what == "receipt":
        items = [{"plane": "machine", "result": "clean", "seen": "cleaned: disks erased"}]
        return (
            Answer(200, {"receipt": {"clean": True, "items": items}})
            if pod["state"] == "RELEASED"
            else Answer(404)
        )
    if what == "events":
        return Answer(200, {"events": pod["events"]})
    placed = pod["placed"]
    if what == "links":
        link = {"receiver_level": "leaf", "receiver": placed[0]["leaf"], "receiver_port": 1}
        return Answer(200, {"links": [link]})
    ports = [
        {
            "node": p["node"],
            "adapter": "mlx5_0",
            "port": f"guid-{p['node']}",
            "seen": "in",
            "leaf_seen": f"{p['leaf']} port 1",
        }
        for p in placed
    ]
    return Answer(200, {"members_unread": "", "further": 0, "ports": ports})


def _replace(caller: FakeCaller, body: Any, query: Mapping[str, str], name: str) -> Answer:
    pod, world, old = _pod(caller, name), caller.world, body["node"]
    assert pod is not None
    new = _free(world, caller.project_id)[0]
    world.nodes[old]["pod"], world.nodes[new]["pod"] = None, pod
    pod["placed"] = [p for p in pod["placed"] if p["node"] != old] + _placed(world, [new])
    for row in world.kept("servers").values():
        if row["OS-EXT-SRV-ATTR:host"] == old:
            row["OS-EXT-SRV-ATTR:host"] = new
    why = f"pod {name} of project {caller.project_id}"
    world.kept("holds")[old] = {"node": old, "what": "repair", "why": why}
    return Answer(202, {})


def _report(caller: FakeCaller, body: Any, query: Mapping[str, str], name: str) -> Answer:
    caller.world.kept("reports")[body["node"]] = {**body, "project_id": caller.project_id}
    return Answer(200, {})


def _certificates(caller: FakeCaller, body: Any, query: Mapping[str, str]) -> Answer:
    return Answer(200, {"certificates": [{"kind": "agent", "name": "sm1"}]})


def _list(kind: str) -> Any:
    return lambda caller, body, query: Answer(200, {kind: list(caller.world.kept(kind).values())})


def _nodes(caller: FakeCaller, body: Any, query: Mapping[str, str], name: str | None = None) -> Answer:
    world = caller.world
    if name is None:
        return Answer(200, {"nodes": [_row(world, one) for one in world.nodes]})
    return Answer(200, _row(world, name)) if name in world.nodes else Answer(404)


def _note(world: World, name: str, code: str) -> None:
    entry = {"at": now(), "type": "quarantine", "code": code, "message": code}
    world.nodes[name]["history"].insert(0, entry)


def _quarantine(caller: FakeCaller, body: Any, query: Mapping[str, str], name: str) -> Answer:
    world = caller.world
    if body is None:
        world.kept("quarantine").pop(name, None)
    else:
        world.kept("quarantine")[name] = body
    _note(world, name, "NODE_QUARANTINED" if body else "NODE_CLEARED")
    return Answer(200, _row(world, name))


def _history(caller: FakeCaller, body: Any, query: Mapping[str, str], name: str) -> Answer:
    return Answer(200, {"entries": caller.world.nodes[name]["history"]})


def _drop(kind: str) -> Any:
    def drop(caller: FakeCaller, body: Any, query: Mapping[str, str], name: str) -> Answer:
        return Answer(200 if caller.world.kept(kind).pop(name, None) else 404, {})

    return drop


def _targets(world: World, target: str) -> list[str]:
    kind, _, name = target.partition(":")
    return [n for n in world.nodes if name == (n if kind == "node" else _row(world, n)["rack"])]


def _drain(caller: FakeCaller, body: Any, query: Mapping[str, str]) -> Answer:
    for name in _targets(caller.world, body["target"]):
        caller.world.kept("drains")[name] = {"node": name, "reason": body["reason"], "public": body["public"]}
        if pod := caller.world.nodes[name]["pod"]:
            message = f"maintenance of {name}: {body['public']}"
            pod["events"].append({"code": "NODES_DRAINED", "message": message, "at": now()})
    return Answer(200, {})


def _undrain(caller: FakeCaller, body: Any, query: Mapping[str, str], target: str) -> Answer:
    for name in _targets(caller.world, target):
        caller.world.kept("drains").pop(name, None)
    return Answer(200, {})


def _reserve(caller: FakeCaller, body: Any, query: Mapping[str, str]) -> Answer:
    caller.world.kept("reservations")[body["name"]] = body
    return Answer(201, body)


def _token(caller: FakeCaller, body: Any, query: Mapping[str, str], name: str) -> Answer:
    made = {"id": str(uuid4()), "node": name, "expires_at": body.get("until"), "token": "wct"}
    caller.world.kept("tokens")[made["id"]] = made
    return Answer(201, made)


def _checks(caller: FakeCaller, body: Any, query: Mapping[str, str], name: str) -> Answer:
    world = caller.world
    if body is None:
        world.kept("checks").pop(name, None)
        return Answer(200, {})
    failed = [
        {"code": one["code"], "subject": one["subject"]}
        for one in body["results"]
        if one["status"] == "failed"
    ]
    world.kept("checks")[name] = {"failed": failed, "document": body}
    if pod := world.nodes[name]["pod"]:
        pod["events"].append(
            {"code": "NODE_CHECKS_FAILED", "message": f"own checks of node {name} failed", "at": now()}
        )
    return Answer(200, {})


def _checked(caller: FakeCaller, body: Any, query: Mapping[str, str], name: str) -> Answer:
    return Answer(200, {"document": caller.world.kept("checks").get(name, {}).get("document")})


def _site(caller: FakeCaller, body: Any, query: Mapping[str, str]) -> Answer:
    gpus = [{"type": "h100"}] * 8
    nodes = [
        {"name": name, "role": "compute", "cloud": "lab", "host": None, "machine": None, "accelerators": gpus}
        for name in caller.world.nodes
    ]
    homes = {"storage": {"exports": {"home": {"location": "10.79.0.2:/home"}}}}
    fabrics = {"ib0": {"manager": {"agents": [{"name": "sm1", "url": "https://sm1"}]}}}
    document = {
        "nodes": nodes,
        "fabrics": fabrics,
        "clouds": {"lab": homes},
        "retention": {"audit_log": "365d"},
    }
    return Answer(200, {"name": "lab", "activated_at": now(), "document": document})


def _audit(caller: FakeCaller, body: Any, query: Mapping[str, str]) -> Answer:
    pods = [one for one in caller.world.kept("pods").values() if one["state"] == "READY"]
    return Answer(200, {"findings": [], "checked": {"segments in ib0": len(pods)}})


def _log(caller: FakeCaller, body: Any, query: Mapping[str, str]) -> Answer:
    return Answer(200, {"entries": [e for e in caller.world.log if e["user_id"] == query.get("user")]})


def _links(caller: FakeCaller, body: Any, query: Mapping[str, str]) -> Answer:
    leaf = query["target"].split(":")[0]
    pods = [
        {"id": one["id"]}
        for one in caller.world.kept("pods").values()
        if any(p["leaf"] == leaf for p in one["placed"]) and one["state"] == "READY"
    ]
    reading = {"rates_unread": "", "rates_age": 9.0, "rates_seconds": [15.0]}
    return Answer(
        200,
        {"reading": reading, "links": [{"receiver": leaf, "sent_gbps": 0.0, "waiting": 0.0, "pods": pods}]},
    )


_ROUTES: dict[str, tuple[Any, tuple[str, ...]]] = {
    "/v1/pods": (_pods, ("GET", "POST")),
    "/v1/pods/plan": (_plan, ("POST",)),
    "/v1/pods/([^/]+)": (_show, ("GET",)),
    "/v1/pods/([^/]+)/release": (_release, ("POST",)),
    "/v1/pods/([^/]+)/servers/([^/]+)/action": (_reboot, ("POST",)),
    "/v1/pods/([^/]+)/replace": (_replace, ("POST",)),
    "/v1/pods/([^/]+)/report": (_report, ("POST",)),
    "/v1/pods/([^/]+)/(receipt|events|links|map)": (_about, ("GET",)),
    "/v1/nodes": (_nodes, ("GET",)),
    "/v1/nodes/([^/]+)": (_nodes, ("GET",)),
    "/v1/nodes/([^/]+)/history": (_history, ("GET",)),
    "/v1/nodes/([^/]+)/quarantine": (_quarantine, ("PUT", "DELETE")),
    "/v1/nodes/([^/]+)/reports": (_drop("reports"), ("DELETE",)),
    "/v1/nodes/([^/]+)/hold": (_drop("holds"), ("DELETE",)),
    "/v1/nodes/([^/]+)/check-tokens": (_token, ("POST",)),
    "/v1/nodes/([^/]+)/(?:checks)": (_checked, ("GET",)),
    "/v1/nodes/([^/]+)/checks": (_checks, ("POST", "DELETE")),
    "/v1/check-tokens": (_list("tokens"), ("GET",)),
    "/v1/check-tokens/([^/]+)": (_drop("tokens"), ("DELETE",)),
    "/v1/reservations": (_list("reservations"), ("GET",)),
    "/v1/(?:reservations)": (_reserve, ("POST",)),
    "/v1/reservations/([^/]+)": (_drop("reservations"), ("DELETE",)),
    "/v1/drains": (_list("drains"), ("GET",)),
    "/v1/(?:drains)": (_drain, ("POST",)),
    "/v1/drains/([^/]+)": (_undrain, ("DELETE",)),
    "/v1/reports": (_list("reports"), ("GET",)),
    "/v1/holds": (_list("holds"), ("GET",)),
    "/v1/site": (_site, ("GET",)),
    "/v1/site/certificates": (_certificates, ("GET",)),
    "/v1/audit": (_audit, ("GET",)),
    "/v1/audit-log": (_log, ("GET",)),
    "/v1/links": (_links, ("GET",)),
}
