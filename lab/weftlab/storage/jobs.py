"""Cinder, Manila and the filer as jobs of the lab's graph."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

from weftlab import checks, config, database, environment
from weftlab.bootstrap import connect
from weftlab.catalog import COLLECTOR, REQUEST_LOG
from weftlab.config import REGION, SECRET
from weftlab.environment import Say
from weftlab.layout import Layout
from weftlab.service import Job, Service, Step, wait_until
from weftlab.storage import config as own
from weftlab.storage import filer
from weftlab.switches.openvswitch import Ovs

PINS = Path(__file__).with_name("constraints.txt")
PROGRAMS = Path(__file__).with_name("programs")
DISTRIBUTIONS = ("cinder", "manila", "pymysql", "pyuwsgi", "fixtures")
"""What is installed. Cinder's fake driver is among its tests, and imports fixtures."""
DATABASES = ("cinder", "manila")
QUIET = {"PYTHONWARNINGS": "ignore"}
TYPES = {"cinder": "block-storage", "manila": "shared-file-system"}
PATHS = {"cinder": "/v3", "manila": "/v2"}
PATIENCE = 180.0
VERSION = "2.45"
"""Manila's microversion."""


def ensure(cache: Path, say: Say) -> Path:
    """The environment of Cinder and Manila. Raises `LabError`."""
    return environment.ensure_other(cache, "storage", PINS, DISTRIBUTIONS, say)


def write(layout: Layout) -> None:
    """Configuration, Manila's driver, and the folders that they name."""
    env = environment.other_path(layout.cache, "storage", PINS, DISTRIBUTIONS)
    for name, sections in (("cinder", own.cinder(layout, env)), ("manila", own.manila(layout, env))):
        (layout.etc / name).mkdir(parents=True, exist_ok=True)
        (layout.data / name / "lock").mkdir(parents=True, exist_ok=True)
        (layout.etc / name / f"{name}.conf").write_text(config.render(sections))
    shutil.copy(PROGRAMS / "weftlab_manila.py", layout.etc / "manila")
    filer.write(own.folder(layout), own.FILER, own.NFS_PORT)


def storage_jobs(layout: Layout, filled: tuple[str, ...], ovs: Ovs | None = None) -> tuple[Job, ...]:
    """Jobs of a lab with storage.

    Args:
        filled: jobs after which the databases have all that they have in every lab.
        ovs: switches that guests are on, which are to reach the filer.
    """
    env = environment.other_path(layout.cache, "storage", PINS, DISTRIBUTIONS)
    jobs: list[Job] = [Step("accounts of storage", lambda: _accounts(layout), after=("policies",))]
    for name in DATABASES:
        schema = [str(env / "bin" / f"{name}-manage"), *_conf(layout, name), "db", "sync"]
        jobs.append(Step(f"schema of {name}", _run(layout, name, schema, env), after=filled))
        jobs.append(_api(layout, env, name))
    for name, part, needs in (
        ("cinder", "scheduler", ()),
        ("cinder", "volume", ()),
        ("manila", "scheduler", ()),
        ("manila", "share", ("filer",)),
    ):
        jobs.append(_part(layout, env, name, part, needs))
    folder = own.folder(layout)
    jobs += [
        Service(
            name="filer",
            argv=(sys.executable, "-m", "weftlab.storage.filer", str(folder), _filer_address()),
            env={"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
            log=layout.log("filer"),
            logs=(folder / "ganesha.log",),
            cwd=layout.work / "filer",
            ready=lambda: filer.why_not(folder),
            timeout=60,
        ),
        Step("storage network", lambda: _network(layout), after=("policies",)),
        Step(
            "storage",
            lambda: wait_until(lambda: _why_not(layout), PATIENCE),
            after=(
                "cinder",
                "manila",
                "cinder-volume",
                "cinder-scheduler",
                "manila-share",
                "manila-scheduler",
            ),
        ),
    ]
    if ovs is not None:
        cable = Step(
            "filer's cable", lambda: filer.plug(folder, ovs, own.VLAN), after=("filer", "host-bridges")
        )
        jobs.append(cable)
    return tuple(jobs)


def _run(layout: Layout, name: str, command: list[str], env: Path) -> Any:
    return lambda: database.run(layout, name, command, env)


def _conf(layout: Layout, name: str) -> tuple[str, str]:
    return ("--config-file", str(layout.etc / name / f"{name}.conf"))


def _filer_address() -> str:
    return f"{own.FILER}/{own.CIDR.partition('/')[2]}"


def _api(layout: Layout, env: Path, name: str) -> Service:
    return Service(
        name=name,
        argv=(
            str(env / "bin" / "uwsgi"),
            *("--http-socket", f"127.0.0.1:{layout.port(name)}"),
            *("--module", f"{name}.wsgi.api:application", "--home", str(env), *COLLECTOR),
            *("--pyargv", " ".join(_conf(layout, name))),
            *("--threads", "4", "--enable-threads", "--need-app", "--die-on-term"),
            *("--buffer-size", "65535", "--add-header", "Connection: close", *REQUEST_LOG),
        ),
        env=QUIET,
        log=layout.log(f"{name}-uwsgi"),
        logs=(layout.log(name),),
        cwd=layout.work / name,
        ready=checks.answers_http(layout.port(name)),
        after=(f"schema of {name}", "accounts of storage", "rabbitmq"),
        timeout=180,
        stop=signal.SIGKILL,
    )


def _part(layout: Layout, env: Path, name: str, part: str, needs: tuple[str, ...]) -> Service:
    program = f"{name}-{part}"
    return Service(
        name=program,
        argv=(str(env / "bin" / program), *_conf(layout, name), "--log-file", str(layout.log(program))),
        env={
            **QUIET,
            "PYTHONPATH": str(layout.etc / "manila"),
            "PATH": f"{env / 'bin'}:{os.environ['PATH']}",
        },
        log=layout.log(f"{program}-out"),
        logs=(layout.log(program),),
        cwd=layout.work / program,
        after=(f"schema of {name}", "rabbitmq", *needs),
        stop=signal.SIGKILL,
    )


def _accounts(layout: Layout) -> None:
    """Create the users of both services and their entries in the catalog."""
    identity: Any = connect(layout).identity
    roles = {r.name: r for r in identity.roles()}
    service = identity.find_project("service", ignore_missing=False)
    for name, kind in TYPES.items():
        user = identity.find_user(name) or identity.create_user(
            name=name, password=SECRET, domain_id="default", default_project_id=service.id
        )
        for role in ("admin", "service"):
            identity.assign_project_role_to_user(service, user, roles[role])
        if not identity.find_service(name):
            made = identity.create_service(name=name, type=kind)
            for interface in ("public", "internal"):
                url = layout.url(name) + PATHS[name]
                identity.create_endpoint(service_id=made.id, interface=interface, region_id=REGION, url=url)


def _network(layout: Layout) -> None:
    """Create the site's storage network in weft's own project, shared with all projects."""
    cloud = connect(layout)
    network: Any = cloud.network
    if network.find_network(own.NETWORK):
        return
    identity: Any = cloud.identity
    service = identity.find_project("service", ignore_missing=False)
    made = network.create_network(
        name=own.NETWORK,
        project_id=service.id,
        provider_network_type="vlan",
        provider_physical_network="physnet1",
        provider_segmentation_id=own.VLAN,
    )
    pool = [{"start": "10.79.0.10", "end": "10.79.0.250"}]
    network.create_subnet(
        network_id=made.id,
        project_id=service.id,
        ip_version=4,
        cidr=own.CIDR,
        gateway_ip=None,
        enable_dhcp=False,
        allocation_pools=pool,
    )
    network.create_rbac_policy(
        object_type="network", object_id=made.id, action="access_as_shared", target_project_id="*"
    )


def _why_not(layout: Layout) -> str | None:
    """None if volumes and shares can be ordered: the back ends are up, and there is a share type."""
    cloud = connect(layout)
    volume: Any = cloud.block_storage
    share: Any = cloud.shared_file_system
    answers = (volume.get("/os-services"), share.get("/services", microversion=VERSION))
    for answer in answers:
        services = answer.json().get("services", [])
        down = [s["binary"] for s in services if s["state"] != "up"]
        if len(services) < 2 or down:
            return f"not up: {', '.join(down) or 'nothing is there yet'}"
    if not share.get("/types", microversion=VERSION).json().get("share_types"):
        body = {"share_type": {"name": own.SHARE_TYPE, "extra_specs": _SPECS}}
        share.post("/types", json=body, microversion=VERSION)
        return "its share type was just made"
    return None


_SPECS = {"driver_handles_share_servers": "false", "snapshot_support": "true"}
