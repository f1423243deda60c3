"""Settings of UFM that isolation depends on, from its REST API, and opensm's options, through an agent next
to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import cast

from weft.drivers.ufm.change import UfmChanger
from weft.drivers.ufm.eyes import Eyes
from weft.drivers.ufm.rest import Rest
from weft.drivers.ufm.snapshot import MANAGER
from weft.model.errors import WeftError
from weft.model.livecheck import Weakness
from weft.planning.fabric.hardening import DEFAULT_MEMBERSHIP, NAMES, UFM_RULES, masked, weaknesses


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The options from one source.

    Attributes:
        source: UFM itself, or the agent that reads its subnet manager's file.
        options: setting -> value; for secrets only whether they are set.
        names: settings that this source covers: one without a value has its default.
    """

    source: str
    options: Mapping[str, str]
    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings that were read.

    Attributes:
        sources: never merged: after a failover the node with the weaker file may be the active one.
        problems: what could not be read, one sentence each.
    """

    sources: tuple[SourceOptions, ...]
    problems: tuple[str, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        """Settings that at least one source covers."""
        return frozenset[str]().union(*(t.names for t in self.sources))


def read_settings(rest: Rest, changer: UfmChanger, eyes: Eyes) -> Settings:
    """Read all sources; never raises: what can't be read is a problem to report, not a good setting."""
    problems: list[str] = []
    sources = [*_by_agents(eyes, problems), *_by_ufm(rest, changer, problems)]
    if unread := sorted(NAMES - frozenset[str]().union(*(t.names for t in sources))):
        problems.append(
            f"UFM's REST doesn't show {', '.join(unread)}: check gv.cfg and opensm.conf on UFM's host, or run an agent"
            " there that reads opensm.conf"
        )
    return Settings(tuple(sources), tuple(problems))


def ufm_weaknesses(fabric: str, settings: Settings) -> Iterator[Weakness]:
    """Judge each source separately, by the rules for the settings it covers."""
    for options in settings.sources:
        rules = [r for r in UFM_RULES if r.setting in options.names]
        for weakness in weaknesses(
            fabric, options.source, {n: _word(v) for n, v in options.options.items()}, rules
        ):
            found = options.options.get(weakness.setting) or weakness.found
            yield weakness.model_copy(update={"found": found})


def _word(value: str) -> str:
    """A value of a setting. UFM answers TRUE and FALSE in upper or lower case; agents read opensm's own file as opensm
    does."""
    return value.upper() if value.upper() in ("TRUE", "FALSE") else value


def _by_agents(eyes: Eyes, problems: list[str]) -> Iterator[SourceOptions]:
    for agent, answer in eyes.options().items():
        if isinstance(answer, WeftError):
            problems.append(
                f"the settings of the subnet manager next to agent {agent} can't be read: {answer}"
            )
            continue
        problems += [f"agent {agent}: {p}" for p in answer.problems]
        yield SourceOptions(agent, answer.options, NAMES - {DEFAULT_MEMBERSHIP})


def _by_ufm(rest: Rest, changer: UfmChanger, problems: list[str]) -> Iterator[SourceOptions]:
    options: dict[str, str] = {}
    try:
        options |= _smconf(rest.get("/app/smconf"))
        membership = changer.listing().default_membership
        if membership is not None:
            options[DEFAULT_MEMBERSHIP] = str(membership)
    except WeftError as error:
        problems.append(f"UFM's settings can't be read: {error}")
    yield SourceOptions(MANAGER, options, frozenset(options))


def _smconf(document: object) -> dict[str, str]:
    """The options in an answer of smconf. Secrets are masked here, before they are passed on."""
    given = cast(dict[str, object], document) if isinstance(document, dict) else {}
    return {n: masked(n, str(v).strip()) for n, v in given.items() if n in NAMES and v is not None}
