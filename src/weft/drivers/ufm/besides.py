"""What the agents next to UFM report of themselves and of the OpenSM that UFM runs there. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from weft.model.agentapi import AgentStatus
from weft.model.errors import WeftError
from weft.model.fabric import PortErrors


@dataclass(frozen=True, slots=True)
class Besides:
    """Attributes:
    problems: each with the agent's name.
    port_errors, bad_ports, unread_ports: see `FabricStatus`.
    """

    problems: tuple[str, ...]
    port_errors: tuple[PortErrors, ...] | None
    bad_ports: int | None
    unread_ports: int | None


def besides(answers: Mapping[str, AgentStatus | WeftError]) -> Besides:
    """What an operator should know in addition to UFM's own status."""
    known = {name: a for name, a in answers.items() if isinstance(a, AgentStatus)}
    problems: list[str] = []
    for name, answer in answers.items():
        said = _problems(answer) if isinstance(answer, AgentStatus) else [str(answer)]
        problems += [f"agent {name}: {p}" for p in said]
    if known and not any(status.process for status in known.values()):
        problems.append(
            "no agent sees the OpenSM that UFM runs, so its state is unknown: check the agents' pid_file"
        )
    tells = next((a for a in known.values() if a.port_errors is not None), None)
    if tells is None:
        return Besides(tuple(problems), None, None, None)
    return Besides(tuple(problems), tells.port_errors, tells.bad_ports, tells.unread_ports)


def _problems(status: AgentStatus) -> tuple[str, ...]:
    """Problems of one agent. UFM starts OpenSM only on its active node, and writes the partition file, with
    itself as SELF, so requirements of a takeover are left to UFM.
    """
    return status.own_problems if status.process is None else (*status.problems, *status.own_problems)
