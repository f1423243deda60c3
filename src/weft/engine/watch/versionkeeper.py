"""Exchanges with other versions of weft on the same database which of them are at work."""

from __future__ import annotations

import logging
import os
import secrets
import socket

from weft.engine.base.database import Database
from weft.engine.base.periodic import Periodic
from weft.engine.base.pulse import Pulse
from weft.model.errors import WeftError

log = logging.getLogger(__name__)

EVERY = 5.0
"""Seconds between turns: how late a process learns that an upgrade was finished, and writes newer documents."""
LIMIT = 30.0
"""Seconds without a turn after which the process isn't ready: also because it is too old for the database."""


class VersionKeeper(Periodic):
    """Records this process, and reads which others work. Args: role: `server` or `worker`."""

    def __init__(
        self, database: Database, role: str, pulse: Pulse | None = None, name: str | None = None
    ) -> None:
        self._database, self._role = database, role
        # Containers on one host may share its name, and each have a process of the same number.
        self._process = name or f"{socket.gethostname()}/{os.getpid()}.{secrets.token_hex(2)}"
        self._newer = False
        super().__init__("versions", self._turn_, pulse, LIMIT, first=0.0, again=EVERY)

    def stop(self, timeout: float = 5.0) -> None:
        """End the thread, and remove the process from those at work."""
        super().stop(timeout)
        try:
            self._database.sign_off(self._process)
        except WeftError as error:
            log.warning("%s counts as at work for a while: %s", self._process, error)

    def _turn_(self) -> float:
        found = self._database.learn_versions(self._process, self._role)
        if found.newer_weft and not self._newer:
            log.warning("a newer weft works with this database: what only that can read is left to it")
        self._newer = found.newer_weft
        return EVERY
