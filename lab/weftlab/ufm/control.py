"""The control of a running stand-in: JSON over HTTP on loopback.

GET    /pkeys        P_Key -> GUIDs of its members, of 16 hex digits
GET    /status       which one is active, how many requests and changes REST had, which faults are planted
POST   /faults       plant some (a JSON object, see `faults.Faults`); DELETE lifts all
POST   /pkeys        a foreign change: {"pkey": "0x5", "guids": {GUID: "full"}}, no guids: it is deleted
POST   /virtual      virtual ports from now on: [{"guid", "physical", "state"}], GUIDs of 16 hex digits
POST   /alarms       {"object", "severity", "text"}
POST   /replication  stop replicating: what is changed from now on is lost by the next fail-over
POST   /failover     the standby takes over
POST   /stop, /start UFM alone; OpenSM keeps running
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

import httpx

from weftlab.layout import LabError
from weftlab.ufm.inventory import VirtualPort
from weftlab.ufm.pkeys import guid, number
from weftlab.ufm.server import Cluster
from weftlab.ufm.state import Member, Pkey, State


def foreign(pkey: str, guids: dict[str, str] | None) -> Any:
    """A foreign change of a P_Key, past REST's checks."""
    key = number(pkey)

    def change(state: State) -> None:
        if guids is None:
            state.pkeys.pop(key, None)
            return
        made = state.pkeys.setdefault(key, Pkey(f"api_pkey_0x{key:x}"))
        made.guids = {guid(g): Member(m) for g, m in guids.items()}

    return change


class Control(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, port: int, cluster: Cluster) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.cluster = cluster

    def act(self, method: str, path: str, body: Any) -> object:
        """Carry out a request of the control. Raises ValueError, KeyError or TypeError if that isn't possible."""
        cluster, ufm = self.cluster, self.cluster.ufm
        match method, path:
            case "POST", "/faults":
                ufm.plant(body)
            case "DELETE", "/faults":
                ufm.faults.lift()
                ufm.plant({})
            case "POST", "/pkeys":
                ufm.set_pkeys(foreign(body["pkey"], body.get("guids")))
            case "GET", "/pkeys":
                return {f"{key:#x}": sorted(map(guid, made.guids)) for key, made in ufm.pkeys.items()}
            case "POST", "/virtual":
                ufm.inventory.virtual = [VirtualPort(**row) for row in body]
            case "POST", "/alarms":
                ufm.health.alarms.append((body["object"], body["severity"], body["text"]))
            case "POST", "/replication":
                ufm.stop_replication()
            case "POST", "/failover":
                cluster.failover()
            case "POST", "/stop":
                cluster.stop()
            case "POST", "/start":
                cluster.start()
            case "GET", "/status":
                pass
            case _:
                raise ValueError(f"there is no {method} {path}")
        faults = {k: list(v) if isinstance(v, deque | tuple) else v for k, v in vars(ufm.faults).items()}
        changes = sum(1 for method, path in ufm.calls if method != "GET" and "/resources/" in path)
        return {"active": cluster.active, "calls": len(ufm.calls), "changes": changes, "faults": faults}


class _Handler(BaseHTTPRequestHandler):
    timeout = 30.0

    def _handle(self) -> None:
        length = self.headers.get("Content-Length") or "0"
        try:
            body = json.loads(self.rfile.read(min(int(length), 1 << 20)) or b"{}")
            status, said = 200, cast(Control, self.server).act(self.command, self.path, body)
        except (ValueError, KeyError, TypeError) as error:
            status, said = 400, {"error": str(error)}
        raw = json.dumps(said).encode()
        self.send_response_only(status)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    do_GET = do_POST = do_DELETE = _handle  # noqa: N815 (the base class's names)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name in the base class
        """Nothing: rules are for tests, who see what they did."""


class UfmControl:
    """Client of the control, for other processes."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}"

    def status(self) -> dict[str, Any]:
        return self._do("GET", "/status")

    def plant(self, **faults: Any) -> None:
        """Set faults by the names of `weftlab.ufm.faults.Faults`."""
        self._do("POST", "/faults", faults)

    def lift(self) -> None:
        """End all faults."""
        self._do("DELETE", "/faults")

    def members(self, pkey: str) -> set[str]:
        """GUIDs of a P_Key's members."""
        return set(self._do("GET", "/pkeys").get(f"{int(pkey, 16):#x}", ()))

    def foreign(self, pkey: str, guids: dict[str, str] | None) -> None:
        """Write a P_Key as someone else would; None removes it."""
        self._do("POST", "/pkeys", {"pkey": pkey, "guids": guids})

    def virtual(self, ports: Sequence[VirtualPort]) -> None:
        """Replace what UFM has discovered of virtual ports."""
        self._do("POST", "/virtual", [asdict(p) for p in ports])

    def do(self, what: str) -> None:
        """`replication`, `failover`, `stop` or `start`."""
        self._do("POST", f"/{what}")

    def _do(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        """Send a request to the control; its answer. Raises `LabError`."""
        try:
            answer = httpx.request(
                method, self._url + path, json={} if body is None else body, timeout=30, trust_env=False
            )
            said = answer.json()
        except (httpx.HTTPError, ValueError) as error:
            raise LabError(f"the stand-in for UFM at {self._url} can't be asked: {error}") from error
        if answer.status_code != 200:
            raise LabError(f"the stand-in for UFM refuses {method} {path}: {said.get('error')}")
        return said
