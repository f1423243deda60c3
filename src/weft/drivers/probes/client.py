"""A probe agent, queried over mutual TLS."""

from __future__ import annotations

from typing import Protocol, TypeVar

from weft.drivers.wire.agents import AgentClient
from weft.model.errors import PermanentError, UnknownError
from weft.model.probeapi import ProbeStatus, RoundQuery, RoundResult

MORE_SECONDS = 10.0
"""Time that an agent may take in addition to the round itself."""


A = TypeVar("A", ProbeStatus, RoundResult)


class RemoteProbeAgent(Protocol):
    """A probe agent. Its calls may raise `UnknownError` or `PermanentError`."""

    @property
    def name(self) -> str:
        """Its name in the site."""
        ...

    def round(self, query: RoundQuery) -> RoundResult:
        """Send and listen on its ends at the given time; takes as long as the round."""
        ...

    def status(self) -> ProbeStatus:
        """The agent's version, clock and adapters."""
        ...


class HttpProbeAgent(AgentClient):
    """A `weft probe-agent`."""

    sort = "probe agent"

    def status(self) -> ProbeStatus:
        return self._named(self._ask("GET", "status", None, ProbeStatus, MORE_SECONDS))

    def round(self, query: RoundQuery) -> RoundResult:
        """Run a round and return its result. Raises `UnknownError` without an answer, or for one of other
        adapters."""
        result = self._named(self._ask("POST", "round", query, RoundResult, query.seconds + MORE_SECONDS))
        if [e.adapter for e in result.ends] != [e.adapter for e in query.ends]:
            raise UnknownError("POST round", self._who, "an answer about other adapters", "upgrade the agent")
        return result

    def _named(self, answer: A) -> A:
        if answer.name != self.name:
            raise PermanentError(
                "ask for its name",
                self._who,
                f"it is agent {answer.name!r}",
                "correct the agent's url in the site",
            )
        return answer
