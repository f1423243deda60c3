"""Debian's Prometheus and Alertmanager, and their checkers."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import httpx

from tests.helpers.paths import ROOT
from weftlab.layout import free_ports

T = TypeVar("T")


@cache
def programs() -> None:
    """Installs missing packages."""
    needed = {"prometheus": "prometheus", "amtool": "prometheus-alertmanager", "rsyslogd": "rsyslog"}
    missing = [package for program, package in needed.items() if shutil.which(program) is None]
    if missing:
        subprocess.run([ROOT / "tools/packages.sh", *missing], check=True, timeout=900)


def checked(*command: str | Path, cwd: Path | None = None, given: str | None = None) -> str:
    """Output of a checker that accepts its input; fails with its output otherwise."""
    programs()
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        input=given,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    return said


@contextmanager
def running(*command: str | Path, log: Path) -> Generator[subprocess.Popen[bytes]]:
    """A process that runs for the block."""
    programs()
    with log.open("wb") as out:
        process = subprocess.Popen([str(word) for word in command], stdout=out, stderr=out)
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def until(found: Callable[[], T | None], seconds: float = 60.0, why: str = "") -> T:
    """Polls `found` until it is true; its value."""
    ends = time.monotonic() + seconds
    while True:
        value = found()
        if value:
            return value
        assert time.monotonic() < ends, why or "it never came"
        time.sleep(0.2)


class Prometheus:
    """A running Prometheus. Args: url: of its API."""

    def __init__(self, url: str, process: subprocess.Popen[bytes]) -> None:
        self.url, self._process = url, process
        self.client = httpx.Client(base_url=url, trust_env=False, timeout=30)

    def query(self, expr: str) -> list[dict[str, Any]]:
        """Series of an instant query."""
        answer = self.client.get("/api/v1/query", params={"query": expr}).json()
        assert answer["status"] == "success", f"{expr}: {answer.get('error')}"
        return answer["data"]["result"]

    def targets(self) -> list[dict[str, Any]]:
        return self.client.get("/api/v1/targets").json()["data"]["activeTargets"]

    def is_up(self) -> bool:
        assert self._process.poll() is None, "it ended"
        try:
            return self.client.get("/-/ready").status_code == 200
        except httpx.HTTPError:
            return False


@contextmanager
def prometheus(config: Path, data: Path) -> Generator[Prometheus]:
    """A Prometheus on loopback with its own store."""
    programs()
    port = free_ports(25500, 26400)
    command = (
        "prometheus", f"--config.file={config}", f"--storage.tsdb.path={data}/tsdb", "--storage.tsdb.retention.time=1h",
        f"--web.listen-address=127.0.0.1:{port}", "--web.enable-lifecycle", "--log.level=warn",
    )  # fmt: skip
    with running(*command, log=data / "prometheus.log") as process:
        one = Prometheus(f"http://127.0.0.1:{port}", process)
        try:
            until(one.is_up, why=f"Prometheus isn't ready: {(data / 'prometheus.log').read_text()[-800:]}")
            yield one
        finally:
            one.client.close()


@contextmanager
def alertmanager(config: Path, data: Path) -> Generator[str]:
    """An Alertmanager on loopback without a cluster; its HOST:PORT."""
    programs()
    port = free_ports(26410, 26900)
    command = (
        "prometheus-alertmanager", f"--config.file={config}", f"--storage.path={data}/alerts",
        f"--web.listen-address=127.0.0.1:{port}", "--cluster.listen-address=", "--log.level=warn",
    )  # fmt: skip
    with running(*command, log=data / "alertmanager.log") as process:

        def ready() -> bool:
            assert process.poll() is None, (data / "alertmanager.log").read_text()[-800:]
            try:
                return httpx.get(f"http://127.0.0.1:{port}/-/ready", trust_env=False).status_code == 200
            except httpx.HTTPError:
                return False

        until(ready, why="Alertmanager isn't ready")
        yield f"127.0.0.1:{port}"


def dashboard_expressions(folder: Path) -> dict[str, str]:
    """Dashboard and panel -> expression as Grafana would send it, with all values for each variable."""
    found: dict[str, str] = {}
    for file in sorted(folder.glob("*.json")):
        for panel in json.loads(file.read_text())["panels"]:
            for target in panel["targets"]:
                expr = target["expr"].replace("$__rate_interval", "1m")
                for name in ("pod", "fabric"):
                    expr = expr.replace(f'"${name}"', '".*"')
                assert "$" not in expr, expr
                found[f"{file.stem}: {panel['title']} {target['refId']}"] = expr
    return found
