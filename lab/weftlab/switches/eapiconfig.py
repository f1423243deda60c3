"""The configuration of an imitated Arista switch, and the commands that change it.

By the EOS manual: a trunk allows ALL by default.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from weft.drivers.switches.vlans import EVERY, from_ranges
from weftlab.switches.eapiqos import PortQos, apply_qos


@dataclass
class Port:
    mode: str = "access"
    access: int = 1
    native: int = 1
    allowed: frozenset[int] = EVERY
    member: bool = False  # of an aggregation: what is set on that counts
    routed: bool = False
    qos: PortQos = field(default_factory=PortQos)


@dataclass
class Vlan:
    name: str
    state: str = "active"


@dataclass
class Config:
    vlans: dict[int, Vlan] = field(default_factory=lambda: {1: Vlan("default")})
    ports: dict[str, Port] = field(default_factory=dict[str, Port])
    dscp: dict[int, int] = field(default_factory=dict[int, int])  # as `qos map dscp` has changed it


class CommandError(Exception):
    """A command that isn't taken. Args: code: of eAPI; `said`: the switch's words."""

    def __init__(self, code: int, kind: str, said: str) -> None:
        super().__init__(said)
        self.code, self.kind, self.said = code, kind, said


@dataclass
class CommandMode:
    """Mode of the command line: `exec`, `enabled`, `config`; inside of config a VLAN or an interface."""

    mode: str = "exec"
    session: str | None = None
    vlan: int | None = None
    port: str | None = None
    queue: int | None = None


def apply(config: Config, at: CommandMode, line: str) -> None:
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
        at.vlan, at.port, at.queue = None, match[1], None
    elif match := re.fullmatch(r"qos map dscp (\d+) to traffic-class (\d)", line):
        config.dscp[int(match[1])] = int(match[2])
    elif at.vlan is not None:
        _apply_vlan(config.vlans[at.vlan], line)
    elif at.port is not None and not apply_qos(config.ports[at.port].qos, at, line):
        _apply_port(config.ports[at.port], line)
    elif at.port is not None:
        pass
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
    if match := re.fullmatch(r"switchport mode (access|trunk|dot1q-tunnel|tap|tool)", line):
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
    elif line in ("switchport", "no switchport"):
        port.routed = line != "switchport"
    elif line != "no shutdown":
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
