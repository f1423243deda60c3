"""An image of Debian, built by diskimage-builder with the elements that need nothing of NVIDIA or Graphcore."""

from __future__ import annotations

import os
import subprocess
import tarfile
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
TOOLS = REPOSITORY / ".venv/bin"
NOTHING = "ok    file: there is no /etc/weft/host-checks.conf: nothing is expected\n"
MODULES = ["mlx5_core", "mlx5_ib", "ib_ipoib", "ib_umad"]


def build(folder: Path, *elements: str) -> subprocess.CompletedProcess[str]:
    """As an operator does. A tar archive: partitions need device-mapper, which not every machine has."""
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
    )


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The image's root, unpacked."""
    folder = tmp_path_factory.mktemp("image")
    built = build(folder, "debian-minimal", "cloud-init", "weft-ipoib", "weft-host-checks")
    assert built.returncode == 0, built.stdout[-5000:]
    root = folder / "root"
    with tarfile.open(folder / "guest.tar") as tar:
        tar.extractall(root, filter="tar")
    return root


@pytest.mark.nightly(reason="builds an image, minutes; scripts and units are tested one by one by day")
class TestBuiltImage:
    def test_services_are_enabled(self, image: Path) -> None:
        units = image / "etc/systemd/system"
        for wanted in (
            "sysinit.target.wants/weft-ipoib.service",
            "multi-user.target.wants/weft-host-checks.service",
        ):
            assert (units / wanted).is_symlink()
        assert os.access(image / "usr/local/sbin/weft-ipoib", os.X_OK)
        assert os.access(image / "usr/local/bin/weft-host-checks", os.X_OK)

    def test_boot_has_no_cycle(self, image: Path) -> None:
        """systemd breaks a cycle by leaving out a unit, such as cloud-init-local."""
        verified = subprocess.run(
            [
                "systemd-analyze",
                "verify",
                "--man=no",
                f"--root={image}",
                "default.target",
                "cloud-init-local.service",
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        assert "cycle" not in verified.stderr, verified.stderr
        assert "weft-" not in verified.stderr, verified.stderr

    def test_modules_are_in_the_kernel_and_in_its_initial_ram_disk(self, image: Path) -> None:
        assert (image / "etc/weft/ipoib-modules").read_text().split() == MODULES
        (kernel,) = (image / "lib/modules").iterdir()
        listed = subprocess.run(
            ["chroot", image, "lsinitramfs", f"/boot/initrd.img-{kernel.name}"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for module in MODULES:
            assert f"/{module}.ko" in listed

    def test_checks_run_on_the_images_python(self, image: Path) -> None:
        ran = subprocess.run(
            ["chroot", image, "weft-host-checks", "--root", "/nowhere"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (ran.returncode, ran.stdout) == (0, NOTHING)
