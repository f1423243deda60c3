"""The Debian packages: built, checked by lintian, installed into a root and purged; and a container image made
of it."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.helpers.paths import ROOT
from tests.packages.distributions import PROJECTS, project

nightly = pytest.mark.nightly
TOOLS = ("lintian", "mmdebstrap", "buildah")


def run(command: Sequence[str | Path], cwd: Path | None = None, code: int = 0) -> str:
    """Output of a command; fails the test for another exit code."""
    done = subprocess.run(
        command,
        cwd=cwd,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=1800,
        check=False,
    )
    assert done.returncode == code, f"{command}: {done.returncode}\n{done.stdout[-4000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the packages, built in a copy of this tree."""
    run([ROOT / "tools" / "packages.sh", *TOOLS])
    copy = tmp_path_factory.mktemp("tree")
    for name in run(["git", "ls-files", "-coz", "--exclude-standard"], cwd=ROOT).rstrip("\0").split("\0"):
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name, follow_symlinks=False)
    (copy / ".venv").symlink_to(ROOT / ".venv")
    run(["make", "deb"], cwd=copy)
    return copy / "build" / "deb"


@pytest.fixture(scope="module")
def root(packages: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with this machine's Debian release and the packages in /packages, without weft installed."""
    folder = tmp_path_factory.mktemp("root")
    release = run(["sh", "-c", ". /etc/os-release && echo $VERSION_CODENAME"]).strip()
    run(["mmdebstrap", "--variant=minbase", release, folder])
    folder.chmod(0o755)
    shutil.copytree(packages, folder / "packages")
    inside(folder, "apt-get -qq update")
    return folder


def inside(root: Path, command: str, code: int = 0) -> str:
    """Output of a shell command in the root; /proc is mounted while it runs, for maintainer scripts."""
    shell = f'mount -t proc proc {root}/proc && exec chroot {root} env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin sh -c "$0"'
    return run(["unshare", "--mount", "sh", "-c", shell, command], code=code)


def test_packages_have_the_version_of_the_distributions() -> None:
    """As the first entry of debian/changelog and the wheels' names have it."""
    version = (ROOT / "debian" / "changelog").read_text().partition("(")[2].partition(")")[0]
    assert {project(name)["project"]["version"] for name in PROJECTS} == {version}


@nightly
def test_packages_pass_lintian(packages: Path) -> None:
    """Errors and warnings; exceptions are in debian/*.lintian-overrides, with reasons."""
    run(["lintian", "--fail-on", "error,warning", *sorted(packages.glob("*.deb"))])


@nightly
def test_installed_service_runs_and_its_state_outlives_a_purge(root: Path) -> None:
    """Commands find their modules and examples; settings are root's and readable by weft; the state is weft's."""
    apt = "DEBIAN_FRONTEND=noninteractive apt-get -qq --no-install-recommends -y"
    inside(root, f"{apt} install /packages/weft_*.deb /packages/weft-check_*.deb")
    assert inside(root, "weft --version").startswith("weft ")
    inside(root, "weft site check /usr/share/doc/weft/examples/sites/small/site.yaml")
    assert inside(root, "weft-check --list").splitlines()
    assert inside(root, "stat -c '%a %U %G' /etc/weft /var/lib/weft").splitlines() == [
        "750 root weft",
        "700 weft weft",
    ]
    assert inside(root, "find /usr/lib/weft -name '*.pyc' | head -1"), (
        "without compiled files each start would compile them"
    )
    assert "/build/" not in inside(root, "cat /usr/lib/weft/bin/weft")
    inside(root, "systemctl is-enabled weft-serve.service 2>/dev/null", code=1)
    inside(root, "touch /var/lib/weft/receipts && dpkg --purge weft")
    assert inside(root, "ls -A /var/lib/weft /usr/lib/weft 2>/dev/null; true").split() == [
        "/var/lib/weft:",
        "receipts",
    ]


@nightly
def test_service_package_replaces_the_agents_package(root: Path) -> None:
    """Both have the program `weft`; that of the agents says which package has the other commands."""
    apt = "DEBIAN_FRONTEND=noninteractive apt-get -qq --no-install-recommends -y"
    inside(root, f"{apt} install /packages/weft-agents_*.deb")
    assert "weft-pods" in inside(root, "weft pod list", code=2)
    inside(
        root,
        "test -e /lib/systemd/system/weft-fabric-agent.service && test ! -e /lib/systemd/system/weft-serve.service",
    )
    inside(root, f"{apt} install /packages/weft_*.deb")
    assert inside(root, "dpkg-query -W -f '${db:Status-Abbrev}' weft-agents; weft pod --help").startswith(
        "rc"
    )


@nightly
def test_image_runs_the_service_as_weft_and_has_no_settings(
    root: Path, packages: Path, tmp_path: Path
) -> None:
    """Made by buildah from the root instead of a registry's image; processes don't run as root, settings are
    mounted."""
    buildah = [
        "buildah",
        "--root",
        str(tmp_path / "store"),
        "--runroot",
        str(tmp_path / "run"),
        "--storage-driver",
        "vfs",
    ]
    base = run([*buildah, "from", "scratch"]).strip()
    run([*buildah, "add", "-q", base, root, "/"])
    run([*buildah, "commit", "-q", base, "localhost/debian"])
    containerfile = ["-f", ROOT / "images" / "oci" / "Containerfile", "--build-arg", "BASE=localhost/debian"]
    run([*buildah, "build", "--isolation", "chroot", *containerfile, "-t", "weft", packages.parents[1]])
    image = json.loads(run([*buildah, "inspect", "--type", "image", "weft"]))["OCIv1"]["config"]
    assert (image["User"], image["Entrypoint"], image["Cmd"]) == ("weft", ["weft"], ["serve"])
    container = run([*buildah, "from", "weft"]).strip()
    try:
        assert run([*buildah, "run", "--isolation", "chroot", container, "--", "id", "-un"]).strip() == "weft"
        said = run(
            [*buildah, "run", "--isolation", "chroot", container, "--", "weft", "config", "check"], code=2
        )
        assert "/etc/weft/weft.toml" in said
    finally:
        run([*buildah, "rm", "--all"])
