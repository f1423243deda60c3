"""A Debian image built by diskimage-builder with the elements that need nothing of NVIDIA or Graphcore."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.helpers.archives import unpack

REPOSITORY = Path(__file__).parents[2]
TOOLS = REPOSITORY / ".venv/bin"
NOTHING = "ok    file: there is no /etc/weft/host-checks.conf: nothing is expected\n"
MODULES = ["mlx5_core", "mlx5_ib", "ib_ipoib", "ib_umad"]


def build(folder: Path, *elements: str) -> subprocess.CompletedProcess[str]:
    """As operators do, but as a tar archive: partitions need device-mapper, which not every machine has."""
    subprocess.run([REPOSITORY / "tools/packages.sh", "debootstrap", "sudo"], check=True)
    (folder / "tmp").mkdir()
    env = {
        **os.environ,
        "PATH": f"{TOOLS}:{os.environ['PATH']}",
        "ELEMENTS_PATH": str(REPOSITORY / "images/elements"),
        "DIB_RELEASE": "bookworm",
        "DIB_DEBIAN_SECURITY_MIRROR": "http://deb.debian.org/debian-security",
        "TMP_DIR": str(folder / "tmp"),
        "DIB_IMAGE_CACHE": str(folder / "cache"),
    }
    return subprocess.run(
        [TOOLS / "disk-image-create", "--no-tmpfs", "-t", "tar", "-o", folder / "guest", *elements],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=3600,
    )


@pytest.mark.nightly(reason="builds an image, minutes; scripts and units are tested one by one by day")
def test_debian_image_contains_what_its_elements_install(tmp_path: Path) -> None:
    """A single test: several could run in several processes, each of which would build the image."""
    built = build(tmp_path, "debian-minimal", "cloud-init", "weft-ipoib", "weft-host-checks")
    assert built.returncode == 0, built.stdout[-5000:]
    image = tmp_path / "root"
    unpack(tmp_path / "guest.tar", image)
    _services_are_enabled(image)
    _boot_has_no_cycle(image)
    _modules_are_in_the_kernel_and_in_its_initial_ram_disk(image)
    _checks_run_on_the_images_python(image)


def _services_are_enabled(image: Path) -> None:
    units = image / "etc/systemd/system"
    for wanted in (
        "sysinit.target.wants/weft-ipoib.service",
        "multi-user.target.wants/weft-host-checks.service",
    ):
        assert (units / wanted).is_symlink()
    assert os.access(image / "usr/local/sbin/weft-ipoib", os.X_OK)
    assert os.access(image / "usr/local/bin/weft-host-checks", os.X_OK)


def _boot_has_no_cycle(image: Path) -> None:
    """systemd breaks a cycle by dropping a unit such as cloud-init-local. A planted cycle is the control."""
    said = _verified(image)
    assert "cycle" not in said and "weft-" not in said, said
    wrong = image / "etc/systemd/system/weft-ipoib.service.d/wrong.conf"
    wrong.parent.mkdir()
    wrong.write_text("[Unit]\nAfter=multi-user.target\n")
    assert "ordering cycle" in _verified(image)


def _verified(image: Path) -> str:
    words = ("--man=no", f"--root={image}", "default.target", "cloud-init-local.service")
    command = ["systemd-analyze", "verify", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300).stderr


def _modules_are_in_the_kernel_and_in_its_initial_ram_disk(image: Path) -> None:
    assert (image / "etc/weft/ipoib-modules").read_text().split() == MODULES
    (kernel,) = (image / "lib/modules").iterdir()
    command = ["chroot", image, "lsinitramfs", f"/boot/initrd.img-{kernel.name}"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout
    for module in MODULES:
        assert f"/{module}.ko" in listed


def _checks_run_on_the_images_python(image: Path) -> None:
    command = ["chroot", image, "weft-host-checks", "--root", "/nowhere"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert (ran.returncode, ran.stdout) == (0, NOTHING)
