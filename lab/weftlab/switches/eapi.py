"""An imitated Arista switch behind eAPI: VLANs and switchports, sessions, commit timers, start-up configuration.

By the eAPI guide: commands are not abbreviated; what ran before a command that fails stays done, except in a session;
an error's `data` has the results until then. By the EOS manual: a trunk allows ALL by default, a port's VLAN
that doesn't exist or is suspended forwards nothing, and a commit on a timer is taken back unless it is confirmed.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

from weftlab.switches.bridge import Vlans
from weftlab.switches.eapiconfig import CommandError, CommandMode, Config, Port, Vlan, apply
from weftlab.switches.eapishow import (
    config_text,
    show_interfaces,
    show_neighbours,
    show_status,
    show_switchports,
    show_vlans,
)
from weftlab.switches.front import PARKING, Answer, Front

MAX_PENDING = 5
"""Sessions that are open at a time, unless `service configuration session max pending` says otherwise."""


class Eapi(Front):
    def __init__(self, *arguments: Any, **named: Any) -> None:
        self._sessions: dict[str, list[tuple[CommandMode, str]]] = {}
        self._pending: tuple[str, Config, float] | None = None
        self._booted = time.time() - 1000
        super().__init__(*arguments, **named)

    def factory(self) -> Config:
        config = Config()
        config.vlans[PARKING] = Vlan("parking", "suspend")
        for name, number in self.plan.by_name().items():
            link = number in self._links
            config.ports[name] = Port("trunk", 1, PARKING, frozenset()) if link else Port(access=PARKING)
        for link in self.plan.members().values():
            config.ports[link] = Port(member=True)
        return config

    def forwarding(self) -> Mapping[int, Vlans]:
        config: Config = self.running
        active = {n for n, v in config.vlans.items() if v.state == "active"}
        found: dict[int, Vlans] = {}
        for name, number in self.plan.by_name().items():
            port = config.ports[name]
            if port.routed or port.mode in ("tap", "tool"):
                found[number] = Vlans()
                continue
            if port.mode in ("access", "dot1q-tunnel"):
                found[number] = Vlans(port.access if port.access in active else None)
                continue
            allowed = port.allowed & active
            native = port.native if port.native in allowed else None
            found[number] = Vlans(native, frozenset(allowed))
        return found

    def forget_sessions(self) -> None:
        self._sessions.clear()
        self._pending = None
        self._booted = time.time()

    def unauthorised(self) -> Answer:
        """401 as EOS answers it."""
        return Answer(401, None, {"WWW-Authenticate": 'Basic realm="COMMAND_API_AUTH"'})

    # -- eAPI ----------------------------------------------------------------------------------------------------

    def answer(self, method: str, path: str, query: Mapping[str, str], body: Any) -> Answer:
        if path != "/command-api" or method != "POST":
            return Answer(404)
        self._expire()
        if not isinstance(body, dict) or body.get("method") != "runCmds":
            return Answer(200, _error(None, -32600, "Invalid request"))
        params, identity = body.get("params", {}), body.get("id")
        text = params.get("format", "json") == "text"
        commands = params.get("cmds", [])
        results: list[Any] = []
        where = CommandMode()
        for number, command in enumerate(commands, 1):
            line = command["cmd"] if isinstance(command, dict) else command
            try:
                if (
                    self.faults.fail_after is not None
                    and where.mode == "config"
                    and number > self.faults.fail_after
                ):
                    self.faults.fail_after = None
                    raise CommandError(1000, "could not run command", "internal error in ConfigAgent")
                results.append(self._run(where, " ".join(line.split()), text))
            except CommandError as error:
                message = f"CLI command {number} of {len(commands)} '{line}' failed: {error.kind}"
                data = [*results, {"errors": [error.said]}]
                return Answer(200, _error(identity, error.code, message, data))
        return Answer(200, {"jsonrpc": "2.0", "id": identity, "result": results})

    def _expire(self) -> None:
        """Take back what was committed on a timer that has run out."""
        if self._pending is not None and time.time() > self._pending[2]:
            self.take(self._pending[1])
            self._pending = None

    def _run(self, where: CommandMode, line: str, text: bool) -> Any:
        if line == "enable":
            where.mode = "enabled" if where.mode == "exec" else where.mode
            return {}
        if line.startswith("show "):
            return self._show(line, text)
        if where.mode == "exec":
            raise CommandError(1002, "invalid command", "Invalid input (privileged mode required)")
        if line in ("copy running-config startup-config", "write memory", "write"):
            if not self.save():
                raise CommandError(1000, "could not run command", "Error copying: No space left on device")
            return {"messages": ["Copy completed successfully."]}
        if match := re.fullmatch(r"configure session (\S+)(?: (commit|abort))?", line):
            return self._session(where, match[1], match[2])
        if line in ("configure", "configure terminal"):
            where.mode, where.session = "config", None
            return {}
        if where.mode != "config":
            raise CommandError(1002, "invalid command", "Invalid input")
        return self._configure(where, line)

    def _session(self, where: CommandMode, name: str, verb: str | None) -> Any:
        pending = self._pending if self._pending and self._pending[0] == name else None
        if verb == "commit" and pending is not None:
            self._pending = None
        elif verb == "abort" and pending is not None:
            self._pending = None
            self.take(pending[1])
        elif verb is not None:
            if name not in self._sessions:
                raise CommandError(1000, "could not run command", f"Session {name} does not exist")
            commands = self._sessions.pop(name)
            if verb == "commit":
                self.take(self._replayed(commands))
        else:
            if name not in self._sessions and len(self._sessions) >= MAX_PENDING:
                said = "Maximum number of pending sessions has been reached. Please commit or abort previous sessions"
                raise CommandError(1000, "could not run command", said)
            self._sessions.setdefault(name, [])
            where.mode, where.session, where.vlan, where.port = "config", name, None, None
        return {}

    def _replayed(self, commands: list[tuple[CommandMode, str]]) -> Config:
        """The running configuration with a session's commands applied: others' commits since its start stay."""
        config = deepcopy(self.running)
        for at, line in commands:
            apply(config, at, line)
        return config

    def _configure(self, where: CommandMode, line: str) -> Any:
        if where.session is not None and (
            match := re.fullmatch(r"commit(?: timer (\d\d):(\d\d):(\d\d))?", line)
        ):
            before = deepcopy(self.running)
            self.take(self._replayed(self._sessions.pop(where.session)))
            if match[1] is not None:
                seconds = int(match[1]) * 3600 + int(match[2]) * 60 + int(match[3])
                self._pending = (where.session, before, time.time() + seconds)
            where.mode, where.session = "enabled", None
            return {}
        if where.session is not None and line == "abort":
            del self._sessions[where.session]
            where.mode, where.session = "enabled", None
            return {}
        if line == "end":
            where.mode, where.vlan, where.port = "enabled", None, None
            return {}
        if line == "exit":
            if where.vlan is None and where.port is None:
                where.mode = "enabled"
            if where.queue is not None:
                where.queue = None
                return {}
            where.vlan = where.port = None
            return {}
        session = where.session
        config = deepcopy(self.running) if session is None else self._replayed(self._sessions[session])
        at = CommandMode("config", session, where.vlan, where.port, where.queue)
        apply(config, where, line)
        if session is None:
            self.take(config)
        else:
            self._sessions[session].append((at, line))
        return {}

    # -- what it shows ---------------------------------------------------------------------------------------------

    def _show(self, line: str, text: bool) -> Any:
        config: Config = self.reading()
        shown: dict[str, Callable[[], Any]] = {
            "show vlan": lambda: show_vlans(config),
            "show interfaces switchport": lambda: show_switchports(config),
            "show interfaces status": lambda: show_status(config, self.plan.members()),
            "show version": self._version,
            "show configuration sessions": lambda: {
                "maxSavedSessions": 1,
                "maxOpenSessions": MAX_PENDING,
                "sessions": {n: {"state": "pending", "instances": {}} for n in self._sessions},
            },
            "show interfaces": lambda: show_interfaces(
                config, self.plan.members(), self.statistics(), self.unplugged, self.disabled
            ),
            "show lldp neighbors detail": lambda: show_neighbours(self.heard),
        }
        if re.fullmatch(r"show (running-config|startup-config)( all)?", line):
            if not text:
                raise CommandError(
                    1003, "unconverted command", "Command cannot be used over the API at this time"
                )
            return {"output": config_text(config if "running" in line else self.saved)}
        if line not in shown:
            raise CommandError(1002, "invalid command", "Invalid input")
        return shown[line]()

    def _version(self) -> dict[str, Any]:
        now = self._old[1] if self._old else time.time()
        return {
            "modelName": "vEOS-lab",
            "version": "4.32.2F",
            "bootupTimestamp": self._booted,
            "uptime": now - self._booted,
        }


def _error(identity: Any, code: int, message: str, data: list[Any] | None = None) -> dict[str, Any]:
    error: dict[str, Any] = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    return {"jsonrpc": "2.0", "id": identity, "error": error}
