"""Scripts of the elements, run on folders in place of an image: those of the guest, and some of the build."""

from __future__ import annotations

import os
import subprocess
import tarfile
from pathlib import Path

import pytest

ELEMENTS = Path(__file__).parents[2] / "images/elements"
PKEYS = ELEMENTS / "weft-ipoib/static/usr/local/bin/weft-pkeys"
LOAD = ELEMENTS / "weft-ipoib/static/usr/local/sbin/weft-ipoib"


def program(folder: Path, name: str, text: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


def run(script: Path, root: Path, argument: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    path = f"{root / 'bin'}:{os.environ['PATH']}"
    env = {"PATH": path, "WEFT_ROOT": str(root), "WEFT_IPOIB_TRIES": "0", "ARCH": "amd64", **variables}
    return subprocess.run(
        [script, *filter(None, [argument])], env=env, capture_output=True, text=True, check=False
    )


class TestLoadingModules:
    """`weft-ipoib`, as its service starts it."""

    @pytest.fixture
    def root(self, tmp_path: Path) -> Path:
        """A machine with a two-port InfiniBand adapter and one Ethernet adapter."""
        for device, port, link in (
            ("mlx5_0", 1, "InfiniBand"),
            ("mlx5_0", 2, "InfiniBand"),
            ("mlx5_1", 1, "Ethernet"),
        ):
            folder = tmp_path / f"sys/class/infiniband/{device}/ports/{port}"
            folder.mkdir(parents=True)
            (folder / "link_layer").write_text(link + "\n")
        for port in (1, 2):
            self.interface(tmp_path, port)
        (tmp_path / "etc/weft").mkdir(parents=True)
        (tmp_path / "etc/weft/ipoib-modules").write_text("mlx5_ib\nib_ipoib")
        program(tmp_path / "bin", "modprobe", f'echo "$1" >> {tmp_path}/loaded')
        program(tmp_path / "bin", "udevadm", f'echo "$1" >> {tmp_path}/loaded')
        return tmp_path

    @staticmethod
    def interface(root: Path, port: int, kind: str = "32") -> Path:
        folder = root / f"sys/class/infiniband/mlx5_0/device/net/ib{port}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "type").write_text(kind + "\n")
        (folder / "dev_port").write_text(f"{port - 1}\n")
        return folder

    def test_modules_are_loaded_in_their_order_and_renaming_is_waited_for(self, root: Path) -> None:
        ran = run(LOAD, root)
        assert (ran.returncode, ran.stderr) == (0, "")
        assert (root / "loaded").read_text().split() == ["mlx5_ib", "ib_ipoib", "settle"]

    def test_missing_module_is_named_and_the_others_are_loaded(self, root: Path) -> None:
        program(root / "bin", "modprobe", f'[ "$1" != mlx5_ib ] && echo "$1" >> {root}/loaded')
        ran = run(LOAD, root)
        assert ran.returncode == 1
        assert ran.stderr == "weft-ipoib: module mlx5_ib could not be loaded\n"
        assert (root / "loaded").read_text().split() == ["ib_ipoib", "settle"]

    def test_ports_without_an_interface_are_named(self, root: Path) -> None:
        self.interface(root, 1, kind="1")
        (self.interface(root, 2) / "dev_port").unlink()
        ran = run(LOAD, root)
        assert ran.returncode == 1
        assert ran.stderr == "weft-ipoib: no network interface for mlx5_0/1, mlx5_0/2\n"

    def test_late_interface_is_waited_for(self, root: Path) -> None:
        late = self.interface(root, 2)
        (late / "type").unlink()
        program(root / "bin", "sleep", f"echo 32 > {late}/type; echo slept >> {root}/loaded")
        ran = run(LOAD, root, WEFT_IPOIB_TRIES="3")
        assert (ran.returncode, ran.stderr) == (0, "")
        assert (root / "loaded").read_text().split().count("slept") == 1

    def test_wait_for_interfaces_times_out(self, root: Path) -> None:
        (self.interface(root, 2) / "type").unlink()
        program(root / "bin", "sleep", f"echo slept >> {root}/loaded")
        assert run(LOAD, root, WEFT_IPOIB_TRIES="3").returncode == 1
        assert (root / "loaded").read_text().split().count("slept") == 3

    def test_machine_without_adapters_boots(self, root: Path) -> None:
        (root / "sys").rename(root / "none")
        assert run(LOAD, root).returncode == 0


class TestRepositories:
    """NVIDIA's repositories, with a `curl` that records its arguments."""

    @pytest.fixture
    def root(self, tmp_path: Path) -> Path:
        program(tmp_path / "bin", "curl", f'echo "$*" >> {tmp_path}/asked; echo key > "$6"')
        program(tmp_path / "bin", "dpkg", f'echo "$1" >> {tmp_path}/asked')
        return tmp_path

    DOCA = ELEMENTS / "weft-doca-ofed/pre-install.d/50-weft-doca-repository"
    CUDA = ELEMENTS / "weft-cuda/pre-install.d/50-weft-cuda-repository"

    def settings(self, name: str, **given: str) -> dict[str, str]:
        """The element's variables, from its environment.d and the given ones."""
        (path,) = (ELEMENTS / name / "environment.d").iterdir()
        shown = subprocess.run(
            ["bash", "-euc", f". {path}; env"], env=given, capture_output=True, text=True, check=True
        )
        return dict(line.split("=", 1) for line in shown.stdout.splitlines() if line.startswith("WEFT_"))

    @pytest.mark.parametrize(("arch", "folder"), [("amd64", "x86_64"), ("arm64", "arm64-sbsa")])
    def test_doca_is_installed_on_debian(self, root: Path, arch: str, folder: str) -> None:
        (root / "etc/apt/sources.list.d").mkdir(parents=True)
        given = self.settings("weft-doca-ofed", WEFT_DOCA_VERSION="3.1.0", WEFT_DOCA_DISTRO="ubuntu24.04")
        assert run(self.DOCA, root, **given, ARCH=arch).returncode == 0
        base = "https://linux.mellanox.com/public/repo/doca"
        assert (root / "etc/apt/sources.list.d/doca.list").read_text() == (
            f"deb [signed-by=/etc/apt/keyrings/doca.asc] {base}/3.1.0/ubuntu24.04/{folder}/ ./\n"
        )
        assert (root / "asked").read_text().endswith(f"{base}/GPG-KEY-Mellanox.pub\n")
        assert (root / "etc/apt/keyrings/doca.asc").exists()

    def test_doca_is_installed_from_a_mirror_on_red_hat(self, root: Path) -> None:
        (root / "etc/yum.repos.d").mkdir(parents=True)
        given = self.settings(
            "weft-doca-ofed", WEFT_DOCA_URL="https://mirror/doca/", WEFT_DOCA_KEY_URL="https://mirror/key"
        )
        assert run(self.DOCA, root, **given).returncode == 0
        lines = (root / "etc/yum.repos.d/doca.repo").read_text().splitlines()
        assert {"baseurl=https://mirror/doca/", "gpgcheck=1", "gpgkey=https://mirror/key"} <= set(lines)

    def test_unavailable_repository_key_stops_the_build(self, root: Path) -> None:
        (root / "etc/apt/sources.list.d").mkdir(parents=True)
        program(root / "bin", "curl", "exit 22")
        given = self.settings("weft-doca-ofed", WEFT_DOCA_VERSION="9.9", WEFT_DOCA_DISTRO="ubuntu24.04")
        assert run(self.DOCA, root, **given).returncode == 22
        assert not (root / "etc/apt/sources.list.d/doca.list").exists()

    def test_cuda_is_installed_on_debian(self, root: Path) -> None:
        (root / "etc/apt").mkdir(parents=True)
        given = self.settings(
            "weft-cuda", WEFT_CUDA_TOOLKIT="cuda-toolkit-12-8", WEFT_CUDA_DISTRO="ubuntu2404"
        )
        assert run(self.CUDA, root, **given, ARCH="arm64").returncode == 0
        url = "https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2404/sbsa/cuda-keyring_1.1-1_all.deb"
        assert (root / "asked").read_text().splitlines()[0].endswith(url)
        assert "--install" in (root / "asked").read_text()

    def test_cuda_is_installed_on_red_hat(self, root: Path) -> None:
        (root / "etc/yum.repos.d").mkdir(parents=True)
        given = self.settings("weft-cuda", WEFT_CUDA_TOOLKIT="cuda-toolkit-12-8", WEFT_CUDA_DISTRO="rhel9")
        assert run(self.CUDA, root, **given).returncode == 0
        assert (root / "asked").read_text().endswith("/compute/cuda/repos/rhel9/x86_64/cuda-rhel9.repo\n")
        assert (root / "etc/yum.repos.d/cuda.repo").exists()

    @pytest.mark.parametrize("script", [DOCA, CUDA])
    def test_unsupported_distribution_is_refused(self, root: Path, script: Path) -> None:
        given = {
            "WEFT_DOCA_URL": "https://mirror/",
            "WEFT_CUDA_REPOSITORIES": "https://mirror",
            "WEFT_CUDA_DISTRO": "x",
        }
        ran = run(script, root, **given, ARCH="ppc64le")
        assert ran.returncode == 1
        assert "ARCH is ppc64le; NVIDIA has amd64 and arm64" in ran.stderr
        ran = run(script, root, **given)
        assert ran.returncode == 1
        assert "the image has neither apt nor dnf" in ran.stderr


class TestPoplar:
    """Archives with the layout of Graphcore's."""

    TAKE = ELEMENTS / "weft-poplar/extra-data.d/60-weft-poplar"
    INSTALL = ELEMENTS / "weft-poplar/install.d/70-weft-poplar"

    def archive(self, path: Path, *files: str) -> str:
        source = path.parent / f"{path.name}.d"
        for name in files:
            program((source / name).parent, Path(name).name, "echo ran")
        with tarfile.open(path, "w:gz") as tar:
            tar.add(source, arcname=".")
        return str(path)

    def build(self, root: Path, sdk: str, client: str, **sums: str) -> subprocess.CompletedProcess[str]:
        """As diskimage-builder does: puts the archives into the hooks, then runs the hook."""
        hooks = root / "hooks"
        (hooks / "install.d").mkdir(parents=True)
        given = {"WEFT_POPLAR_SDK": sdk, "WEFT_VIPU_CLIENT": client, "TMP_HOOKS_PATH": str(hooks)}
        given |= {"WEFT_POPLAR_SDK_SHA256": "", "WEFT_VIPU_CLIENT_SHA256": "", **sums}
        taken = run(self.TAKE, root, **given)
        if taken.returncode:
            return taken
        script = hooks / "install.d/70-weft-poplar"
        script.write_text(self.INSTALL.read_text())
        script.chmod(0o755)
        return run(script, root, **given)

    @pytest.mark.parametrize("enables", ["enable", "poplar-ubuntu_20_04-3.3.0/enable.sh"])
    def test_sdk_and_client_are_installed(self, tmp_path: Path, enables: str) -> None:
        sdk = self.archive(
            tmp_path / "sdk.tar.gz", f"poplar_sdk-ubuntu_20_04-3.3.0/{enables}"
        )  # tar's names begin with "./"
        built = self.build(tmp_path, sdk, self.archive(tmp_path / "vipu.tar.gz", "vipu-1.18/bin/vipu"))
        assert built.returncode == 0, built.stderr
        assert os.access(tmp_path / "usr/local/bin/vipu", os.X_OK)
        assert os.access(tmp_path / "opt/poplar" / enables, os.X_OK)
        assert [path.name for path in (tmp_path / "opt").iterdir()] == ["poplar"]
        assert list((tmp_path / "hooks").glob("*.tar")) == [], (
            "archives of gigabytes must not stay in the image"
        )

    def test_archive_without_an_sdk_is_refused(self, tmp_path: Path) -> None:
        other = self.archive(tmp_path / "other.tar.gz", "folder/readme")
        built = self.build(tmp_path, other, self.archive(tmp_path / "vipu.tar.gz", "vipu"))
        assert built.returncode == 1
        assert "other.tar.gz is no Poplar SDK" in built.stderr

    @pytest.mark.parametrize("files", [["bin/vipu-admin"], ["a/vipu", "b/vipu"]])
    def test_archive_without_exactly_one_client_is_refused(self, tmp_path: Path, files: list[str]) -> None:
        sdk = self.archive(tmp_path / "sdk.tar.gz", "poplar_sdk/enable")
        built = self.build(tmp_path, sdk, self.archive(tmp_path / "vipu.tar.gz", *files))
        assert built.returncode == 1
        assert "must have exactly one executable file named vipu" in built.stderr

    def test_missing_archive_is_refused(self, tmp_path: Path) -> None:
        built = self.build(tmp_path, str(tmp_path / "sdk"), str(tmp_path / "vipu"))
        assert built.returncode == 1
        assert built.stderr == f"weft-poplar: WEFT_POPLAR_SDK is {tmp_path}/sdk; there is no such file\n"

    def test_archive_with_another_checksum_is_refused(self, tmp_path: Path) -> None:
        sdk = self.archive(tmp_path / "sdk.tar.gz", "poplar_sdk/enable")
        built = self.build(tmp_path, sdk, sdk, WEFT_POPLAR_SDK_SHA256="0" * 64)
        assert built.returncode == 1
        assert f"the SHA-256 sum of {sdk} is not {'0' * 64} (WEFT_POPLAR_SDK_SHA256)" in built.stderr


class TestPartitionKeys:
    """`weft-pkeys`: finds the pod's P_Key and its index in the ports' tables."""

    @staticmethod
    def table(root: Path, device: str, *keys: int, link: str = "InfiniBand") -> None:
        port = root / f"sys/class/infiniband/{device}/ports/1"
        (port / "pkeys").mkdir(parents=True)
        (port / "link_layer").write_text(f"{link}\n")
        for index, key in enumerate(keys):
            (port / f"pkeys/{index}").write_text(f"{key:#06x}\n")

    def test_full_membership_is_taken_as_the_pods_p_key(self, tmp_path: Path) -> None:
        """With its index, after the default partition; Ethernet ports have none."""
        self.table(tmp_path, "mlx5_0", 0x7FFF, 0x8101, 0)
        self.table(tmp_path, "mlx5_1", 0x7FFF, 0x8101, 0)
        self.table(tmp_path, "mlx5_2", 0xFFFF, link="Ethernet")
        ran = run(PKEYS, tmp_path)
        assert (ran.returncode, ran.stdout, ran.stderr) == (0, "UCX_IB_PKEY=0x101\nNCCL_IB_PKEY=1\n", "")

    def test_one_of_several_p_keys_must_be_named(self, tmp_path: Path) -> None:
        """A key with limited membership only counts if it is named."""
        self.table(tmp_path, "mlx5_0", 0xFFFF, 0x8101, 0x8102, 0x0103)
        ran = run(PKEYS, tmp_path)
        assert (ran.returncode, ran.stderr) == (1, "weft-pkeys: several P_Keys, name one: 0x101 0x102 \n")
        for key, index in (("0x102", 2), ("0x8101", 1), ("0x103", 3)):
            assert run(PKEYS, tmp_path, argument=key).stdout.endswith(f"NCCL_IB_PKEY={index}\n")
        assert run(PKEYS, tmp_path, argument="101").returncode == 2

    def test_index_that_differs_between_ports_is_left_out(self, tmp_path: Path) -> None:
        """NCCL uses one index for all ports; UCX finds the P_Key itself."""
        self.table(tmp_path, "mlx5_0", 0x7FFF, 0x8101)
        self.table(tmp_path, "mlx5_1", 0x8101, 0x7FFF)
        ran = run(PKEYS, tmp_path)
        assert (ran.returncode, ran.stdout) == (1, "UCX_IB_PKEY=0x101\n")
        assert "its index differs between ports (0, 1)" in ran.stderr

    def test_port_without_the_p_key_is_named(self, tmp_path: Path) -> None:
        """As before the pod's adapters are in its partition; a machine without InfiniBand says so."""
        assert run(PKEYS, tmp_path).stderr == "weft-pkeys: no InfiniBand port\n"
        self.table(tmp_path, "mlx5_0", 0x7FFF, 0x8101)
        self.table(tmp_path, "mlx5_1", 0x7FFF, 0)
        ran = run(PKEYS, tmp_path)
        said = "weft-pkeys: no P_Key of a pod in the table of mlx5_1/ports/1\n"
        assert (ran.returncode, ran.stdout, ran.stderr) == (1, "", said)
