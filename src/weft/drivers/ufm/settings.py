"""UFM's settings that isolation depends on, from its REST API and, through an agent next to it, opensm's options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from weft.drivers.ufm.change import Changer
from weft.drivers.ufm.eyes import Eyes
from weft.drivers.ufm.rest import Rest
from weft.model.errors import WeftError
from weft.planning.fabric.hardening import DEFAULT_MEMBERSHIP, NAMES, masked


@dataclass(frozen=True, slots=True)
class Settings:
    """What was read.

    Attributes:
        options: setting -> value; of secrets only whether they are set.
        names: settings that could be read: one of these without a value has its default.
        problems: what could not be read, a sentence each.
    """

    options: Mapping[str, str]
    names: frozenset[str]
    problems: tuple[str, ...] = ()


def read_settings(rest: Rest, changer: Changer, eyes: Eyes) -> Settings:
    """Never raises for what can't be read: that is a problem to report, not a setting that is fine."""
    options: dict[str, str] = {}
    names: set[str] = set()
    problems: list[str] = []
    for agent, answer in eyes.options().items():
        if isinstance(answer, WeftError):
            problems.append(
                f"the settings of the subnet manager next to agent {agent} can't be read: {answer}"
            )
            continue
        options |= answer.options
        names |= NAMES - {DEFAULT_MEMBERSHIP}
        problems += answer.problems
    try:
        told = _smconf(rest.get("/app/smconf"))
        options |= told
        names |= told.keys()
        membership = changer.listing().default_membership
        if membership is not None:
            options[DEFAULT_MEMBERSHIP] = str(membership)
            names.add(DEFAULT_MEMBERSHIP)
    except WeftError as error:
        problems.append(f"UFM's settings can't be read: {error}")
    if unread := sorted(NAMES - names):
        problems.append(
            f"UFM's REST doesn't tell {', '.join(unread)}: check gv.cfg and opensm.conf on UFM's host, or run an agent"
            " there that reads opensm.conf"
        )
    return Settings(options, frozenset(names), tuple(problems))


def _smconf(document: object) -> dict[str, str]:
    """Secrets are masked before anything else sees them."""
    given = cast(dict[str, object], document) if isinstance(document, dict) else {}
    return {n: masked(n, str(v).strip()) for n, v in given.items() if n in NAMES and v is not None}
