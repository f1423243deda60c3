"""A stand-in for Ironic's agent, since the real one erases the disks of the machine that it runs on.

Sources: ironic 39, `api.controllers.v1.ramdisk` and `drivers.modules.agent_client`; ironic-python-agent 11,
`api.app`, `extensions.base` (commands that are waited for, and those that run on), `extensions` (`clean`, `deploy`,
`standby`).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import requests

HEADERS = {"X-OpenStack-Ironic-API-Version": "1.78"}
VERSION = "11.0.0"


class Agent:
    """One boot of an agent on a machine.

    Attributes:
        commands: commands from Ironic; the last one runs until `finish`.
        partitions: what it reports about the partitions that it created.
    """

    def __init__(self, ironic: str, node: str, url: str, steps: Sequence[dict[str, Any]]) -> None:
        self._ironic, self._node, self._url, self._steps = ironic, node, url, list(steps)
        self.commands: list[dict[str, Any]] = []
        self.partitions: dict[str, str] = {}
        answer = requests.get(f"{ironic}/v1/lookup", params={"node_uuid": node}, headers=HEADERS, timeout=60)
        assert answer.ok, answer.text
        self.token = answer.json()["config"]["agent_token"]

    def heartbeat(self) -> None:
        """Ironic ignores a heartbeat while it works on the node, and refuses the token once it is done with the
        agent.
        """
        body = {"callback_url": self._url, "agent_version": VERSION, "agent_token": self.token}
        answer = requests.post(
            f"{self._ironic}/v1/heartbeat/{self._node}", json=body, headers=HEADERS, timeout=60
        )
        assert answer.status_code < 500, answer.text

    @property
    def runs(self) -> str:
        """The step that is running, or ""."""
        last = self.commands[-1] if self.commands else {}
        going = last.get("command_status") == "RUNNING"
        return str(last["command_params"]["step"]["step"]) if going else ""

    def finish(self, error: str = "", result: object = None) -> None:
        """End the running step.

        Args:
            error: message of a failed step.
            result: what the step reports.
        """
        last = self.commands[-1]
        if error:
            last |= {"command_status": "FAILED", "command_error": {"type": "CleaningError", "message": error}}
            return
        kind = last["command_name"].split("_")[1]
        done = {f"{kind}_step": last["command_params"]["step"], f"{kind}_result": result}
        last |= {"command_status": "SUCCEEDED", "command_result": done}

    def take(self, name: str, params: dict[str, Any]) -> dict[str, Any]:
        command: dict[str, Any] = {
            "id": str(len(self.commands)),
            "command_name": name.partition(".")[2],
            "command_params": params,
            "command_status": "SUCCEEDED",
            "command_error": None,
            "command_result": None,
        }
        if name in ("clean.get_clean_steps", "deploy.get_deploy_steps"):
            result = {"GenericHardwareManager": self._steps}
            version = {"generic_hardware_manager": "1.2"}
            kind = name.partition(".")[0]
            command["command_result"] = {f"{kind}_steps": result, "hardware_manager_version": version}
        elif name in ("clean.execute_clean_step", "deploy.execute_deploy_step"):
            command["command_status"] = "RUNNING"
        elif name == "standby.get_partition_uuids":
            command["command_result"] = self.partitions
        self.commands.append(command)
        return command


class Stand:
    """The address at which a machine's agents are reached, one after the other."""

    def __init__(self, ironic: str, node: str, url: str) -> None:
        self._ironic, self._node, self._url = ironic, node, url
        self.agent: Agent | None = None

    def boot(self, *steps: dict[str, Any]) -> Agent:
        self.agent = Agent(self._ironic, self._node, self._url, steps)
        return self.agent


@contextmanager
def agent_stand(ironic: str, node: str) -> Iterator[Stand]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            agent = self._agent()
            self._reply(200, {"commands": agent.commands} if agent else _REFUSED)

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            agent = self._agent()
            self._reply(200, agent.take(body["name"], body["params"]) if agent else _REFUSED)

        def _agent(self) -> Agent | None:
            given = parse_qs(urlsplit(self.path).query).get("agent_token")
            return stand.agent if stand.agent and given == [stand.agent.token] else None

        def _reply(self, code: int, body: dict[str, Any]) -> None:
            text = json.dumps(body).encode()
            self.send_response(401 if body is _REFUSED else code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    stand = Stand(ironic, node, f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield stand
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


_REFUSED = {"faultcode": "Client", "faultstring": "Token invalid."}
