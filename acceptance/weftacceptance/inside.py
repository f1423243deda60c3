"""What operators read on the hosts because no API of the cloud has it: agents' metrics, managers' logs, domains."""

from __future__ import annotations

import os
import socket
import ssl
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import urlopen

from weftacceptance.cloud import Json, LostError, SkipError

_SECONDS = 20
_DUMP = (
    "import libvirt, sys; c = libvirt.open(sys.argv[1]); print(c.lookupByUUIDString(sys.argv[2]).XMLDesc())"
)


class Inside(Protocol):
    """Reads and acts inside a site; all methods raise `LostError`."""

    def metrics(self, url: str) -> str:
        """Metrics, in Prometheus' text format, of the fabric agent at this URL."""
        ...

    def manager_log(self, agent: str) -> list[str]:
        """Lines of the log of this agent's subnet manager."""
        ...

    def domain(self, server: str) -> str:
        """libvirt's XML of the running domain of a server (Nova's id)."""
        ...

    def trail(self) -> list[Json]:
        """CADF events of Neutron's audit trail, in their order."""
        ...

    def counters(self) -> dict[str, dict[str, int]]:
        """Counters of the management network's switch: port -> counter -> value."""
        ...

    def cable(self, adapter: str, plugged: bool) -> None:
        """Pulls an adapter's cable in the InfiniBand fabric, or plugs it in again. Args: adapter: NODE/NAME."""
        ...

    def certificate(self, url: str) -> bytes:
        """The certificate of the fabric agent at this URL. DER."""
        ...

    def rotate(self, agents: Mapping[str, Sequence[str]]) -> None:
        """New certificates for fabric agents, by weft's own tool on the host of the authority's key.

        Args:
            agents: name -> addresses.
        """
        ...

    def files(self, address: str) -> AbstractContextManager[Files]:
        """A host on the storage network."""
        ...

    def api(self) -> AbstractContextManager[tuple[str, int]]:
        """Another process of weft's API, with a certificate: host and port."""
        ...


class Files(Protocol):
    """NFSv4 as a host with its own address sees it. Args: location: HOST:/PATH."""

    def files(self, location: str) -> list[str] | None:
        """Names in an export, or None if it doesn't exist for this host."""
        ...

    def write(self, location: str, name: str, file: Path) -> bool:
        """Copies a file there; False if that is refused."""
        ...

    def read(self, location: str, name: str) -> str:
        """The text of a file. Raises `OSError` if it can't be read."""
        ...


class LabInside:
    """The inside of a lab. Args: state: its folder."""

    def __init__(self, state: Path) -> None:
        from weftlab.layout import Layout

        self._state, self._layout = state, Layout(state, state, 0)

    def metrics(self, url: str) -> str:
        try:
            with urlopen(f"{url}/metrics", timeout=_SECONDS, context=self._context()) as answer:
                return answer.read().decode()
        except (URLError, OSError, ValueError) as error:
            raise LostError(f"{url}/metrics: {error}") from error

    def manager_log(self, agent: str) -> list[str]:
        found = list(self._layout.data.glob(f"fabric-*/{agent}/opensm.log"))
        if len(found) != 1:
            raise LostError(f"{len(found)} subnet managers named {agent}")
        return found[0].read_text(errors="replace").splitlines()

    def domain(self, server: str) -> str:
        from weftlab.hypervisor.config import socket

        where = f"qemu+unix:///system?socket={socket(self._layout)}"
        # Debian's module works with Debian's Python only.
        argv = ["/usr/bin/python3", "-c", _DUMP, where, server]
        try:
            done = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=_SECONDS)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise LostError(f"libvirt doesn't answer: {error}") from error
        if done.returncode:
            raise LostError(f"libvirt has no domain {server}: {done.stderr.strip()[-200:]}")
        return done.stdout

    def _context(self) -> ssl.SSLContext:
        tls = self._state / "tls"
        context = ssl.create_default_context(cafile=str(tls / "ca.pem"))
        context.load_cert_chain(tls / "weft.pem", tls / "weft.key")
        return context

    def trail(self) -> list[Json]:
        from weftlab.trail import events

        try:
            return events(self._layout)
        except (OSError, ValueError) as error:
            raise LostError(f"Neutron's audit trail: {error}") from error

    def counters(self) -> dict[str, dict[str, int]]:
        from weftlab.hypervisor.bridges import MANAGEMENT
        from weftlab.layout import LabError
        from weftlab.switches.labsite import lab_ovs

        ovs = lab_ovs(self._layout)
        try:
            found: dict[str, dict[str, int]] = {}
            for port in ovs.vsctl("list-ports", MANAGEMENT).split():
                said = ovs.vsctl("get", "interface", port, "statistics").strip().strip("{}")
                pairs = [one.split("=") for one in said.split(", ") if "=" in one]
                found[port] = {name: int(value) for name, value in pairs}
            return found
        except (LabError, OSError, ValueError) as error:
            raise LostError(f"the switch's counters: {error}") from error

    def cable(self, adapter: str, plugged: bool) -> None:
        from weftlab.fabric.files import FabricFolder

        name = adapter.replace("/", " ")
        for place in self._layout.data.glob("fabric-*/commands"):
            fifo = FabricFolder(self._layout, place.parent.name.removeprefix("fabric-")).commands
            try:
                with os.fdopen(os.open(fifo, os.O_WRONLY | os.O_NONBLOCK), "w") as commands:
                    commands.write(f'{"ReLink" if plugged else "Unlink"} "{name}"[1]\n')
            except OSError as error:
                raise LostError(f"the fabric's simulator takes no command: {error}") from error

    def certificate(self, url: str) -> bytes:
        where = urlsplit(url)
        address = (where.hostname or "", where.port or 0)
        try:
            with (
                socket.create_connection(address, _SECONDS) as plain,
                self._context().wrap_socket(plain, server_hostname=where.hostname) as peer,
            ):
                return peer.getpeercert(binary_form=True) or b""
        except OSError as error:
            raise LostError(f"{url}: {error}") from error

    def rotate(self, agents: Mapping[str, Sequence[str]]) -> None:
        from weft.fabricagent.tls import make_certificates
        from weft.model.errors import InputError

        try:
            make_certificates(self._state / "tls", agents, renew=True)
        except (InputError, OSError) as error:
            raise LostError(str(error)) from error

    @contextmanager
    def files(self, address: str) -> Generator[Files]:
        from weftlab.layout import LabError
        from weftlab.storage import config, filer

        folder = config.folder(self._layout)
        if not folder.exists():
            raise SkipError("the lab has no storage: start it with --storage")
        try:
            with filer.client(folder, f"{address}/24") as host:
                yield host
            for file in (folder / "home").glob("wacc-*"):  # libnfs has no command to remove files
                file.unlink(missing_ok=True)
        except (LabError, OSError, subprocess.SubprocessError) as error:
            raise LostError(f"the storage network: {error}") from error

    @contextmanager
    def api(self) -> Generator[tuple[str, int]]:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        tls, state = self._state / "tls", self._layout.data / "weft"
        argv = [
            sys.executable,
            "-m",
            "weft.cli.main",
            "serve",
            "--no-worker",
            "--listen",
            f"127.0.0.1:{port}",
        ]
        argv += ["--state", str(state), "--cloud-profile", "weft"]
        argv += ["--tls-certificate", str(tls / "agent-sm1.pem"), "--tls-key", str(tls / "agent-sm1.key")]
        work = self._layout.work / "weft"
        environment = os.environ | {
            "OS_CLIENT_CONFIG_FILE": str(self._layout.clouds_yaml),
            "XDG_RUNTIME_DIR": str(work),
        }
        quiet = subprocess.DEVNULL
        with subprocess.Popen(argv, cwd=work, env=environment, stdout=quiet, stderr=quiet) as process:
            try:
                yield "127.0.0.1", port
            finally:
                process.terminate()
                process.wait(30)
