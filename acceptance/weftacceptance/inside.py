"""What operators read where it is, since no API of the cloud has it: agents' metrics, managers' logs, domains."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path
from typing import Protocol
from urllib.error import URLError
from urllib.request import urlopen

from weftacceptance.cloud import LostError

_SECONDS = 20
_DUMP = (
    "import libvirt, sys; c = libvirt.open(sys.argv[1]); print(c.lookupByUUIDString(sys.argv[2]).XMLDesc())"
)


class Inside(Protocol):
    """All raise `LostError`."""

    def metrics(self, url: str) -> str:
        """Text for Prometheus of the fabric agent at this URL."""
        ...

    def manager_log(self, agent: str) -> list[str]:
        """Lines of the log of the subnet manager next to this agent."""
        ...

    def domain(self, server: str) -> str:
        """libvirt's description of the domain of a server, by Nova's id, as it runs. XML."""
        ...


class LabInside:
    """Args: state: folder of a lab."""

    def __init__(self, state: Path) -> None:
        self._state = state

    def metrics(self, url: str) -> str:
        tls = self._state / "tls"
        try:
            context = ssl.create_default_context(cafile=str(tls / "ca.pem"))
            context.load_cert_chain(tls / "weft.pem", tls / "weft.key")
            with urlopen(f"{url}/metrics", timeout=_SECONDS, context=context) as answer:
                return answer.read().decode()
        except (URLError, OSError, ValueError) as error:
            raise LostError(f"{url}/metrics: {error}") from error

    def manager_log(self, agent: str) -> list[str]:
        from weftlab.layout import Layout

        found = list(Layout(self._state, self._state, 0).data.glob(f"fabric-*/{agent}/opensm.log"))
        if len(found) != 1:
            raise LostError(f"{len(found)} subnet managers named {agent}")
        return found[0].read_text(errors="replace").splitlines()

    def domain(self, server: str) -> str:
        from weftlab.hypervisor.config import socket
        from weftlab.layout import Layout

        where = f"qemu+unix:///system?socket={socket(Layout(self._state, self._state, 0))}"
        # Debian's module is for Debian's Python.
        argv = ["/usr/bin/python3", "-c", _DUMP, where, server]
        try:
            done = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=_SECONDS)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise LostError(f"libvirt doesn't answer: {error}") from error
        if done.returncode:
            raise LostError(f"libvirt has no domain {server}: {done.stderr.strip()[-200:]}")
        return done.stdout
