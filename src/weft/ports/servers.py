"""Port: which servers have booted, and actions on servers that tenants request."""

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
    """Actions on servers, and what is known of those being built. Methods that act raise `ConflictError` if the cloud
    refuses it in the server's present state, and `TemporaryError` without an answer.

    `fence` is called right before each request that changes something, and raises what keeps it from being made.
    """

    def act(self, project_id: str, server: str, action: Action, fence: Fence) -> str | None:
        """Request an action. Returning means that it was accepted, not that it is done. Returns the rescue system's
        password, if there is one."""
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

        They run, have failed or are gone. This is only a hint to observe them; ids may be missing. One request for all.

        Args:
            awaited: returns the ids of servers being built, for a service that can't report what changed.

        Raises `UnknownError`.
        """
        ...
