"""Logins to the lab's guests, from a pod's management network; other sites have none."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any, Protocol

from weftacceptance.cloud import Json, LostError


class Logins(Protocol):
    """Logins to servers of pods."""

    @property
    def public_key(self) -> str:
        """The public key, for a key pair."""
        ...

    @property
    def key_file(self) -> Path:
        """The private key."""
        ...

    @property
    def within(self) -> tuple[str, ...]:
        """Command prefix that reaches the servers of the pod that was entered last."""
        ...

    def enter(self, pod: Json, cidr: str) -> None:
        """Enters a pod's management network, until another one is entered. Raises `LostError`.

        Args:
            pod: as weft shows it.
            cidr: of its management subnet.
        """
        ...

    def run(self, pod: Json, cidr: str, address: str, command: str) -> str:
        """A command's output on a pod's server.

        Raises `LostError` if no login is accepted in time, or the command fails.
        """
        ...


class LabLogins:
    """Logins to a lab's guests, to be closed: that removes the key. Args: state: folder of the lab."""

    def __init__(self, state: Path) -> None:
        from weftlab.hypervisor.bridges import DOOR
        from weftlab.hypervisor.login import SshClient, make_key
        from weftlab.layout import Layout
        from weftlab.switches.labsite import lab_ovs

        self._folder = tempfile.TemporaryDirectory(prefix="weft-acceptance-key-")
        self.key_file = make_key(Path(self._folder.name))
        ovs = lab_ovs(Layout(state, state, 0))
        self.within = ("nsenter", f"--net={ovs.space(DOOR)}")
        self._client: Any = SshClient(ovs, self.key_file)
        self._inside, self._where = ExitStack(), ("", "")

    @property
    def public_key(self) -> str:
        return self.key_file.with_suffix(".pub").read_text().strip()

    def enter(self, pod: Json, cidr: str) -> None:
        from weftlab.hypervisor.login import Guests
        from weftlab.layout import LabError

        where = (str(pod["vlan"]), cidr)
        if where == self._where:
            return
        self._where = ("", "")
        try:
            self._inside.close()
            self._inside.enter_context(self._client.into(Guests(int(pod["vlan"]), IPv4Network(cidr), {})))
        except (LabError, OSError) as error:
            raise LostError(str(error)) from error
        self._where = where

    def run(self, pod: Json, cidr: str, address: str, command: str) -> str:
        from weftlab.layout import LabError

        self.enter(pod, cidr)
        try:
            return self._client.awaited(address, command, 150)
        except (LabError, OSError) as error:
            raise LostError(str(error)) from error

    def close(self) -> None:
        self._inside.close()
        self._folder.cleanup()


@contextmanager
def lab_logins(state: Path) -> Generator[LabLogins | None]:
    """Logins to the lab's servers for the block; None if they aren't booted."""
    file = state / "lab.json"
    if not file.exists() or not json.loads(file.read_text()).get("guests"):
        yield None
        return
    logins = LabLogins(state)
    try:
        yield logins
    finally:
        logins.close()
