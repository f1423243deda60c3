"""Authenticates callers, and finds their allocations."""

from __future__ import annotations

from typing import Any

from openvipu.controller.core import Core
from openvipu.controller.waiting import WaitLimit
from openvipu.model.errors import Forbidden
from openvipu.rpc import ACCESS_KEY_HEADER, USER_HEADER, metadata_of
from openvipu.rules import users
from openvipu.rules.admission import Visible


class Gate:
    """Authentication of one port: user or admin."""

    def __init__(self, core: Core, admin: bool) -> None:
        self._core = core
        self._admin = admin

    def visible(self, context: Any) -> Visible:
        """The caller's allocations; None for callers that may see everything.

        Without ``--secure`` there is no authentication [admin guide]. With it the user port is for
        every user, the admin port for administrators only.
        """
        state = self._core.state
        if not state.settings.secure:
            return None
        metadata = metadata_of(context)
        user = users.authenticate(state, metadata.get(USER_HEADER, ""), metadata.get(ACCESS_KEY_HEADER, ""))
        if user.admin:
            return None
        if self._admin:
            raise Forbidden(f"user {user.id!r} is no administrator")
        return user.allocation_ids

    def patience(self, context: Any) -> WaitLimit:
        """Caller and longest wait, for limits. The caller is the user; without users, or for an unknown name, the host.

        The wait ends at the client's deadline, or after our limit.
        """
        limit = self._core.tuning.queue_timeout
        remaining = context.time_remaining()
        seconds = limit if remaining is None else max(0.0, min(limit, remaining))
        if self._core.state.settings.secure:
            return WaitLimit(metadata_of(context).get(USER_HEADER, ""), seconds)
        return WaitLimit(context.peer().rpartition(":")[0], seconds)
