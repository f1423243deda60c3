"""An imitated Arista switch behind eAPI: VLANs and switchports, sessions, commit timers, start-up configuration.

By the eAPI guide: commands are not abbreviated; what ran before a command that fails stays done, except in a session;
an error's `data` has the results until then. By the EOS manual: a trunk allows ALL until told otherwise, a port's VLAN
that doesn't exist or is suspended forwards nothing, and a commit on a timer is taken back unless it is confirmed.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from weft.drivers.switches.vlans import EVERY, from_ranges, ranges
from weftlab.switches.bridge import Vlans
from weftlab.switches.front import PARKING, Answer, Front


@dataclass
class Port:
    mode: str = "access"
    access: int = 1
    native: int = 1
    allowed: frozenset[int] = EVERY


@dataclass
class Vlan:
    name: str
    state: str = "active"


@dataclass
class Config:
    vlans: dict[int, Vlan] = field(default_factory=lambda: {1: Vlan("default")})
    ports: dict[str, Port] = field(default_factory=dict[str, Port])


class CommandError(Exception):
    """A command that isn't taken. Args: code: of eAPI; `said`: the switch's words."""

    def __init__(self, code: int, kind: str, said: str) -> None:
        super().__init__(said)
        self.code, self.kind, self.said = code, kind, said


@dataclass
class Where:
    """Mode of the command line: `exec`, `enabled`, `config`; inside of config a VLAN or an interface."""

    mode: str = "exec"
    session: str | None = None
    vlan: int | None = None
    port: str | None = None


class Eapi(Front):
    def __init__(self, *arguments: Any, **named: Any) -> None:
        self._sessions: dict[str, list[tuple[Where, str]]] = {}
        self._pending: tuple[str, Config, float] | None = None
        self._booted = time.time() - 1000
        super().__init__(*arguments, **named)

    def factory(self) -> Config:
        config = Config()
        config.vlans[PARKING] = Vlan("parking", "suspend")
        for name, number in self.plan.by_name().items():
            link = number in self._links
            config.ports[name] = Port("trunk", 1, PARKING, frozenset()) if link else Port(access=PARKING)
        return config

    def forwarding(self) -> Mapping[int, Vlans]:
        config: Config = self.running
        active = {n for n, v in config.vlans.items() if v.state == "active"}
        found: dict[int, Vlans] = {}
        for name, number in self.plan.by_name().items():
            port = config.ports[name]
            if port.mode == "access":
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
        where = Where()
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

    def _run(self, where: Where, line: str, text: bool) -> Any:
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

    def _session(self, where: Where, name: str, verb: str | None) -> Any:
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
            self._sessions.setdefault(name, [])
            where.mode, where.session, where.vlan, where.port = "config", name, None, None
        return {}

    def _replayed(self, commands: list[tuple[Where, str]]) -> Config:
        """A session is what was changed: others' commits since then stay."""
        config = deepcopy(self.running)
        for at, line in commands:
            _apply(config, at, line)
        return config

    def _configure(self, where: Where, line: str) -> Any:
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
            where.vlan = where.port = None
            return {}
        session = where.session
        config = deepcopy(self.running) if session is None else self._replayed(self._sessions[session])
        at = Where("config", session, where.vlan, where.port)
        _apply(config, where, line)
        if session is None:
            self.take(config)
        else:
            self._sessions[session].append((at, line))
        return {}

    # -- what it shows ---------------------------------------------------------------------------------------------

    def _show(self, line: str, text: bool) -> Any:
        config: Config = self.reading()
        shown: dict[str, Callable[[], Any]] = {
            "show vlan": lambda: _vlans(config),
            "show interfaces switchport": lambda: _switchports(config),
            "show version": self._version,
        }
        if re.fullmatch(r"show (running-config|startup-config)( all)?", line):
            if not text:
                raise CommandError(
                    1003, "unconverted command", "Command cannot be used over the API at this time"
                )
            return {"output": _text(config if "running" in line else self.saved)}
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


def _apply(config: Config, at: Where, line: str) -> None:
    """One command of configuration. Raises `CommandError`; moves `at` into the VLAN or the interface that it names."""
    if match := re.fullmatch(r"(no |default )?vlan (\d+)", line):
        number = _number(match[2])
        if match[1]:
            if number == 1:
                raise CommandError(1000, "could not run command", "Cannot delete the default VLAN")
            config.vlans.pop(number, None)
        else:
            config.vlans.setdefault(number, Vlan(f"VLAN{number:04d}"))
            at.vlan, at.port = number, None
    elif match := re.fullmatch(r"interface (\S+)", line):
        if match[1] not in config.ports:
            raise CommandError(1002, "invalid command", "Invalid input (at token 1)")
        at.vlan, at.port = None, match[1]
    elif at.vlan is not None:
        _apply_vlan(config.vlans[at.vlan], line)
    elif at.port is not None:
        _apply_port(config.ports[at.port], line)
    else:
        raise CommandError(1002, "invalid command", "Invalid input")


def _apply_vlan(vlan: Vlan, line: str) -> None:
    if match := re.fullmatch(r"name (\S{1,32})", line):
        vlan.name = match[1]
    elif match := re.fullmatch(r"state (active|suspend)", line):
        vlan.state = match[1]
    else:
        raise CommandError(1002, "invalid command", "Invalid input")


def _apply_port(port: Port, line: str) -> None:
    if match := re.fullmatch(r"switchport mode (access|trunk)", line):
        port.mode = match[1]
    elif match := re.fullmatch(r"switchport access vlan (\d+)", line):
        port.access = _number(match[1])
    elif line in ("no switchport access vlan", "default switchport access vlan"):
        port.access = 1
    elif match := re.fullmatch(r"switchport trunk native vlan (\d+)", line):
        port.native = _number(match[1])
    elif match := re.fullmatch(
        r"switchport trunk allowed vlan (?:(add|remove|except) )?([\d,-]+|all|none)", line
    ):
        port.allowed = _allowed(port.allowed, match[1], match[2])
    elif line not in ("switchport", "no shutdown"):
        raise CommandError(1002, "invalid command", "Invalid input")


def _allowed(now: frozenset[int], verb: str | None, text: str) -> frozenset[int]:
    if text in ("all", "none"):
        return EVERY if text == "all" else frozenset()
    try:
        given = from_ranges(text)
    except ValueError:
        raise CommandError(1002, "invalid command", "Invalid input") from None
    return {"add": now | given, "remove": now - given, "except": EVERY - given}.get(verb or "", given)


def _number(text: str) -> int:
    if not 1 <= int(text) <= 4094:
        raise CommandError(1002, "invalid command", "Invalid input")
    return int(text)


def _list(allowed: frozenset[int]) -> str:
    return "ALL" if allowed == EVERY else ranges(allowed) or "NONE"


def _vlans(config: Config) -> dict[str, Any]:
    rows = {
        str(n): {
            "name": v.name,
            "dynamic": False,
            "status": "active" if v.state == "active" else "suspended",
            "interfaces": {p: {"privatePromoted": False} for p, c in config.ports.items() if n == c.access},
        }
        for n, v in sorted(config.vlans.items())
    }
    return {"sourceDetail": "", "vlans": rows}


def _switchports(config: Config) -> dict[str, Any]:
    def info(port: Port) -> dict[str, Any]:
        return {
            "mode": port.mode,
            "accessVlanId": port.access,
            "trunkingNativeVlanId": port.native,
            "trunkAllowedVlans": _list(port.allowed),
            "macLearning": True,
            "tpid": "0x8100",
        }

    return {"switchports": {n: {"enabled": True, "switchportInfo": info(p)} for n, p in config.ports.items()}}


def _text(config: Config) -> str:
    """The configuration with its defaults, as `show running-config all` writes it."""
    lines = ["! device: lab (vEOS-lab, EOS-4.32.2F)", "!"]
    for number, vlan in sorted(config.vlans.items()):
        lines += [f"vlan {number}", f"   name {vlan.name}", f"   state {vlan.state}", "!"]
    for name, port in config.ports.items():
        lines += [f"interface {name}", f"   switchport access vlan {port.access}"]
        lines += [f"   switchport trunk native vlan {port.native}"]
        listed = "1-4094" if port.allowed == EVERY else ranges(port.allowed) or "none"
        lines += [f"   switchport trunk allowed vlan {listed}", f"   switchport mode {port.mode}"]
        lines += ["   switchport", "!"]
    return "\n".join([*lines, "end", ""])


def _error(identity: Any, code: int, message: str, data: list[Any] | None = None) -> dict[str, Any]:
    error: dict[str, Any] = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    return {"jsonrpc": "2.0", "id": identity, "error": error}
