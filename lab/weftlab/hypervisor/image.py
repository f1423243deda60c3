"""The guests' image: Debian's cloud kernel, and an initramfs of busybox and dropbear that reads its config drive.

It boots in a few seconds without hardware virtualization. Made once from Debian's packages, in the cache.
"""

from __future__ import annotations

import gzip
import hashlib
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from weftlab.environment import Say, lock
from weftlab.layout import LabError

NAME = "guest"
"""Name of the image in Glance."""
COMMAND_LINE = "console=ttyS0 quiet panic=1 mitigations=off"
META = "linux-image-cloud-amd64"
TOOLS = ("dropbear-bin", "libtomcrypt1", "libtommath1", "busybox-static", "base-files")
PROGRAMS = Path(__file__).with_name("programs")
SCRIPTS = {"init.sh": "init", "leased.sh": "bin/leased", "agent.sh": "bin/agent", "command.sh": "bin/command"}
DRIVERS = "virtio_pci virtio_net virtio_scsi virtio_blk sr_mod sd_mod isofs ext4 af_packet button evdev 8021q"
"""What the guest's devices and forged VLAN tags need; those that the kernel has built in have no module."""
APPLETS = (
    "sh mount umount insmod ip ls cat sed awk grep cut head tr sort sleep ping wget hostname mkdir chmod cp nc ps kill "
    "poweroff dmesg mv id uname switch_root udhcpc httpd touch nproc sha512sum syslogd logger"
)
DEPENDS = re.compile(rb"depends=([^\0]*)\0")
"""Names of the modules that a module needs, in its section `.modinfo`."""


@dataclass(frozen=True, slots=True)
class More:
    """What is in a guest's image in addition to busybox and the kernel.

    Attributes:
        kernel: Debian's package that names another kernel.
        packages: Debian's, of what follows.
        programs: paths in these packages, which get their libraries.
        files: further paths in these packages.
        applets: of busybox.
        init: instead of the first process.
    """

    kernel: str = META
    packages: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    applets: str = ""
    init: str = ""


@dataclass(frozen=True, slots=True)
class GuestImage:
    """Files of a made image."""

    kernel: Path
    initrd: Path


def ensure(cache: Path, say: Say, drivers: str = DRIVERS, more: More | None = None) -> GuestImage:
    """Make the image if it isn't there; concurrent labs make it once. Raises `LabError`.

    Args:
        drivers: modules of the kernel that are loaded first.
    """
    key = _key(drivers, more)
    folder = cache / f"guest-{key}"
    found = GuestImage(folder / "vmlinuz", folder / "initrd")
    if found.initrd.exists():
        return found
    with lock(cache / "guest.lock"):
        if not found.initrd.exists():
            say(f"making the guests' image in {folder}")
            with tempfile.TemporaryDirectory(dir=cache) as work:
                _make(Path(work), folder, drivers, more or More())
    return found


def _key(drivers: str, more: More | None) -> str:
    """Digest of what it is made of, without the packages' versions."""
    texts = [(PROGRAMS / name).read_text() for name in SCRIPTS]
    parts = (META, TOOLS, drivers, APPLETS, SCRIPTS, texts, *(() if more is None else (more,)))
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:12]


def _make(work: Path, folder: Path, drivers: str, more: More) -> None:
    tree = work / "packages"
    for package in _download(work, more):
        _run(["dpkg-deb", "-x", str(package), str(tree)])
    folder.mkdir(exist_ok=True)
    shutil.copy(next((tree / "boot").glob("vmlinuz-*")), folder / "vmlinuz")
    root = work / "root"
    _fill(tree, root, drivers)
    _add(tree, root, more)
    unfinished = folder / "initrd.new"
    unfinished.write_bytes(gzip.compress(cpio(root), 6, mtime=0))
    unfinished.replace(folder / "initrd")


def _download(work: Path, more: More) -> list[Path]:
    """Debian's packages, without installing them: a kernel on this machine isn't the lab's to choose."""
    try:
        listing = _run(["apt-cache", "show", "--no-all-versions", more.kernel])
    except LabError:  # the list of packages is missing
        _run(["apt-get", "update", "-q"])
        listing = _run(["apt-cache", "show", "--no-all-versions", more.kernel])
    kernel = re.search(r"^Depends: (linux-image-[^ ,]+)", listing, re.MULTILINE)
    if kernel is None:
        raise LabError(f"Debian's package {more.kernel} names no kernel: run `apt-get update`")
    _run(["apt-get", "download", "-q", kernel[1], *TOOLS, *more.packages], work)
    return sorted(work.glob("*.deb"))


def _fill(tree: Path, root: Path, drivers: str) -> None:
    """Put the guest's files into the tree."""
    for name in (
        "bin",
        "sbin",
        "etc/dropbear",
        "root/.ssh",
        "proc",
        "sys",
        "dev",
        "run",
        "tmp",
        "mnt",
        "lib/modules",
    ):
        (root / name).mkdir(parents=True)
    busybox = next(p for p in (tree / "bin/busybox", tree / "usr/bin/busybox") if p.exists())
    shutil.copy(busybox, root / "bin/busybox")
    for applet in APPLETS.split():
        (root / "bin" / applet).symlink_to("busybox")
    dropbear = tree / "usr/sbin/dropbear"
    shutil.copy(dropbear, root / "sbin/dropbear")
    for library in _libraries(dropbear, tree / "usr/lib/x86_64-linux-gnu"):
        inside = root / library[1:]
        inside.parent.mkdir(parents=True, exist_ok=True)
        own = tree / "usr/lib/x86_64-linux-gnu" / Path(library).name
        shutil.copy(own if own.exists() else Path(library), inside)
    order: list[str] = []
    for module in _modules(tree, drivers):
        shutil.copy(module, root / "lib/modules")
        order.append(module.name)
    (root / "lib/modules/order").write_text("\n".join(order) + "\n")
    shutil.copy(tree / "usr/lib/os-release", root / "etc/os-release")  # it is of Debian's packages alone
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    (root / "etc/group").write_text("root:x:0:\n")
    (root / "etc/shadow").write_text("root:*:19000:0:99999:7:::\n")
    (root / "etc/shells").write_text("/bin/sh\n")
    for source, path in SCRIPTS.items():
        shutil.copy(PROGRAMS / source, root / path)
        (root / path).chmod(0o755)


def _add(tree: Path, root: Path, more: More) -> None:
    """Add a guest's packages, programs, files and applets to its image."""
    own = tree / "usr/lib/x86_64-linux-gnu"
    for path in (*more.programs, *more.files):
        there = next(
            (found for found in (tree / path, tree / path.removeprefix("usr/")) if found.exists()), None
        )
        if there is None:
            raise LabError(f"none of Debian's packages {', '.join(more.packages)} has {path}")
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(there, root / path)
        for library in _libraries(there, own) if path in more.programs else ():
            inside = root / library[1:]
            inside.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(
                own / Path(library).name if (own / Path(library).name).exists() else Path(library), inside
            )
    for applet in more.applets.split():
        (root / "bin" / applet).symlink_to("busybox")
    if more.init:
        (root / "init").write_text(more.init)


def _libraries(program: Path, own: Path) -> list[str]:
    """Paths of the libraries that a program needs, in the guest as on this machine."""
    libraries = _run(["env", f"LD_LIBRARY_PATH={own}", "ldd", str(program)])
    found = re.findall(r"(/\S+) \(0x", libraries)
    if "not found" in libraries or not found:
        raise LabError(f"libraries of {program.name} are missing on this machine: {libraries.strip()[-300:]}")
    return [f"/lib/x86_64-linux-gnu/{Path(f).name}" if f.startswith(str(own)) else f for f in found]


def _modules(tree: Path, drivers: str) -> Iterator[Path]:
    """The drivers' modules, each after those that it needs."""
    there = {p.stem.replace("-", "_"): p for p in (tree / "lib/modules").rglob("*.ko")}
    given: set[str] = set()

    def needs(name: str) -> Iterator[Path]:
        module = there.get(name)
        if module is None or name in given:
            return
        given.add(name)
        found = DEPENDS.search(module.read_bytes())
        for other in (found[1] if found else b"").decode().split(","):
            yield from needs(other.replace("-", "_"))
        yield module

    for driver in drivers.split():
        yield from needs(driver)


def cpio(root: Path) -> bytes:
    """A tree as an archive in the kernel's format ("newc", Documentation/driver-api/early-userspace/buffer-format)."""
    out: list[bytes] = []
    paths = sorted(root.rglob("*"))
    for number, path in enumerate(paths, 1):
        mode = path.lstat().st_mode
        link = stat.S_ISLNK(mode)
        data = str(path.readlink()).encode() if link else path.read_bytes() if stat.S_ISREG(mode) else b""
        out.append(_entry(str(path.relative_to(root)), number, mode, data))
    return b"".join([*out, _entry("TRAILER!!!", 0, 0, b"")])


def _entry(name: str, number: int, mode: int, data: bytes) -> bytes:
    coded = name.encode() + b"\0"
    fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(coded), 0)
    head = b"070701" + b"".join(b"%08X" % f for f in fields) + coded
    return head + bytes(-len(head) % 4) + data + bytes(-len(data) % 4)


def _run(command: list[str], folder: Path | None = None) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LabError(f"{' '.join(command)} failed: {done.stderr.strip()[-500:]}")
    return done.stdout
