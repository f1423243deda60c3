"""Port: which servers have booted, and what tenants have done with theirs, beyond what weft does by itself."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from weft.model.views import ConsoleView
from weft.ports.fences import Fence


class Action(StrEnum):
    """What may be requested for a server."""

    REBOOT = "reboot"
    RESET = "reset"
    """Power off and on, without asking the operating system."""
    RESCUE = "rescue"
    """Boot a rescue system, from which the server's own disk can be repaired."""
    UNRESCUE = "unrescue"


class ServerActions(Protocol):
    """Raises `ConflictError` if the cloud refuses it for the server as it is, `TemporaryError` without an answer.

    `fence` is called right before each request that changes something, and raises what keeps it from being made.
    """

    def act(self, project_id: str, server: str, action: Action, fence: Fence) -> str | None:
        """Ask for it; an answer says that it was accepted. Returns the rescue system's password, if there is one."""
        ...

    def console(self, project_id: str, server: str, serial: bool, fence: Fence) -> ConsoleView:
        """A console's URL, which is valid for minutes, for any holder.

        Args:
            serial: the serial console, which bare-metal machines have; else the graphical one.
        """
        ...

    def servers_named(self, project_id: str, names: Collection[str]) -> frozenset[str]:
        """The names among these, in lower case, that servers of the project already have.

        Raises `UnknownError`, or `PermanentError` without permission.
        """
        ...

    def built(self, since: datetime, awaited: Callable[[], Collection[str]]) -> Collection[str]:
        """Ids of weft's servers, of all projects, that changed since then and aren't being built any more.

        They run, failed or are gone. This is only a hint to observe them, and may be missing. One request for all.

        Args:
            awaited: returns the ids of servers being built, for a service that can't report what changed.

        Raises `UnknownError`.
        """
        ...
