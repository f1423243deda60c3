"""A clean Debian in a folder, whose systemd is process 1 of its own namespaces: units start as they would on a host.

Process ids, mounts, addresses, IPC and a part of the tree of control groups are its own. The kernel's settings can't be
written.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Self

from tests.helpers.waiting import wait_for

GROUPS = Path("/sys/fs/cgroup/systemd")
"""Hierarchy of control groups for systemd's units; limits that need other hierarchies aren't enforced here."""
PACKAGES = ("systemd", "systemd-sysv", "iproute2", "procps", "ca-certificates", "python3")
MASKED = (
    *("systemd-udevd.service", "systemd-udev-trigger.service", "systemd-udevd-kernel.socket"),
    *("systemd-udevd-control.socket", "systemd-modules-load.service", "systemd-sysctl.service"),
    *("getty@tty1.service", "console-getty.service"),
)
"""Units that need devices, or change the kernel."""
_PATH = "PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_BOOT = r"""
set -eu
mount --make-rprivate /
mount --bind "$R" "$R"
mount -t proc proc "$R/proc"
mount --bind "$R/proc/sys" "$R/proc/sys"; mount -o remount,bind,ro "$R/proc/sys"
mount -t sysfs -o ro sysfs "$R/sys"
mount -t tmpfs -o mode=755 tmpfs "$R/sys/fs/cgroup"
mkdir "$R/sys/fs/cgroup/systemd"
mount -t cgroup -o none,name=systemd cgroup "$R/sys/fs/cgroup/systemd"
for place in run dev; do mount -t tmpfs -o mode=755 tmpfs "$R/$place"; done
mount -t tmpfs -o mode=1777 tmpfs "$R/tmp"
for one in null zero full random urandom tty; do : > "$R/dev/$one"; mount --bind "/dev/$one" "$R/dev/$one"; done
mkdir "$R/dev/pts" "$R/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$R/dev/pts"; ln -s pts/ptmx "$R/dev/ptmx"
mount -t tmpfs -o mode=1777 tmpfs "$R/dev/shm"
: > "$R/dev/console"; mount --bind "$R/console.log" "$R/dev/console"
ln -s /proc/self/fd "$R/dev/fd"
cd "$R"; mkdir -p .before; pivot_root . .before; umount -l .before; rmdir .before
exec setpriv --bounding-set -sys_module,-sys_time,-sys_rawio,-sys_boot,-syslog,-mac_admin,-mac_override \
  --inh-caps -all env -i container=other "$P" /lib/systemd/systemd --unit=multi-user.target \
  --log-target=console --show-status=no
"""


def why_not() -> str:
    """Why no root can be made here; empty if it can."""
    if os.geteuid() != 0:
        return "only root makes them"
    if missing := [
        name for name in ("mmdebstrap", "unshare", "nsenter", "setpriv") if not shutil.which(name)
    ]:
        return f"no {', '.join(missing)}"
    return (
        ""
        if GROUPS.is_dir() and os.access(GROUPS, os.W_OK)
        else f"no {GROUPS} in which systemd could keep units"
    )


class CleanRoot:
    """A root with Debian and a systemd of its own. Args: folder: for its files; doesn't exist yet; a mirror of
    Debian fills it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._group = GROUPS / f"weft-{os.getpid()}"
        self._init = 0
        if not folder.exists():
            words = [
                "mmdebstrap",
                "-q",
                "--variant=minbase",
                f"--include={','.join(PACKAGES)}",
                "bookworm",
                folder,
            ]
            subprocess.run(words, check=True, timeout=900)
        for unit in MASKED:
            link = folder / "etc/systemd/system" / unit
            link.unlink(missing_ok=True)
            link.symlink_to("/dev/null")
        for one in (
            "etc/resolv.conf",
            "etc/ssl/certs/ca-certificates.crt",
        ):  # the settings by which this machine reaches its mirrors
            shutil.copy(f"/{one}", folder / one)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def run(self, script: str, timeout: float = 900) -> subprocess.CompletedProcess[str]:
        """Runs a script as root in it: before `boot` with this machine's network, afterwards in its systemd's
        namespaces."""
        kept = [
            f"{k}={v}" for k, v in os.environ.items() if k.lower().startswith(("pip_", "http", "no_proxy"))
        ]
        kept.append("PIP_CERT=/etc/ssl/certs/ca-certificates.crt")
        words = ["chroot", str(self.folder)]
        if self._init:
            spaces = ("--pid", "--mount", "--uts", "--ipc", "--net", "--cgroup", "--root", "--wd")
            words = ["nsenter", "-t", str(self._init), *spaces]
        words += ["env", "-i", "HOME=/root", "LC_ALL=C.UTF-8", _PATH, *kept]
        return subprocess.run(
            [*words, "bash", "-c", f"cd /root\n{script}"],
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            stdin=subprocess.DEVNULL,
        )

    def boot(self, address: str) -> None:
        """Starts its systemd. Args: address: the host's own, on its loopback."""
        (self.folder / "console.log").touch()
        self._group.mkdir(exist_ok=True)
        begin = f"echo $$ > {self._group}/cgroup.procs; exec unshare --pid --fork --mount --uts --ipc --net --cgroup"
        environment = {"PATH": os.environ["PATH"], "R": str(self.folder), "P": _PATH, "BOOT": _BOOT}
        outer = subprocess.Popen(["bash", "-c", f'{begin} bash -c "$BOOT"'], env=environment)
        children = Path(f"/proc/{outer.pid}/task/{outer.pid}/children")
        self._init = int(wait_for(lambda: children.read_text().strip(), "the first process of its own"))
        self._outer = outer
        ready = "systemctl is-system-running --wait"
        for _ in range(60):  # the bus exists a moment later
            if self.run(ready).stdout.strip() in ("running", "degraded"):
                break
            time.sleep(1)
        else:
            raise AssertionError((self.folder / "console.log").read_text()[-3000:])
        assert self.run(f"ip link set lo up && ip address add {address}/32 dev lo").returncode == 0

    def stop(self) -> None:
        """Ends every process in it and removes its control groups."""
        if self._init:
            os.kill(self._init, signal.SIGKILL)  # the kernel kills the namespace's other processes with it
            self._outer.wait(30)
            self._init = 0
        for one in sorted(self._group.rglob("*/"), reverse=True):
            if one.is_dir():
                one.rmdir()
        if self._group.exists():
            self._group.rmdir()
