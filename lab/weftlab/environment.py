"""The programs that the lab needs: Debian packages, and OpenStack in an environment of its own in the cache.

OpenStack's environment is not weft's: its pins are in `constraints.txt` and change for all labs at once. It is made
once for a set of pins and is never changed after that.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path

from weftlab.layout import LabError

PINS = Path(__file__).with_name("constraints.txt")

# What is installed; the pins say in which version, and what comes with it.
DISTRIBUTIONS = ("keystone", "openstack-placement", "glance", "neutron", "nova", "pymysql", "pyuwsgi")

FABRIC_PACKAGES = {
    "ibsim": "ibsim-utils",
    "opensm": "opensm",
    "smpquery": "infiniband-diags",
}
CLOUD_PACKAGES = {
    "mariadbd": "mariadb-server-core",  # only the program: it installs no service on the machine
    "my_print_defaults": "mariadb-client-core",  # mariadb-install-db calls it
    "/usr/lib/rabbitmq/bin/rabbitmq-server": "rabbitmq-server",
    "epmd": "erlang-base",
}
POLICY = Path("/usr/sbin/policy-rc.d")

Say = Callable[[str], None]


def program(name: str) -> str | None:
    """Full path of a program; /usr/sbin counts also where PATH lacks it. A path is that of any file."""
    if "/" in name:
        return name if Path(name).exists() else None
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin:/sbin")


def install_packages(wanted: dict[str, str], say: Say) -> None:
    """Install the Debian packages of programs that aren't there; nothing is started by it.

    Raises `LabError` with the command to type, if this user may not, or if it fails.
    """
    missing = sorted({package for name, package in wanted.items() if program(name) is None})
    if not missing:
        return
    command = ["apt-get", "install", "-y", "-q", "--no-install-recommends", *missing]
    if os.geteuid() != 0:
        raise LabError(f"missing programs; as root: {' '.join(command)}")
    say(f"installing Debian packages: {' '.join(missing)}")
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    wait = ["-o", "DPkg::Lock::Timeout=300"]
    with _no_daemons(missing):
        done = _quiet([command[0], *wait, *command[1:]], env)
        if done.returncode:
            # Often only the list of packages is old or missing.
            _quiet(["apt-get", *wait, "update", "-q"], env)
            done = _quiet([command[0], *wait, *command[1:]], env)
    if done.returncode:
        raise LabError(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}")


def _quiet(command: list[str], env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


@contextlib.contextmanager
def _no_daemons(packages: list[str]) -> Generator[None]:
    """Debian starts a packaged daemon on installation unless policy-rc.d says 101; the lab has its own instances."""
    ours = not POLICY.exists()
    if ours:
        POLICY.write_text("#!/bin/sh\nexit 101\n")
        POLICY.chmod(0o755)
    try:
        yield
    finally:
        if ours:
            POLICY.unlink()
        if Path("/run/systemd/system").exists():
            units = ("rabbitmq-server.service", "epmd.socket", "epmd.service", "opensm.service")
            for unit in (*units, "openvswitch-switch.service"):
                if {"rabbitmq-server", "opensm", "erlang-base", "openvswitch-switch"} & set(packages):
                    _quiet(["systemctl", "disable", unit])


def pins_key() -> str:
    """What the environment is named after: its pins and the Python version."""
    text = PINS.read_bytes() + " ".join(DISTRIBUTIONS).encode() + sys.version.encode()
    return hashlib.sha256(text).hexdigest()[:12]


def environment_path(cache: Path) -> Path:
    """Folder of OpenStack's Python environment, by a digest of its pins."""
    return cache / f"openstack-{pins_key()}"


def ensure_environment(cache: Path, say: Say) -> Path:
    """OpenStack's environment, created if it doesn't exist; concurrent labs create it once.

    Raises `LabError` with uv's own words if it can't be made.
    """
    return _ensure(environment_path(cache), (PINS,), DISTRIBUTIONS, say)


def _ensure(path: Path, pins: tuple[Path, ...], distributions: tuple[str, ...], say: Say) -> Path:
    mark = path / "complete"
    if mark.exists():
        return path
    with lock(path.parent / "environment.lock"):
        if mark.exists():
            return path
        installer = uv()
        say(f"installing {', '.join(distributions)} into {path}")
        shutil.rmtree(path, ignore_errors=True)
        _must([installer, "venv", "-q", "--python", sys.executable, str(path)])
        _must(
            [
                # Not in a folder whose pyproject.toml overrides what packages need.
                *(installer, "--directory", str(path), "pip", "install", "-q"),
                *("--python", str(path / "bin/python"), "--compile-bytecode"),
                *(word for one in pins for word in ("-c", str(one))),
                *distributions,
            ]
        )
        mark.touch()
    return path


def other_path(cache: Path, name: str, pins: Path, distributions: tuple[str, ...]) -> Path:
    """An environment beside OpenStack's, with the pins of both."""
    text = PINS.read_bytes() + pins.read_bytes() + " ".join(distributions).encode() + sys.version.encode()
    return cache / f"{name}-{hashlib.sha256(text).hexdigest()[:12]}"


def ensure_other(cache: Path, name: str, pins: Path, distributions: tuple[str, ...], say: Say) -> Path:
    """The environment at `other_path`, created if it doesn't exist. Raises `LabError`."""
    path = other_path(cache, name, pins, distributions)
    return _ensure(path, (PINS, pins), distributions, say)


def ensure_alone(cache: Path, name: str, pins: Path, distributions: tuple[str, ...], say: Say) -> Path:
    """An environment with pins of its own, none of OpenStack's, created if it doesn't exist. Raises `LabError`."""
    text = pins.read_bytes() + " ".join(distributions).encode() + sys.version.encode()
    path = cache / f"{name}-{hashlib.sha256(text).hexdigest()[:12]}"
    return _ensure(path, (pins,), distributions, say)


def install_overlay(env: Path, target: Path, *packages: str) -> None:
    """Packages, without what they depend on, in a folder beside the environment. Raises `LabError`."""
    python = str(env / "bin/python")
    _must([uv(), "pip", "install", "-q", "--python", python, "--no-deps", "--target", str(target), *packages])


def uv() -> str:
    """The program. Raises `LabError`."""
    beside = Path(sys.executable).with_name("uv")
    found = str(beside) if beside.exists() else program("uv")
    if found is None:
        raise LabError("uv is missing: install it with `pip install uv`, or from its own site")
    return found


def _must(command: list[str]) -> None:
    done = _quiet(command)
    if done.returncode:
        raise LabError(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}")


@contextlib.contextmanager
def lock(path: Path) -> Generator[None]:
    """Hold a file lock, waiting for it; the kernel releases it if this process dies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
