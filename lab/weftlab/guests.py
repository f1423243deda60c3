"""Imitates virtual machines, since the lab has no hypervisor: controllers and Poplar servers.

When Nova has started a server on their hosts, its virt driver leaves a file (`programs/weftlab_driver.py`). This
program then asks Nova, as administrator, for the user data that the server was made with, and does with it what
cloud-init does: it writes the files below the guest's folder and runs the commands, `openvipu-server` and
`vipu-admin` for real. When the server is stopped its processes end; when it is deleted its folder goes too.

Of addresses it knows `weftlab.ipu.here`. A controller listens on its address on the gateways' network, and with its
user API without TLS if its address on the management network is here. Paths in commands are those below the
guest's folder.
"""

from __future__ import annotations

import base64
import contextlib
import email
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from weftlab.ipu import here
from weftlab.layout import Layout

LOOK = 0.1
"""Seconds between checks of the folder with the virt driver's files."""
USER_PORT = 8090
PROGRAMS = ("openvipu-server", "vipu-admin")

Where = Callable[[str], str]


def cloud_config(user_data: str) -> dict[str, Any]:
    """The cloud-config of user data, also of a MIME archive; lists of several parts are joined."""
    texts = [user_data]
    if not user_data.startswith("#cloud-config"):
        parts = [p for p in email.message_from_string(user_data).walk() if not p.is_multipart()]
        texts = [str(p.get_payload()).lstrip() for p in parts]
    found: dict[str, Any] = {}
    for text in texts:
        if text.startswith("#cloud-config"):
            for name, value in (yaml.safe_load(text) or {}).items():
                found[name] = [*found.get(name, []), *value] if isinstance(value, list) else value
    return found


class Guest:
    """One virtual machine.

    Args:
        folder: its disk.
        addresses: its addresses, as the cloud has them.
        where: where such an address is on this machine.
        say: called with a line for each event; never with the files' contents.
    """

    def __init__(
        self, folder: Path, addresses: Sequence[str], where: Where, say: Callable[[str], None] = print
    ) -> None:
        self._folder, self._addresses, self._where, self._say = folder, addresses, where, say
        self._processes: list[subprocess.Popen[bytes]] = []
        self._ending = threading.Event()
        self._booting: threading.Thread | None = None

    def boot(self, user_data: str) -> None:
        """Write the files of the user data now; its commands run in a thread."""
        config = cloud_config(user_data)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._folder.chmod(0o700)
        for file in config.get("write_files", []):
            path = self.path(file["path"])
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch(0o600)
            encoded = file.get("encoding") in ("b64", "base64")
            path.write_bytes(base64.b64decode(file["content"]) if encoded else file["content"].encode())
            path.chmod(int(file.get("permissions", "0644"), 8))
        self._credentials()
        commands: list[Any] = config.get("runcmd", [])
        if commands:
            self._booting = threading.Thread(target=self._run, args=(commands,), daemon=True)
            self._booting.start()

    def path(self, name: str) -> Path:
        """Where a file of the guest is. ValueError for a name that leads out of it."""
        path = (self._folder / name.lstrip("/")).resolve()
        if not path.is_relative_to(self._folder.resolve()):
            raise ValueError(f"{name} leads out of the guest")
        return path

    def end(self) -> None:
        """Kill all its processes, as in a power failure."""
        self._ending.set()
        for process in self._processes:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGKILL)
            process.wait()
        if self._booting is not None:
            self._booting.join(5)

    def _credentials(self) -> None:
        """The tenant's connection as it is on this machine, beside the one that the guest itself would use."""
        inside = self.path("/etc/vipu/vipu-cli.hcl")
        if inside.exists():
            lines = [
                f'api-host="{self._where(line.split(chr(34))[1])}"' if line.startswith("api-host") else line
                for line in inside.read_text().splitlines()
            ]
            outside = self._folder / "vipu-cli.hcl"
            outside.touch(0o600)
            outside.write_text("\n".join(lines) + "\n")

    def _run(self, commands: Sequence[Any]) -> None:
        for command in commands:
            words = shlex.split(command) if isinstance(command, str) else [str(w) for w in command]
            try:
                code = self._command(words)
            except Exception as error:  # a guest that fails must not end the others
                self._say(f"{self._folder.name}: {words[0]}: {type(error).__name__}: {error}")
                return
            self._say(
                f"{self._folder.name}: {words[0]} {words[1] if len(words) > 1 else ''}: exit code {code}"
            )
            if self._ending.is_set():
                return

    def _command(self, words: Sequence[str]) -> int:
        if words[0] == "mkdir":
            for name in words[1:]:
                if not name.startswith("-"):
                    self.path(name).mkdir(parents=True, exist_ok=True)
            return 0
        if words[:2] == ["systemctl", "enable"]:
            return self._service(words[-1])
        if words[0] not in PROGRAMS:
            self._say(f"{self._folder.name}: {words[0]} is not done here")
            return 0
        if "--init" in words and self.path(words[words.index("--state") + 1]).exists():
            return 0  # the power was off: cloud-init runs commands once
        process = self._start(words, "boot.log")
        while process.poll() is None and not self._ending.is_set():
            time.sleep(LOOK / 2)
        return process.poll() or 0

    def _service(self, unit: str) -> int:
        """Start a unit's program, with its addresses on this machine; returns an exit code."""
        text = self.path(f"/etc/systemd/system/{unit}").read_text()
        words = shlex.split(next(x for x in text.splitlines() if x.startswith("ExecStart="))[10:])
        gateway = words[words.index("--admin-address") + 1].rpartition(":")[0]
        users = next((a for a in self._addresses if a != gateway), None)
        # without an address on a management network it gets any free port
        words[words.index("--plain-user-address") + 1] = (
            f"{self._where(users)}:{USER_PORT}" if users is not None else f"{gateway}:0"
        )
        self._start(words, "openvipu.log")
        return 0

    def _start(self, words: Sequence[str], log: str) -> subprocess.Popen[bytes]:
        program = Path(sys.executable).with_name(words[0])
        inside = [str(self.path(w)) if w.startswith("/") else w for w in words[1:]]
        with (self._folder / log).open("ab") as output:
            process = subprocess.Popen(
                [str(program), *inside],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self._folder,
                env={"PATH": os.environ.get("PATH", ""), "HOME": str(self._folder)},
            )
        self._processes.append(process)
        return process


def guests_folder(layout: Layout) -> Path:
    """Folder of all imitated guests."""
    return layout.data / "guests"


def started_folder(layout: Layout) -> Path:
    """A file by the server's id for each server that Nova has started on a host with guests."""
    return layout.data / "nova" / "guests"


class GuestKeeper:
    """Boots and ends guests as the virt driver's files come and go."""

    def __init__(self, layout: Layout, nova: Callable[[], Any]) -> None:
        """`nova` connects again: a connection that was made before the catalog was filled never finds Nova."""
        self._layout, self._nova = layout, nova
        self._guests: dict[str, Guest] = {}

    def look(self) -> None:
        """Start guests whose servers Nova has started, and end those whose servers are gone."""
        folder = started_folder(self._layout)
        there = {e.name for e in os.scandir(folder) if "." not in e.name} if folder.exists() else set[str]()
        states = {name: _read(folder / name) for name in there}
        states = {name: state for name, state in states.items() if state}
        running = {name for name, state in states.items() if state == "on"}
        for name in sorted(set(self._guests) - running):
            self._guests.pop(name).end()
            say(f"{name}: off")
        for name in self._folders() - set(states):
            shutil.rmtree(guests_folder(self._layout) / name, ignore_errors=True)
        for name in sorted(running - set(self._guests)):
            self._boot(name)

    def end(self) -> None:
        for guest in self._guests.values():
            guest.end()

    def _boot(self, name: str) -> None:
        server: Mapping[str, Any] = (
            self._nova().get(f"/servers/{name}", microversion="2.74").json().get("server", {})
        )
        if not server:
            return
        text = base64.b64decode(server.get("OS-EXT-SRV-ATTR:user_data") or "").decode()
        addresses = [a["addr"] for row in server["addresses"].values() for a in row]
        guest = Guest(guests_folder(self._layout) / name, addresses, lambda a: here(self._layout, a), say)
        self._guests[name] = guest
        guest.boot(text)
        say(f"{name}: booted {server['name']} with {', '.join(addresses)}")

    def _folders(self) -> set[str]:
        folder = guests_folder(self._layout)
        return {e.name for e in os.scandir(folder)} if folder.exists() else set()


def _read(path: Path) -> str:
    """The text of a file that the driver left; empty if it is gone."""
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        return ""


def say(line: str) -> None:
    """Print a line with the time."""
    print(f"{time.strftime('%H:%M:%S')} {line}", flush=True)


def main(argv: Sequence[str]) -> int:
    """Keep guests until SIGTERM or SIGINT; `argv`: state folder, cache, first port."""
    import openstack

    state, cache, ports = argv
    keeper = GuestKeeper(Layout(Path(state), Path(cache), int(ports)), lambda: openstack.connect().compute)
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    while not ended.wait(LOOK):
        try:
            keeper.look()
        except Exception as error:  # Nova may be starting; what was left is there at the next look
            say(f"{type(error).__name__}: {error}")
            ended.wait(1)
    keeper.end()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
