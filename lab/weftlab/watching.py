"""A real Prometheus that reads a lab by the configuration which `weft site export` writes."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path
from typing import Any

import httpx
import yaml

from weftlab.environment import program
from weftlab.layout import LabError

PACKAGES = {"prometheus": "prometheus"}
SOON = "2s"
"""Instead of the exported intervals and waits of minutes, so that a demo ends soon."""
READY_SECONDS = 30.0


def quickly(folder: Path) -> None:
    """Shorten the intervals of exported files: read and evaluate every other second, and fire alerts after seconds."""
    configuration, rules = folder / "prometheus.yml", folder / "rules/weft.yml"
    document = yaml.safe_load(configuration.read_text())
    for job in (document["global"], *document["scrape_configs"]):
        job["scrape_interval"] = job["scrape_timeout"] = SOON
    document["global"]["evaluation_interval"] = SOON
    configuration.write_text(yaml.safe_dump(document))
    text = re.sub(r"(?m)^( +)interval: .*$", rf"\1interval: {SOON}", rules.read_text())
    rules.write_text(re.sub(r"(?m)^( +)for: .*$", rf"\1for: {SOON}", text))


class Watch:
    """A Prometheus that runs for the time of the block.

    Args:
        folder: of the export; the time series are below it, too.
        port: on loopback.
    """

    def __init__(self, folder: Path, port: int) -> None:
        self._folder, self._log = folder, folder / "log"
        self._client = httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=30)
        self._port = port
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Watch:
        """Start it. Raises `LabError` if it doesn't start."""
        words = (
            f"--config.file={self._folder / 'prometheus.yml'}", f"--storage.tsdb.path={self._folder / 'tsdb'}",
            f"--web.listen-address=127.0.0.1:{self._port}", "--log.level=warn",
        )  # fmt: skip
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [program("prometheus") or "prometheus", *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        end = time.monotonic() + READY_SECONDS
        while not self._is_ready():
            if self._process.poll() is not None or time.monotonic() > end:
                self.__exit__()
                raise LabError(f"Prometheus isn't ready:\n{self._log.read_text(errors='replace')[-800:]}")
            time.sleep(0.2)
        return self

    def __exit__(self, *error: object) -> None:
        self._client.close()
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _is_ready(self) -> bool:
        try:
            return self._client.get("/-/ready").status_code == 200
        except httpx.HTTPError:
            return False

    def query(self, expr: str) -> list[dict[str, Any]]:
        """Series of an instant query. Raises `LabError` if it isn't answered."""
        try:
            answer = self._client.get("/api/v1/query", params={"query": expr}).json()
        except (httpx.HTTPError, ValueError) as error:
            raise LabError(f"Prometheus doesn't answer {expr}: {error}") from error
        if answer.get("status") != "success":
            raise LabError(f"Prometheus refuses {expr}: {answer.get('error')}")
        return answer["data"]["result"]

    def firing(self, *names: str) -> list[dict[str, str]]:
        """Labels of the alerts of these names that fire."""
        found = self.query(f'ALERTS{{alertstate="firing",alertname=~"{"|".join(names)}"}}')
        return [series["metric"] for series in found]
