"""The graph of a lab: its jobs and their dependencies."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from pathlib import Path

from weft.model.site import Site
from weftlab import bootstrap, checks, cloud, database, infra, ipujobs, ldap, mlnx
from weftlab.catalog import API_SERVICES
from weftlab.environment import environment_path
from weftlab.fabric import fabric_jobs
from weftlab.hypervisor import jobs as hypervisor
from weftlab.layout import Layout, Settings
from weftlab.metal.jobs import has_machines, metal_jobs
from weftlab.service import Job, Service, Step, wait_until, without
from weftlab.storage.config import has_storage
from weftlab.storage.jobs import DATABASES, storage_jobs
from weftlab.switches.jobs import lab_switch_jobs, ovs_jobs
from weftlab.switches.labsite import lab_ovs, lab_plan
from weftlab.ufm.service import ufm_hosts, ufm_jobs

POSTMASTER = "postgres/postmaster.pid"  # where weft.engine.base.database puts its server

Pause = Callable[[Callable[[], None]], None]


def guests_run(settings: Settings) -> bool:
    """Whether servers run as guests: with `--guests`, if there is a cloud."""
    return settings.guests and not settings.fabric_only


def cloud_jobs(
    layout: Layout,
    site: Site,
    golden: Path,
    pause: Pause,
    running: bool = False,
    neutron_processes: int = 1,
    left_out: Collection[str] = (),
) -> tuple[Job, ...]:
    """OpenStack with its database and its message broker.

    Args:
        golden: where the golden image of the databases is, or is to be put.
        pause: does something while MariaDB is ended.
        running: servers run as guests.
        neutron_processes: of its API.
        left_out: services that aren't started, and aren't asked here.
    """
    env = environment_path(layout.cache)
    fresh = not golden.exists()
    filled = ("golden image",) if fresh else ("mariadb",)
    jobs = _database_jobs(layout, env, site, golden, pause)
    for api in API_SERVICES:
        after = (f"schema of {api.name}",) if fresh else ("mariadb",)
        needs = (*after, "rabbitmq") if api.name in ("neutron", "nova") else after
        needs += ("schema of mlnx",) if api.name == "neutron" and mlnx.is_served(site) else ()
        processes = neutron_processes if api.name == "neutron" else 1
        jobs.append(cloud.api_service(layout, env, api, site, needs, running, processes))
    if ldap.is_there(layout):
        jobs.append(ldap.server(layout))
    if has_machines(site):
        jobs += metal_jobs(layout, site, filled, running)
    if has_storage(site):
        jobs += storage_jobs(layout, filled, lab_ovs(layout) if running else None)
    if mlnx.is_served(site):
        schema = ("schema of neutron",) if fresh else ("mariadb",)
        jobs += [mlnx.schema_step(layout, env, site, schema), mlnx.front(layout)]
    jobs += _host_jobs(layout, env, site, filled, running)
    # Not while MariaDB is away for the golden image.
    apis = (*(a.name for a in API_SERVICES), *(("golden image",) if fresh else ()))
    jobs.append(Step("policies", lambda: cloud.read_policies(layout, left_out), after=apis))
    return tuple(jobs)


def _database_jobs(layout: Layout, env: Path, site: Site, golden: Path, pause: Pause) -> list[Job]:
    """MariaDB and RabbitMQ; without a golden image also its schemas, its first rows, and the image."""
    fresh = not golden.exists()
    more = (*(("ironic",) if has_machines(site) else ()), *(DATABASES if has_storage(site) else ()))

    def prepare() -> None:
        database.write_init_file(layout, fresh, more)
        database.create(layout) if fresh else database.restore(layout, golden)

    jobs: list[Job] = [
        Step("databases", prepare, done=(layout.data / "mysql" / "mysql").exists),
        infra.mariadb(layout, after=("databases",)),
        infra.epmd(layout),
        infra.rabbitmq(layout),
    ]
    if fresh:
        apis = tuple(a.name for a in API_SERVICES)
        jobs += database.sync_steps(layout, env)
        jobs.append(Step("bootstrap", lambda: bootstrap.fill(layout), after=apis))
        jobs.append(database.golden_step(golden, layout, pause))
    return jobs


def _host_jobs(layout: Layout, env: Path, site: Site, filled: tuple[str, ...], running: bool) -> list[Job]:
    """Jobs of a cloud's hosts: Nova's computes and Neutron's agents.

    Args:
        filled: after these jobs the databases have their rows.
    """
    own = ("schema of mlnx",) if mlnx.is_served(site) else ()
    bare = ("ironic",) if has_machines(site) else ()
    guests, bridges = (("libvirtd",), ("host-bridges",)) if running else ((), ())
    nova = (*filled, "rabbitmq", "keystone", "placement", *bare, *guests)
    return [
        cloud.neutron_rpc(layout, env, site, (*filled, *own, "rabbitmq"), running),
        cloud.fleet(layout, env, site, nova, running),
        cloud.agents(layout, env, site, (*filled, "rabbitmq", *bridges), running),
        Step(
            "computes",
            wait_for(cloud.computes_ready(layout, site), 240),
            after=("nova-fleet", "nova", "keystone", "placement", "neutron-agents"),
        ),
    ]


def wait_for(check: Callable[[], str | None], seconds: float) -> Callable[[], None]:
    """A step that polls until the result is None. Raises `LabError` with the last result."""

    return lambda: wait_until(check, seconds)


def all_jobs(layout: Layout, settings: Settings, site: Site, golden: Path, pause: Pause) -> tuple[Job, ...]:
    """The jobs for the settings."""
    jobs: tuple[Job, ...] = () if settings.fabric == "ethernet" else fabric_jobs(layout, site)
    running = guests_run(settings)
    spaces = hypervisor.SPACES if running else ()
    if settings.fabric != "infiniband":
        cloud_too = not settings.fabric_only
        jobs += lab_switch_jobs(
            layout, lab_plan(settings), cloud_too, spaces, probes=cloud_too and settings.probes
        )
    elif running:
        jobs += ovs_jobs(lab_ovs(layout), spaces, layout.log("ovs").parent)
    if running:
        jobs += hypervisor.hypervisor_jobs(
            layout, site, ("vswitchd",) if settings.fabric == "infiniband" else ("wiring",)
        )
    for name, fabric in site.fabrics.items():
        if fabric.manager.driver == "ufm":
            jobs += ufm_jobs(layout, site, name)
    if not settings.fabric_only:
        processes, left_out = settings.neutron_processes, settings.left_out
        jobs += cloud_jobs(layout, site, golden, pause, running, processes, left_out)
        if site.ipu_pods:
            jobs += (
                ipujobs.simulation(layout, settings.ipus),
                ipujobs.guests(layout, ("keystone", "nova")),
                ipujobs.network_step(layout, ("policies",)),
            )
        if any(fabric.manager.driver == "ufm" for fabric in site.fabrics.values()):
            jobs += (ufm_hosts(layout, ("keystone", "neutron", "ufm")),)
        if settings.liar:
            jobs += (cloud.liar(layout, ("keystone",)),)
        jobs += (weft_service(layout, site, settings.liar),)
    gone = frozenset(settings.left_out)
    # Without Nova, no compute service starts.
    return without(jobs, gone | {"computes"} if gone & {"nova", "nova-fleet"} else gone)


def weft_service(layout: Layout, site: Site, liar: bool) -> Service:
    """weft itself, as on any site: its own user of the cloud, its own embedded PostgreSQL, the lab's site file.

    Args:
        liar: it finds OpenStack through the liar.
    """
    clouds = layout.liar_clouds_yaml if liar else layout.clouds_yaml
    state, policy = layout.data / "weft", policy_path(layout)
    agents = [f"agent-{a.name}" for fabric in site.fabrics.values() for a in fabric.manager.agents]
    agents += ["switches" for fabric in site.fabrics.values() if fabric.manager.driver == "switches"]
    agents += ["ufm" for fabric in site.fabrics.values() if fabric.manager.driver == "ufm"]
    return Service(
        name="weft",
        argv=(
            *(sys.executable, "-m", "weft.cli.main", "serve"),
            *("--listen", f"127.0.0.1:{layout.port('weft')}", "--state", str(state)),
            *("--cloud-profile", "weft", "--site", str(layout.site_path)),
            *(("--neutron-token", str(mlnx.token_path(layout))) if mlnx.is_served(site) else ()),
            *(("--policy", str(policy)) if policy.exists() else ()),
        ),
        # The embedded PostgreSQL keeps a lock in the user's runtime folder: each lab has its own.
        env={
            "OS_CLIENT_CONFIG_FILE": str(clouds),
            "XDG_RUNTIME_DIR": str(layout.work / "weft"),
        },
        log=layout.log("weft"),
        cwd=layout.work / "weft",
        ready=checks.answers_http(layout.port("weft"), "/readyz"),
        after=("keystone", *agents, *(("liar",) if liar else ()), *(("ipu-pod",) if site.ipu_pods else ())),
        grace=20,
        daemons=(state / POSTMASTER,),
    )


def policy_path(layout: Layout) -> Path:
    """Policy overrides of the lab's weft, if the file is there before it starts."""
    return layout.etc / "weft" / "policy.yaml"


def services_of(jobs: tuple[Job, ...]) -> tuple[Service, ...]:
    """The jobs that keep running."""
    return tuple(j for j in jobs if isinstance(j, Service))
