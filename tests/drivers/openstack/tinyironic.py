"""Ironic in a few lines, with nodes, their history and conductors, as its API shows them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.drivers.openstack.tinycloud import Reply, TinyCloud

NODE = "5c435abb-55d9-5c17-8131-5edcbcd52777"
NO_INVENTORY = json.dumps({"faultstring": "Node inventory record for node 1 could not be found."})
STEPS = [
    {"interface": "deploy", "step": "erase_devices", "priority": 10, "abortable": False, "args": {}},
    {"interface": "deploy", "step": "verify_erased", "priority": 5, "abortable": False, "args": {}},
]


def event(kind: str, text: str, at: str, severity: str = "INFO") -> dict[str, Any]:
    """A row of a node's history with details, microversion 1.78."""
    return {"event_type": kind, "event": text, "created_at": at, "severity": severity, "conductor": "ironic1"}


def deployed(at: str = "2026-11-22T20:00:00+00:00") -> list[dict[str, Any]]:
    return [
        event("deployment_start", "Starting deployment with steps=[]", at),
        event("deployment_end", "Deployment completed successfully with steps=[]", at),
    ]


def cleaned(
    at: str = "2026-11-22T21:00:00+00:00", steps: list[dict[str, Any]] = STEPS
) -> list[dict[str, Any]]:
    """Events of a cleaning as ironic 39 writes them: the end has no steps."""
    return [
        event("automated_cleaning_start", f"Starting automated cleaning with steps={steps}", at),
        event("automated_cleaning_end", "Automated Cleaning completed successfully with steps=[]", at),
    ]


@dataclass(slots=True)
class TinyIronic(TinyCloud):
    """`nodes` and `history` by node; tests change them as conductors and people do.

    Attributes:
        findings: node -> what an inspection will find.
        inspections: node -> what its last inspection found.
        hardware: `firmware` and `bios` of every node.
        attached: node -> ids of the attached Neutron ports.
        at: attached Neutron port -> Ironic's port: the one that was asked for, or the first free one.
        provisioned: the body of each change of a provision state.
        max_limit: the most rows on a page of nodes.
        asides: (pattern of method and path, what happens right before the answer), each once.
        losing: methods and paths of which one answer is lost after it took effect.
        arrays: a manual cleaning creates them.
        stuck: the conductor can neither start nor stop consoles.
        readers: Glance's image -> projects that may read it.
    """

    nodes: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    history: dict[str, list[dict[str, Any]]] = field(default_factory=dict[str, list[dict[str, Any]]])
    conductors: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    ports: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    findings: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    inspections: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    hardware: dict[str, list[dict[str, Any]]] = field(default_factory=dict[str, list[dict[str, Any]]])
    attached: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    at: dict[str, str] = field(default_factory=dict[str, str])
    provisioned: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    max_limit: int = 1000
    asides: list[tuple[str, Callable[[], None]]] = field(default_factory=list[tuple[str, Callable[[], None]]])
    losing: list[str] = field(default_factory=list[str])
    arrays: bool = True
    stuck: bool = False
    readers: dict[str, set[str]] = field(default_factory=dict[str, set[str]])

    def reset(self) -> None:
        """One machine that was cleaned and is free."""
        TinyCloud.reset(self)
        self.nodes = {
            NODE: {
                "uuid": NODE,
                "name": "bm01",
                "extra": {},
                "provision_state": "available",
                "instance_uuid": None,
                "instance_info": {},
                "reservation": None,
                "maintenance": False,
                "maintenance_reason": None,
                "fault": None,
                "last_error": None,
                "power_state": "power off",
                "console_enabled": False,
                "owner": None,
                "lessee": None,
                "provision_updated_at": "2026-11-01T00:10:01+00:00",
                "created_at": "2026-11-01T00:00:00+00:00",
            }
        }
        self.history = {NODE: cleaned("2026-11-01T00:10:00+00:00")}
        self.conductors = [{"hostname": "ironic1", "alive": True}]
        self.max_limit, self.asides, self.stuck, self.readers = 1000, [], False, {}
        self.attached, self.at, self.provisioned, self.losing = {}, {}, [], []
        self.ports, self.findings, self.inspections, self.hardware = [], {}, {}, {}

    def clean(self, node: str, at: str) -> None:
        """Make it free after a recorded cleaning that ended at this time."""
        self.history[node] += cleaned(at)
        self.nodes[node].update(provision_state="available", provision_updated_at=at)

    def answer(self, method: str, path: str, query: dict[str, list[str]], seer: str, body: Any) -> Reply:
        for aside in [a for a in self.asides if re.fullmatch(a[0], f"{method} {path}")][:1]:
            self.asides.remove(aside)
            aside[1]()
        if f"{method} {path}" in self.losing:
            self.losing.remove(f"{method} {path}")
            self.answer(method, path, query, seer, body)
            return Reply(502, "bad gateway", "text/html", own=False)
        if path.startswith("/image/images/") and (image := path.split("/")[3]) in self.readers:
            if seer in self.readers[image]:
                return Reply(200, {"id": image, "name": "part", "status": "active"})
            return Reply(404, f"<body>No image found with ID {image}</body>")
        reply = TinyCloud.answer(self, method, path, query, seer, body)
        if not path.startswith("/baremetal/") or reply in [lie for _, lie in self.lies]:
            return reply
        parts = path.split("/")[3:]
        if parts == ["conductors"]:
            return Reply(200, {"conductors": self.conductors})
        if parts == ["nodes"] and method == "POST":
            return self._enroll(body)
        if parts == ["nodes"]:
            return Reply(200, self._page(query))
        if parts == ["ports"] and method == "GET":
            return Reply(200, {"ports": [p for p in self.ports if p["node_uuid"] == query["node"][0]]})
        if parts == ["ports"]:
            if body["address"] in [p["address"] for p in self.ports]:
                return Reply(409, {"error_message": "A port with this MAC address already exists."})
            self.ports.append({"extra": {}, **body})
            return Reply(201, body)
        node = self.nodes.get(parts[1])
        if node is None:
            said = {"faultcode": "Client", "faultstring": f"Node {parts[1]} could not be found."}
            return Reply(404, {"error_message": json.dumps(said)})
        if parts[2:] == ["history"]:
            return Reply(200, {"history": self.history[parts[1]]})
        if parts[2:] in (["firmware"], ["bios"]):
            return Reply(200, {parts[2]: self.hardware.get(parts[2], [])})
        if parts[2:] == ["ports"]:
            return Reply(200, {"ports": [p for p in self.ports if p["node_uuid"] == parts[1]]})
        if parts[2:] == ["inventory"]:
            found = self.inspections.get(parts[1])
            return Reply(200, found) if found else Reply(404, {"error_message": NO_INVENTORY})
        if parts[2:] == ["traits"]:
            node["traits"] = body["traits"]
            return Reply(204)
        if parts[2:] == ["states", "provision"]:
            self.provisioned.append(body)
            return self._move(node, body["target"])
        if parts[2:] == ["states", "raid"]:
            if node.get("raid_interface") != "agent":
                said = f"Driver {node['driver']} does not support raid (disabled or not implemented)."
                return Reply(400, {"error_message": said})
            node["target_raid_config"] = body
            return Reply(204)
        if parts[2:] == ["states", "power"]:
            node["power_state"] = "power on"
            return Reply(202)
        if parts[2:] == ["states", "console"]:
            return self._console(node, method, body)
        if parts[2:3] == ["vifs"]:
            return self._vifs(parts[1], method, parts[3:], body)
        if method == "PATCH":
            return self._patch(node, body)
        return Reply(200, dict(node))

    def _console(self, node: dict[str, Any], method: str, body: Any) -> Reply:
        """Takes effect at once. A failure of the conductor is in `last_error`, after the request was accepted."""
        if method == "GET":
            console = {"type": "socat", "url": "tcp://10.0.0.9:8023"} if node["console_enabled"] else None
            return Reply(200, {"console_enabled": console is not None, "console_info": console})
        if node["reservation"]:
            return Reply(409, {"error_message": f"Node {node['uuid']} is locked"})
        node["last_error"] = None
        if self.stuck:
            op = "enabling" if body["enabled"] else "disabling"
            node["last_error"] = f"Error {op} the console on node {node['uuid']}. Reason: no process"
        else:
            node["console_enabled"] = body["enabled"]
        return Reply(202)

    def _vifs(self, node: str, method: str, vif: list[str], body: Any) -> Reply:
        held = self.attached.setdefault(node, [])
        if method == "GET":
            return Reply(200, {"vifs": [{"id": one} for one in held]})
        if method == "POST" and body["id"] in held:
            return Reply(409, {"error_message": f"VIF {body['id']} is already attached"})
        if method == "DELETE":
            held.remove(vif[0])
            self.at.pop(vif[0], None)
            return Reply(204)
        mine = [p["uuid"] for p in self.ports if p["node_uuid"] == node]
        free = [p for p in mine if p not in self.at.values() and p == body.get("port_uuid", p)]
        if mine and not free:
            return Reply(400, {"error_message": f"No free port for VIF {body['id']}"})
        held.append(body["id"])
        self.at |= {body["id"]: free[0]} if free else {}
        return Reply(204)

    @staticmethod
    def _patch(node: dict[str, Any], changes: list[dict[str, Any]]) -> Reply:
        """Change a node; 409 as `conductor.manager.update_node` and a lock answer."""
        paths = {change["path"] for change in changes if change["op"] == "add"}
        if node.get("reservation"):
            return Reply(
                409, {"error_message": f"Node {node['uuid']} is locked by host {node['reservation']}"}
            )
        if "/instance_uuid" in paths and node["instance_uuid"]:
            said = f"Node {node['uuid']} is associated with instance {node['instance_uuid']}."
            return Reply(409, {"error_message": said})
        for change in changes:
            _, name, *key = change["path"].split("/")
            if not key:
                node[name] = change.get("value")
                continue
            node[name] = {k: v for k, v in node[name].items() if k != key[0]}
            if change["op"] == "add":
                node[name][key[0]] = change["value"]
        return Reply(200, dict(node))

    def _enroll(self, body: dict[str, Any]) -> Reply:
        if body["uuid"] in self.nodes:
            return Reply(409, {"error_message": "A node with this UUID already exists."})
        hidden = {k: "******" if "password" in k else v for k, v in body["driver_info"].items()}
        base = {
            "extra": {},
            "maintenance": False,
            "power_state": None,
            "reservation": None,
            "last_error": None,
            "owner": None,
            "lessee": None,
        }
        self.nodes[body["uuid"]] = {**base, **body, "driver_info": hidden, "provision_state": "enroll"}
        return Reply(201, self.nodes[body["uuid"]])

    def _move(self, node: dict[str, Any], verb: str) -> Reply:
        """Move to the provision state at once."""
        if node["reservation"]:
            return Reply(409, {"error_message": f"Node {node['uuid']} is locked"})
        if verb == "inspect":
            self.inspections[node["uuid"]] = self.findings[node["uuid"]]
        if verb == "clean":
            node["raid_config"] = {**node["target_raid_config"], "last_updated": "now"} if self.arrays else {}
            verb = "manage"
        if verb in ("active", "deleted"):
            # as `ironic.common.state_machine` of ironic 39
            failed = ("error", "deploy failed", "rescue failed", "unrescue failed", "service failed")
            waiting = ("wait call-back", "rescue wait", "service wait")
            allowed = {"active": ("available",), "deleted": ("active", "rescue", *failed, *waiting)}[verb]
            if node["provision_state"] not in allowed:
                said = f'The requested action "{verb}" can not be performed on node in state {node["provision_state"]}'
                return Reply(400, {"error_message": said})
            node["provision_state"] = {"active": "deploying", "deleted": "deleting"}[verb]
            if verb == "active":
                self._read_image(node)
            return Reply(202)
        state = {"manage": "manageable", "inspect": "manageable", "provide": "available"}[verb]
        node.update(provision_state=state, power_state="power off")
        return Reply(202)

    def _read_image(self, node: dict[str, Any]) -> None:
        """As `conductor.utils.update_image_type` and `ramdisk._resolve_image_info_from_glance` of ironic 39 do."""
        info = node["instance_info"]
        image = next((row for row in self.things["images"] if row["id"] == info.get("image_source")), None)
        if image is None:
            return
        parts = {name: image[f"{name}_id"] for name in ("kernel", "ramdisk") if image.get(f"{name}_id")}
        if node.get("deploy_interface") == "ramdisk":
            if info.get("boot_iso") or info.get("kernel"):
                return
            iso = image.get("boot_iso_id")
            info.update({"boot_iso": iso} if iso else parts)
            info["original_image_source"] = info.pop("image_source")
        elif not info.get("image_type"):
            kind = image.get("img_type") or ("partition" if parts else "whole-disk")
            info["image_type"] = kind

    def deployed(self, node: str) -> None:
        """End the deployment successfully."""
        self.nodes[node].update(
            provision_state="active", power_state="power on", provision_updated_at="2026-11-22T20:00:01+00:00"
        )
        self.history[node] += deployed()

    def torn_down(self, node: str) -> None:
        """Begin cleaning: Ironic has removed what the instance left on the node."""
        self.nodes[node].update(
            provision_state="cleaning",
            instance_uuid=None,
            instance_info={},
            provision_updated_at="2026-11-22T21:00:01+00:00",
        )
        self.attached[node], self.at = [], {}

    def _page(self, query: dict[str, list[str]]) -> dict[str, Any]:
        """Page as Ironic does: a full page has a next one, which may be empty."""
        state = query.get("provision_state", [None])[0]
        ids = [i for i, node in self.nodes.items() if state in (None, node.get("provision_state"))]
        if query.get("associated") == ["true"]:
            ids = [i for i in ids if self.nodes[i]["instance_uuid"]]
        if key := query.get("sort_key"):
            ids.sort(key=lambda i: self.nodes[i][key[0]], reverse=query["sort_dir"] == ["desc"])
        limit = min(self.max_limit, int(query.get("limit", [self.max_limit])[0]))
        start = ids.index(query["marker"][0]) + 1 if "marker" in query else 0
        shown = ids[start : start + limit]
        page: dict[str, Any] = {"nodes": [self.nodes[i] for i in shown]}
        if len(shown) == limit:
            after = f"limit={limit}&marker={shown[-1]}&detail=True"
            page["next"] = f"http://ironic.internal:6385/v1/nodes?{after}"
        return page
