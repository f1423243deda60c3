"""Guests with soft RoCE: real verbs and Debian's perftest, between two virtual machines on one machine.

`rdma_rxe` is in Debian's ordinary kernel, not in the cloud kernel of the lab's other guests. A guest has two adapters:
one for SSH, forwarded from a port of loopback, and one on a wire that it shares with the other guests. Speed is that of
emulation: 0.01 to 0.1 Gb/s.
"""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Generator, Sequence
from pathlib import Path

from weftlab.environment import Say
from weftlab.hypervisor import image
from weftlab.layout import LabError

PACKAGES = {"qemu-system-x86_64": "qemu-system-x86", "ssh": "openssh-client", "ssh-keygen": "openssh-client"}
"""Program -> Debian package, of what this machine needs."""
DRIVERS = "virtio_pci virtio_net af_packet crc32_generic ib_uverbs rdma_ucm rdma_rxe"
LIBRARIES = "usr/lib/x86_64-linux-gnu"
INIT = """\
#!/bin/sh
export PATH=/bin:/sbin:/usr/bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
mkdir -p /dev/pts /run/lock /var/run && mount -t devpts pts /dev/pts
for module in $(cat /lib/modules/order); do insmod /lib/modules/$module; done
value() { sed -n "s/.*$1=\\([^ ]*\\).*/\\1/p" /proc/cmdline; }
hostname "guest$(value number)"
ip link set lo up
ip address add 10.0.2.15/24 dev eth0; ip link set eth0 up
ip link set eth1 up mtu 4200; ip address add 10.9.0.$(value number)/24 dev eth1
rdma link add rxe0 type rxe netdev eth1
echo "ssh-ed25519 $(value key) test" > /root/.ssh/authorized_keys
chmod 700 /root /root/.ssh; chmod 600 /root/.ssh/authorized_keys
echo GUEST is ready
exec dropbear -R -F -E -s
"""
MORE = image.More(
    kernel="linux-image-amd64",
    packages=(
        *("perftest", "iproute2", "libmnl0", "libibverbs1", "ibverbs-providers", "librdmacm1", "libibumad3"),
        *(
            "util-linux",
            "libnl-3-200",
            "libnl-route-3-200",
            "libpci3",
            "libbsd0",
            "libmd0",
            "libcap2",
            "libudev1",
            "zlib1g",
        ),
    ),
    programs=(
        "usr/bin/ib_write_bw",
        "usr/bin/rdma",
        "usr/bin/flock",
        f"{LIBRARIES}/libibverbs/librxe-rdmav34.so",
    ),
    files=("etc/libibverbs.d/rxe.driver",),
    applets="timeout true false test [ od printf readlink dirname basename date rm tee echo env mkfifo",
    init=INIT,
)
MEMORY_MIB = 512
BOOT = 240.0
"""Seconds until a guest accepts a login, without hardware virtualization, on a busy machine."""
LOGIN = 60.0
"""Seconds that one login may take: a guest that hangs after its first answer is tried again."""


@contextlib.contextmanager
def guests(
    folder: Path, cache: Path, key: Path, ports: Sequence[int], say: Say
) -> Generator[list[tuple[str, int]]]:
    """Two or more guests during the block: the address of each on the wire, and the port of its SSH on loopback.

    Args:
        key: private key for SSH; its public half is beside it.
        ports: of loopback: one for each guest's SSH, and one more for the wire.

    Raises `LabError` if one accepts no login.
    """
    made = image.ensure(cache, say, DRIVERS, MORE)
    public = key.with_suffix(".pub").read_text().split()[1]
    processes: list[subprocess.Popen[bytes]] = []
    wire = f"socket,id=wire,mcast=230.9.0.1:{ports[-1]},localaddr=127.0.0.1"
    try:
        for number, port in enumerate(ports[:-1], 1):
            words = (
                *("qemu-system-x86_64", "-accel", "tcg", "-cpu", "max", "-m", str(MEMORY_MIB), "-nographic"),
                "-nodefaults",
                *("-kernel", str(made.kernel), "-initrd", str(made.initrd), "-no-reboot", "-serial", "stdio"),
                *("-append", f"{image.COMMAND_LINE} number={number} key={public}"),
                *("-netdev", f"user,id=door,restrict=on,hostfwd=tcp:127.0.0.1:{port}-:22"),
                *("-device", "virtio-net-pci,netdev=door,romfile="),
                *("-netdev", wire),
                *("-device", f"virtio-net-pci,netdev=wire,mac=02:00:00:00:00:{number:02x},host_mtu=4200,romfile="),
            )  # fmt: skip
            with (folder / f"guest{number}.log").open("wb") as log:
                processes.append(
                    subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
                )
        for number, port in enumerate(ports[:-1], 1):
            _await(folder / f"guest{number}.log", processes[number - 1], key, port)
        yield [(f"10.9.0.{number}", port) for number, port in enumerate(ports[:-1], 1)]
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def ssh(key: Path) -> tuple[str, ...]:
    """A command that logs in without asking."""
    options = (
        "BatchMode=yes",
        "StrictHostKeyChecking=no",
        "UserKnownHostsFile=/dev/null",
        "ConnectTimeout=20",
    )
    return ("ssh", "-q", "-i", str(key), *(word for option in options for word in ("-o", option)))


def _await(log: Path, process: subprocess.Popen[bytes], key: Path, port: int) -> None:
    """Wait until the guest accepts a login and has its RDMA device. Raises `LabError`."""
    end = time.monotonic() + BOOT
    command = [*ssh(key), "-p", str(port), "root@127.0.0.1", "cat /sys/class/infiniband/rxe0/ports/1/state"]
    while True:
        answer = ""
        with contextlib.suppress(subprocess.TimeoutExpired):
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=LOGIN
            )
            answer = done.stdout + done.stderr
        if "ACTIVE" in answer:
            return
        if process.poll() is not None or time.monotonic() > end:
            said = log.read_text(errors="replace")[-1500:]
            raise LabError(f"a guest isn't ready: {answer}\n{said}")
        time.sleep(1)
