"""Each wheel is installed with its declared dependencies into an empty environment and started there."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.helpers.paths import SMALL
from tests.packages.distributions import PROJECTS, build
from weft import __version__

pytestmark = pytest.mark.nightly(
    reason="downloads 150 MB; by day the wheels' contents and the declared dependencies are compared with the imports"
)

MOST_OF_AGENTS = 40_000_000
"""Bytes on a subnet manager's host: weft-pods-agents with its dependencies, compiled."""


@dataclass(frozen=True, slots=True)
class Environment:
    """A virtual environment with one distribution."""

    folder: Path

    def __call__(self, program: str, *words: str) -> subprocess.CompletedProcess[str]:
        env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "WEFT", "OS_"))}
        command = [str(self.folder / "bin" / program), *words]
        return subprocess.run(
            command, cwd=self.folder, env=env, capture_output=True, text=True, timeout=600, check=False
        )

    def size(self) -> int:
        """Bytes on disk of what was installed besides pip."""
        [packages] = self.folder.glob("lib/python*/site-packages")
        return sum(
            file.lstat().st_blocks * 512
            for file in packages.rglob("*")
            if not file.relative_to(packages)
            .parts[0]
            .startswith(("pip", "setuptools", "_distutils", "distutils"))
        )


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheels")
    for name in PROJECTS:
        build(name, folder)
    return folder


@pytest.fixture
def install(wheels: Path, tmp_path: Path) -> Callable[[str], Environment]:
    """Installs a requirement; this tree's wheels come before the index."""

    def installed(requirement: str) -> Environment:
        subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "env")], check=True, timeout=120)
        environment = Environment(tmp_path / "env")
        done = environment("python", "-m", "pip", "install", "-q", "--find-links", str(wheels), requirement)
        assert done.returncode == 0, done.stderr
        assert environment("python", "-m", "pip", "check").returncode == 0
        return environment

    return installed


def test_agents_run_with_their_dependencies_alone(install: Callable[[str], Environment]) -> None:
    """In less than 40 MB; errors are one line, and commands of weft-pods name the distribution that has them."""
    run = install("weft-pods-agents")
    assert run.size() < MOST_OF_AGENTS
    assert run("weft", "--version").stdout == f"weft {__version__}\n"
    assert "next to each OpenSM" in run("weft", "fabric-agent", "--help").stdout
    assert "sends frames" in run("weft", "probe-agent", "--help").stdout
    missing = run("weft", "fabric-agent", "--config", "/nonexistent/agent.yaml")
    assert missing.returncode == 2 and missing.stderr.startswith("weft fabric-agent: ")
    assert "/nonexistent/agent.yaml" in missing.stderr and "Traceback" not in missing.stderr
    certs = run(
        "weft", "fabric-agent", "certs", "--dir", str(run.folder / "certs"), "--agent", "sm1=127.0.0.1"
    )
    assert certs.returncode == 0 and (run.folder / "certs" / "agent-sm1.pem").is_file(), certs.stderr
    other = run("weft", "pod", "list")
    assert other.returncode == 2 and "install weft-pods" in other.stderr


def test_service_runs_with_its_dependencies_alone(install: Callable[[str], Environment]) -> None:
    """Without extras, lab and openvipu: version, help, check of a site, and one sentence for a missing extra."""
    run = install("weft-pods")
    assert run("weft", "--version").stdout == f"weft {__version__}\n"
    help_ = run("weft", "--help")
    assert help_.returncode == 0 and "fabric-agent" in help_.stdout and "lab" not in help_.stdout.split()
    checked = run("weft", "site", "check", str(SMALL / "site.yaml"))
    assert checked.returncode == 0 and "no module" not in checked.stdout, checked.stderr
    ipus = run("weft", "site", "check", str(SMALL.parent / "ipupod64" / "site.yaml"))
    assert ipus.returncode == 0 and "no module grpc: pip install 'weft-pods[vipu]'" in ipus.stdout
    assert run("python", "-c", "import weft.api.server, weft.app.workerprocess").returncode == 0


def test_lab_and_openvipu_run_with_their_dependencies_alone(
    install: Callable[[str], Environment],
) -> None:
    """weft-pods-lab installs weft, its extra for IPUs, and openvipu's programs."""
    run = install("weft-pods-lab")
    lab = run("weft", "lab", "--help")
    assert lab.returncode == 0 and "usage: weft lab" in lab.stdout, lab.stderr
    for program in ("openvipu-server", "openvipu-agent", "openvipu-sim", "vipu", "vipu-admin"):
        started = run(program, "--help")
        assert started.returncode == 0, started.stderr
    ipus = run("weft", "site", "check", str(SMALL.parent / "ipupod64" / "site.yaml"))
    assert ipus.returncode == 0 and "no module" not in ipus.stdout
