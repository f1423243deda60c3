"""The stand-in as a job of the lab: beside the fabric's OpenSMs, which it writes the partition files of."""

from __future__ import annotations

import json
import secrets
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from weft.fabricagent.tls import make_certificates
from weft.model.site import FabricManager, Site
from weftlab import checks
from weftlab.fabric.files import FabricFolder, description, manager_port, partitions_text
from weftlab.layout import Layout
from weftlab.service import Job, Service, Step

NODES = ("ufm-1", "ufm-2")
USER = "weft"


def credentials_path(layout: Layout) -> Path:
    """File with the user and password that weft signs in with."""
    return layout.etc / "ufm" / "credentials.yaml"


def ufm_manager(layout: Layout, beside: FabricManager, authentication: str = "basic") -> FabricManager:
    """How weft's site names the stand-in, with the agents that stand beside the lab's OpenSMs.

    Args:
        beside: the fabric's manager if OpenSM were it.
    """
    return FabricManager.model_validate(
        {
            **beside.model_dump(mode="json"),
            "driver": "ufm",
            "addresses": [f"https://127.0.0.1:{layout.port(node)}" for node in NODES],
            "authentication": authentication,
            "credentials": str(credentials_path(layout)),
        }
    )


def ufm_jobs(
    layout: Layout, site: Site, fabric: str, settings: dict[str, Any] | None = None
) -> tuple[Job, ...]:
    """`ufm-files` and `ufm`, after the fabric's last OpenSM.

    Args:
        settings: more of the program's configuration, such as `dialect`, `virtual`, `default_membership`.
    """
    place = FabricFolder(layout, fabric)
    agents = site.fabrics[fabric].manager.agents
    folder = credentials_path(layout).parent
    client = place.client(description(*manager_port(site, fabric, agents[0])))
    last = f"opensm-{agents[-1].name}"
    return (
        Step("ufm-files", run=lambda: _write(layout, site, place, settings or {}), after=("fabric-files",)),
        Service(
            name="ufm",
            argv=(sys.executable, "-m", "weftlab.ufm", "--config", str(folder / "ufm.json")),
            log=layout.log("ufm"),
            env={**client, "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"},
            cwd=layout.work / "ufm",
            ready=checks.answers_http(layout.port("ufm-control"), "/status"),
            after=("ufm-files", last),
        ),
    )


def ufm_hosts(layout: Layout, after: tuple[str, ...]) -> Service:
    """The program that reports hosts' virtual ports to the stand-in (`weftlab.ufm.hosts`), as a service."""
    return Service(
        name="ufm-hosts",
        argv=(
            *(sys.executable, "-m", "weftlab.ufm.hosts"),
            *(str(layout.site_path), str(layout.port("ufm-control"))),
        ),
        env={"OS_CLIENT_CONFIG_FILE": str(layout.clouds_yaml), "OS_CLOUD": "operator"},
        log=layout.log("ufm-hosts"),
        cwd=layout.work / "ufm-hosts",
        after=after,
    )


def _write(layout: Layout, site: Site, place: FabricFolder, more: dict[str, Any]) -> None:
    folder = credentials_path(layout).parent
    folder.mkdir(parents=True, exist_ok=True)
    (layout.data / "ufm").mkdir(parents=True, exist_ok=True)
    make_certificates(place.tls, {"ufm": ["127.0.0.1"]})
    credentials = credentials_path(layout)
    if not credentials.exists():
        credentials.touch(mode=0o600)
        credentials.write_text(
            yaml.safe_dump({"username": USER, "password": secrets.token_urlsafe(24)}, sort_keys=False)
        )
    password = yaml.safe_load(credentials.read_text())["password"]
    agents = site.fabrics[place.fabric].manager.agents
    ports = [manager_port(site, place.fabric, a)[1].port_guid for a in agents]
    addresses = site.fabrics[place.fabric].manager.addresses
    document = {
        "nodes": [
            {"name": name, "host": urlsplit(address).hostname, "port": urlsplit(address).port}
            for name, address in zip(NODES, addresses, strict=True)
        ],
        "control": layout.port("ufm-control"),
        "tls": {
            "certificate": str(place.tls / "agent-ufm.pem"),
            "key": str(place.tls / "agent-ufm.key"),
            "client_ca": str(place.tls / "ca.pem"),
        },
        "users": {USER: {"password": password, "role": "fabric_admin"}},
        "certificates": {"weft": USER},
        "default_partition": partitions_text(ports),
        "managers": [
            {
                "partitions": str(place.of(a.name) / "partitions.conf"),
                "pid_file": str(place.of(a.name) / "opensm.pid"),
            }
            for a in agents
        ],
        "state": str(layout.data / "ufm" / "state.json"),
        **more,
    }
    path = folder / "ufm.json"
    path.touch(mode=0o600)
    path.write_text(json.dumps(document, indent=1))
