"""A second weft beside the lab's own, with a site of its own, for people who type `weft`."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
import yaml

from tests.drivers.openstack.real_ironic import RealIronic
from tests.e2e.people import Answer, Person, wait_for
from weftlab.lab import Lab


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """People of the lab, who speak to the second weft and find its services."""

    lab: Lab
    folder: Path
    clouds: Path
    url: str

    def weft(self, cloud: str, *words: str, timeout: float = 600.0) -> Answer:
        own = {"WEFT_ENDPOINT": self.url, "OS_CLIENT_CONFIG_FILE": str(self.clouds)}
        return Person(self.lab, cloud, self.folder).weft(*words, timeout=timeout, **own)

    def release_all(self) -> None:
        for pod in self.weft("operator", "pod", "list", "--all-projects", "--json").json:
            if pod["state"] != "RELEASED":
                self.weft("operator", "pod", "release", pod["id"], "--wait")


def clouds_of(lab: Lab, neutron: str, ironic: RealIronic, folder: Path) -> Path:
    """A clouds.yaml with the lab's profiles, but with this Neutron and this Ironic."""
    places = {"network_endpoint_override": neutron, "baremetal_endpoint_override": ironic.url}
    known = yaml.safe_load(lab.clouds_yaml.read_text())["clouds"]
    file = folder / "clouds.yaml"
    file.write_text(yaml.safe_dump({"clouds": {name: one | places for name, one in known.items()}}))
    return file


@contextmanager
def second_weft(lab: Lab, site: Path, clouds: Path) -> Generator[Elsewhere]:
    """A second weft, while it serves. Whatever pods are left in the end are released."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    # Not in pytest's folder: the embedded PostgreSQL runs as a user of its own.
    with TemporaryDirectory(prefix="weft-second-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        argv = [sys.executable, "-m", "weft.cli.main", "serve", "--listen", f"127.0.0.1:{port}"]
        argv += ["--state", str(folder / "state"), "--cloud-profile", "weft", "--site", str(site)]
        known = {k: v for k, v in os.environ.items() if not k.startswith("OS_")}
        own = {**known, "OS_CLIENT_CONFIG_FILE": str(clouds), "XDG_RUNTIME_DIR": name}
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(argv, env=own, stdout=log, stderr=log, cwd=folder)
        people = Elsewhere(lab, site.parent, clouds, url)
        try:
            wait_for(lambda: process.poll() is not None or _is_ready(url), 180)
            assert process.poll() is None, (folder / "log").read_text()[-3000:]
            try:
                yield people
            except BaseException:
                print((folder / "log").read_text()[-6000:])
                raise
            finally:
                people.release_all()
            assert "Traceback" not in (folder / "log").read_text()
        finally:
            process.terminate()
            process.wait(60)


def _is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz", timeout=5).status_code == 200
    except httpx.HTTPError:
        return False
