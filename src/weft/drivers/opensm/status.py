"""The managers of a fabric together: problems that only show when their states are compared. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from weft.model.agentapi import AgentStatus
from weft.model.errors import WeftError
from weft.model.fabric import FabricStatus, ManagerState, ManagerStatus
from weft.model.ids import format_guid


def fabric_status(fabric: str, answers: Mapping[str, AgentStatus | WeftError]) -> FabricStatus:
    """`answers`: agent -> its status, or the error."""
    known = {name: a for name, a in answers.items() if isinstance(a, AgentStatus)}
    tells = next((a for a in known.values() if a.port_errors is not None), None)
    return FabricStatus(
        fabric=fabric,
        managers=tuple(_manager(name, answer) for name, answer in answers.items()),
        problems=(*_masters(known), *_files(known)),
        port_errors=tells.port_errors if tells else None,
        bad_ports=tells.bad_ports if tells else None,
        unread_ports=tells.unread_ports if tells else None,
    )


def _manager(name: str, answer: AgentStatus | WeftError) -> ManagerStatus:
    if isinstance(answer, WeftError):
        return ManagerStatus(name=name, state=ManagerState.UNKNOWN, problems=(str(answer),))
    return ManagerStatus(
        name=name, state=answer.state, problems=answer.every_problem, configuration_digest=answer.digest
    )


def _masters(known: Mapping[str, AgentStatus]) -> list[str]:
    masters = [name for name, a in known.items() if a.state is ManagerState.MASTER]
    ours = {a.port_guid for a in known.values()}
    strangers = {a.master_guid for a in known.values() if a.master_guid is not None} - ours
    problems = [
        f"a subnet manager without an agent manages the fabric: port {format_guid(g)};"
        " stop it, or run an agent next to it and add that to the site"
        for g in sorted(strangers)
    ]
    if len(masters) > 1:
        problems.append(
            f"more than one subnet manager claims to be master: {', '.join(masters)}; is the fabric split?"
        )
    if not masters:
        problems.append("no subnet manager is master: the fabric's state is unknown; start opensm")
    return problems


def _files(known: Mapping[str, AgentStatus]) -> list[str]:
    if len({a.foreign_digest for a in known.values()}) > 1:
        return [
            f"the partition files of {', '.join(known)} differ outside of weft's section: a takeover would change the"
            " fabric; make them equal"
        ]
    if len({a.digest for a in known.values()}) > 1:
        return [
            f"weft's sections of {', '.join(known)} differ: a takeover would change pods; weft repairs it"
        ]
    return []
