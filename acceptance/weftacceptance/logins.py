"""Logins to the lab's guests, from inside a pod's management network; on other sites there are none."""

from __future__ import annotations

import json
import tempfile
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any, Protocol

from weftacceptance.cloud import Json, LostError


class Logins(Protocol):
    """How to log in to servers of pods."""

    @property
    def public_key(self) -> str:
        """For a key pair."""
        ...

    @property
    def key_file(self) -> Path:
        """The private key."""
        ...

    def run(self, pod: Json, cidr: str, address: str, command: str) -> str:
        """A command's output on a pod's server.

        Args:
            pod: as weft shows it.
            cidr: of its management subnet.

        Raises `LostError` if no login is accepted in time, or the command fails.
        """
        ...


class LabLogins:
    """Args: state: folder of a lab with guests. Use as a context: the key is removed at the end."""

    def __init__(self, state: Path) -> None:
        from weftlab.hypervisor.login import SshClient, make_key
        from weftlab.layout import Layout
        from weftlab.switches.labsite import lab_ovs

        self._folder = tempfile.TemporaryDirectory(prefix="weft-acceptance-key-")
        self.key_file = make_key(Path(self._folder.name))
        self._client: Any = SshClient(lab_ovs(Layout(state, state, 0)), self.key_file)

    @property
    def public_key(self) -> str:
        return self.key_file.with_suffix(".pub").read_text().strip()

    def run(self, pod: Json, cidr: str, address: str, command: str) -> str:
        from weftlab.hypervisor.login import Guests
        from weftlab.layout import LabError

        try:
            with self._client.into(Guests(int(pod["vlan"]), IPv4Network(cidr), {})):
                return self._client.awaited(address, command, 150)
        except (LabError, OSError) as error:
            raise LostError(str(error)) from error

    def close(self) -> None:
        self._folder.cleanup()


def lab_logins(state: Path) -> LabLogins | None:
    """None: the lab's servers aren't booted."""
    file = state / "lab.json"
    return LabLogins(state) if file.exists() and json.loads(file.read_text()).get("guests") else None
