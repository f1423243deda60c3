"""Open vSwitch as a lab's own: database, sockets and logs in the lab's folder, vswitchd in the lab's namespace."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from weftlab.environment import program
from weftlab.layout import MAX_SOCKET_PATH, LabError

SCHEMA = Path("/usr/share/openvswitch/vswitch.ovsschema")
SECONDS = 20
"""How long one call may wait: ovs-vsctl waits for vswitchd, without a limit if that hangs."""
SWITCHES = "switches"
"""Name of the namespace that all bridges are in."""


@dataclass(frozen=True, slots=True)
class Ovs:
    """One lab's Open vSwitch in its folder."""

    folder: Path

    @property
    def database(self) -> Path:
        """File of the database."""
        return self.folder / "conf.db"

    @property
    def socket(self) -> Path:
        """Socket of its server."""
        return self.folder / "db.sock"

    @property
    def spaces(self) -> Path:
        """Where the namespaces' paths are written."""
        return self.folder / "spaces.json"

    @property
    def environment(self) -> dict[str, str]:
        """Everything that the programs would look for in the machine's own folders."""
        here = str(self.folder)
        return {"OVS_RUNDIR": here, "OVS_LOGDIR": here, "OVS_DBDIR": here, "OVS_SYSCONFDIR": here}

    def make(self) -> None:
        """Folder and database. Raises `LabError` if the path is too deep for a socket, or ovsdb-tool fails."""
        if len(str(self.socket).encode()) > MAX_SOCKET_PATH:
            raise LabError(
                f"{self.socket} is too long for a unix socket ({MAX_SOCKET_PATH} bytes): give a shorter --state"
            )
        self.folder.mkdir(parents=True, exist_ok=True)
        if not self.database.exists():
            run([_program("ovsdb-tool"), "create", str(self.database), str(SCHEMA)], self.environment)

    def server(self) -> tuple[str, ...]:
        """Command line of the database; it stays outside of the namespace."""
        return (
            _program("ovsdb-server"),
            str(self.database),
            f"--remote=punix:{self.socket}",
            f"--pidfile={self.folder / 'ovsdb-server.pid'}",
            f"--unixctl={self.folder / 'db.ctl'}",
            "-vconsole:warn",
        )

    def switch(self) -> tuple[str, ...]:
        """Command line of vswitchd, in the namespace that the holder has made by then.

        The userspace datapath's tap is always called `ovs-netdev`: a second vswitchd in one namespace makes bridges
        that forward nothing, and ovs-vsctl answers 0. So each lab has a namespace of its own.
        """
        daemon = shlex.join(
            [
                _program("ovs-vswitchd"),
                f"unix:{self.socket}",
                f"--pidfile={self.folder / 'ovs-vswitchd.pid'}",
                f"--unixctl={self.folder / 'vs.ctl'}",
                "-vconsole:warn",
            ]
        )
        return ("/bin/sh", "-c", f'exec nsenter --net="$(cat {SWITCHES}.space)" {daemon}')

    def space(self, name: str) -> str:
        """Path of a namespace; before the holder has run, a path that isn't there."""
        try:
            return json.loads(self.spaces.read_text())[name]
        except (OSError, ValueError, KeyError):
            return "/nowhere"

    def vsctl(self, *arguments: str) -> str:
        """`ovs-vsctl`, which returns when vswitchd has done it. Raises `LabError` with its words."""
        options = [f"--db=unix:{self.socket}", f"--timeout={SECONDS}"]
        return run([_program("ovs-vsctl"), *options, *arguments], self.environment)

    def appctl(self, *arguments: str) -> str:
        """Ask vswitchd itself."""
        target = ["-t", str(self.folder / "vs.ctl"), f"--timeout={SECONDS}"]
        return run([_program("ovs-appctl"), *target, *arguments], self.environment)

    def ofctl(self, command: str, bridge: str, *arguments: str) -> str:
        """`ovs-ofctl` on a bridge."""
        target = f"unix:{self.folder / bridge}.mgmt"
        return run(
            [_program("ovs-ofctl"), f"--timeout={SECONDS}", command, target, *arguments], self.environment
        )

    def inside(self, name: str, argv: Sequence[str], text: str = "") -> str:
        """Run something in a namespace. Raises `LabError` with its words."""
        return run(["nsenter", f"--net={self.space(name)}", *argv], {}, text)

    def why_not(self) -> str | None:
        """None if vswitchd answers and has a datapath of its own."""
        try:
            self.appctl("dpif/show")
        except LabError as error:
            return str(error)
        return None


def _program(name: str) -> str:
    return program(name) or name


def run(argv: Sequence[str], environment: dict[str, str], text: str = "") -> str:
    """Run a command, with what it says. Raises `LabError` with the end of its words if it fails, or isn't there."""
    try:
        done = subprocess.run(
            argv,
            env={
                "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                "LC_ALL": "C",
                **environment,
            },
            input=text,
            capture_output=True,
            text=True,
            timeout=3 * SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LabError(f"{argv[0]} can't be run: {error}") from error
    if done.returncode:
        raise LabError(f"{shlex.join(argv)[:300]}: {done.stderr.strip()[-500:] or done.returncode}")
    return done.stdout
