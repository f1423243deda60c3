"""Manila and Cinder in a few lines, as their APIs answer, until a test makes them answer falsely."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field
from ipaddress import ip_network
from typing import Any

from tests.drivers.openstack.tinycloud import PROJECT, Reply, TinyCloud


def _missing(text: str, status: int = 404) -> Reply:
    return Reply(
        status, {"itemNotFound" if status == 404 else "badRequest": {"code": status, "message": text}}
    )


def _same(rule: dict[str, Any], share: str, address: str) -> bool:
    """Compare as Manila does: networks, whatever notation a rule shows."""
    to = rule.get("hidden") or rule["access_to"]
    return rule["share_id"] == share and ip_network(to, strict=False) == ip_network(address)


@dataclass(slots=True)
class TinyStorage(TinyCloud):
    """The storage of a tiny cloud.

    Attributes:
        shares, rules, volumes, locks: by id.
        attached: server -> volumes attached to it.
        reserved: Cinder's attachments that Nova doesn't have, by id.
        locked: servers with a tenant's lock.
        slow: volumes that their guests don't release.
        types: share types and volume types.
    """

    shares: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    rules: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    volumes: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    locks: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    attached: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    reserved: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    locked: set[str] = field(default_factory=set[str])
    slow: set[str] = field(default_factory=set[str])
    types: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    numbers: itertools.count[int] = field(default_factory=itertools.count)

    def reset(self) -> None:
        TinyCloud.reset(self)
        self.shares, self.rules, self.volumes, self.locks, self.attached = {}, {}, {}, {}, {}
        self.locked, self.slow, self.reserved = set(), set(), {}
        self.types = [{"id": "t1", "name": "nas", "extra_specs": {"driver_handles_share_servers": "False"}}]

    def answer(self, method: str, path: str, query: dict[str, list[str]], seer: str, body: Any) -> Reply:
        _, service, *rest = path.split("/")
        if service not in ("share", "volume") and not {"os-volume_attachments", "action"} & {*rest}:
            return TinyCloud.answer(self, method, path, query, seer, body)
        line = f"{method} {path}"
        self.asked.append(line)
        for pattern, reply in self.lies:
            if re.fullmatch(pattern, line):
                return reply
        if service == "share":
            return self._share(method, rest, query, body)
        return (
            self._volume(method, rest, body) if service == "volume" else self._attachment(method, rest, body)
        )

    def _share(self, method: str, rest: list[str], query: dict[str, list[str]], body: Any) -> Reply:
        match method, rest:
            case "GET", ["types"]:
                return Reply(200, {"share_types": self.types})
            case "GET", ["shares", "detail"]:
                return Reply(200, {"shares": list(self.shares.values())})
            case "POST", ["shares"]:
                made = self._made("share", body["share"])
                self.shares[made["id"]] = made
                return Reply(200, {"share": made})
            case "GET", ["share-access-rules"]:
                share = query["share_id"][0]
                if share not in self.shares:
                    return _missing(f"Share {share} not found.", 400)
                return Reply(200, {"access_list": [r for r in self.rules.values() if r["share_id"] == share]})
            case "GET", ["share-access-rules", rule]:
                found = self.rules.get(rule)
                return (
                    Reply(200, {"access": found})
                    if found
                    else _missing(f"Share access rule {rule} not found.")
                )
            case "GET", ["resource-locks"]:
                found = [one for one in self.locks.values() if one["resource_id"] == query["resource_id"][0]]
                return Reply(200, {"resource_locks": found})
            case "DELETE", ["resource-locks", lock]:
                self.locks.pop(lock, None)
                return Reply(204)
            case "GET", ["share-replicas", "detail"]:
                return Reply(200, {"share_replicas": self.things.get("share_replicas", [])})
            case "DELETE", ["snapshots", snapshot]:
                return self._snapshot(snapshot)
            case "GET", ["snapshots", *detail]:
                shown = self.things.get("snapshots", [])  # only a snapshot's detail shows its share
                rows = shown if detail else [{"id": one["id"], "name": one["name"]} for one in shown]
                return Reply(200, {"snapshots": rows})
            case _, ["shares", share, *more] if share not in self.shares:
                named = (
                    f"Share '{share}' not found."
                    if more == ["export_locations"]
                    else "The resource could not be found."
                )
                return _missing(named)
            case "GET", ["shares", share]:
                return Reply(200, {"share": self.shares[share]})
            case "GET", ["shares", share, "export_locations"]:
                return Reply(200, {"export_locations": [{"path": f"10.0.0.1:/{share}", "preferred": True}]})
            case "PUT", ["shares", share] if self.shares[share].get("is_soft_deleted"):
                return Reply(403, {"forbidden": {"code": 403, "message": "it has been soft deleted"}})
            case "PUT", ["shares", share]:
                names = {
                    "display_name": "name",
                    "display_description": "description",
                    "is_public": "is_public",
                }
                self.shares[share] |= {names[k]: v for k, v in body["share"].items()}
                return Reply(200, {"share": self.shares[share]})
            case "DELETE", ["shares", share]:
                if any(one["resource_id"] == share for one in self.locks.values()):
                    return Reply(403, {"forbidden": {"code": 403, "message": "Resource lock/s are there"}})
                kept = ("has_replicas", "share_group_id")
                if any(self.shares[share].get(n) for n in kept) or self.things.get("snapshots"):
                    return Reply(409, {"conflictingRequest": {"code": 409, "message": "it is in use"}})
                del self.shares[share]
                return Reply(202)
            case "POST", ["shares", share, "action"]:
                return self._rule(share, body)
            case _:
                raise AssertionError((method, rest))

    def _rule(self, share: str, body: Any) -> Reply:
        if "restore" in body:
            self.shares[share]["is_soft_deleted"] = False
            return Reply(202)
        if "deny_access" in body:
            rule = body["deny_access"]["access_id"]
            if any(one["resource_id"] == rule for one in self.locks.values()):
                return Reply(403, {"forbidden": {"code": 403, "message": "the rule is locked"}})
            return Reply(202) if self.rules.pop(rule, None) else _missing("not found")
        wanted = body["allow_access"]
        if any(_same(r, share, wanted["access_to"]) for r in self.rules.values()):
            return Reply(400, {"badRequest": {"code": 400, "message": "Share access ip exists."}})
        made = {"id": f"rule-{next(self.numbers)}", "share_id": share, "state": "active", **wanted}
        self.rules[made["id"]] = made
        return Reply(200, {"access": made})

    def _volume(self, method: str, rest: list[str], body: Any) -> Reply:
        match method, rest:
            case "GET", ["types"]:
                return Reply(200, {"volume_types": self.types})
            case "GET", ["volumes", "detail"]:
                return Reply(200, {"volumes": list(self.volumes.values())})
            case "POST", ["volumes"]:
                made = self._made("volume", body["volume"])
                self.volumes[made["id"]] = made
                return Reply(202, {"volume": made})
            case "GET", ["attachments"]:
                return Reply(200, {"attachments": list(self.reserved.values())})
            case "DELETE", ["attachments", attachment]:
                volume = self.volumes[self.reserved.pop(attachment)["volume_id"]]
                volume["attachments"] = []
                return Reply(200, {"attachments": []})
            case "POST", ["volumes", volume, "action"]:
                (action,) = body
                before, after = {
                    "os-unreserve": ("attaching", "available"),
                    "os-roll_detaching": ("detaching", "in-use"),
                }[action]
                if self.volumes[volume]["status"] == before:
                    self.volumes[volume]["status"] = after
                return Reply(202)
            case "GET", ["os-volume-transfer", "detail"]:
                return Reply(200, {"transfers": []})
            case "GET", ["backups", "detail"]:
                return Reply(200, {"backups": self.things.get("backups", [])})
            case "DELETE", ["snapshots", snapshot]:
                return self._snapshot(snapshot)
            case "GET", ["snapshots"]:
                return Reply(200, {"snapshots": self.things.get("snapshots", [])})
            case _, ["volumes", volume] if volume not in self.volumes:
                return _missing(f"Volume {volume} could not be found.")
            case "GET", ["volumes", volume]:
                return Reply(200, {"volume": self.volumes[volume]})
            case "PUT", ["volumes", volume]:
                self.volumes[volume] |= body["volume"]
                return Reply(200, {"volume": self.volumes[volume]})
            case "DELETE", ["volumes", volume]:
                held = self.volumes[volume]["attachments"] or self.volumes[volume]["status"] != "available"
                held = held or self.volumes[volume].get("group_id") or self.things.get("snapshots")
                if held or any(one["volume_id"] == volume for one in self.reserved.values()):
                    return Reply(400, {"badRequest": {"code": 400, "message": "Volume must be available"}})
                del self.volumes[volume]
                return Reply(202)
            case _:
                raise AssertionError((method, rest))

    def _snapshot(self, snapshot: str) -> Reply:
        """A snapshot from which another resource is being created can't be deleted."""
        row = next(one for one in self.things["snapshots"] if one["id"] == snapshot)
        if row["status"] != "available":
            return Reply(400, {"badRequest": {"code": 400, "message": "Snapshot status must be available"}})
        self.things["snapshots"].remove(row)
        return Reply(202)

    def _attachment(self, method: str, rest: list[str], body: Any) -> Reply:
        server = rest[1]
        if server not in self.attached:
            return _missing(f"Instance {server} could not be found.")
        if rest[2] == "action":
            assert body == {"unlock": None}
            self.locked.discard(server)
            return Reply(202)
        if method != "GET" and server in self.locked:
            return Reply(
                409, {"conflictingRequest": {"code": 409, "message": f"Instance {server} is locked"}}
            )
        if method == "POST":
            volume = body["volumeAttachment"]["volumeId"]
            if self.volumes[volume]["attachments"]:
                return Reply(400, {"badRequest": {"code": 400, "message": "volume is in-use"}})
            self.attached[server].append(volume)
            self.volumes[volume]["attachments"] = [{"server_id": server}]
            return Reply(200, {"volumeAttachment": {"volumeId": volume}})
        if method == "DELETE":
            if rest[3] not in self.attached[server]:
                return _missing(f"Instance {server} is not attached to volume {rest[3]}")
            if self.volumes[rest[3]]["status"] == "detaching":
                return Reply(400, {"badRequest": {"code": 400, "message": "Invalid volume: it is detaching"}})
            if rest[3] in self.slow:
                self.volumes[rest[3]]["status"] = "detaching"
                return Reply(202)
            self.attached[server].remove(rest[3])
            self.volumes[rest[3]]["attachments"] = []
            return Reply(202)
        rows = [{"id": v, "volumeId": v, "serverId": server} for v in self.attached[server]]
        return Reply(200, {"volumeAttachments": rows})

    def _made(self, what: str, wanted: dict[str, Any]) -> dict[str, Any]:
        fixed = {"id": f"{what}-{next(self.numbers)}", "status": "available", "project_id": PROJECT}
        return {**wanted, **fixed, "created_at": "2026-01-01T00:00:00Z", "attachments": []}
