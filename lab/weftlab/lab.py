"""A lab: up, down, status. The Python API for tests and benchmarks; `weftlab.cli` is the one for people."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import time
from collections.abc import Callable, Generator
from dataclasses import replace
from pathlib import Path
from typing import Any

from weft.model.site import Site
from weftlab import bootstrap, cloud, database, environment, infra, ipu, jobs, ldap, mlnx
from weftlab.hypervisor import jobs as hypervisor
from weftlab.layout import LabError, Layout, Settings, default_cache, default_state, load, save
from weftlab.liar import Liar
from weftlab.metal import jobs as metal_jobs
from weftlab.metal.jobs import has_machines
from weftlab.service import Job, Service
from weftlab.site import make_site, settings, write_site
from weftlab.storage import filer
from weftlab.storage import jobs as storage_jobs
from weftlab.storage.config import has_storage
from weftlab.supervisor import JobError, State, Supervisor
from weftlab.switches import PACKAGES

OWN = (
    "site",
    "etc",
    "data",
    "ovs",
    "run",
    "work",
    "log",
    "tls",
    "virt",
    "clouds.yaml",
    "mysql.sock",
    "lab.json",
)
FILLED = Path("/")
"""Placeholder for an existing golden image: the databases are in place already."""

Say = Callable[[str], None]


class Lab:
    """One lab in one state folder.

    Args:
        state, cache: folders; none: the user's usual ones.
        ports: first of its TCP ports.
        say: called with a line for each step.
        asked: `nodes`, `leaves`, `spines`, `hcas`, `computes`, `ipus`, `left_out`, `fabric_only`,
            `fabric_manager`, `fabric`, `switches`, `liar`, `tenant_networks`, `metal`, `guests`,
            `storage`, `ldap`, `neutron_processes`: `layout.Settings`.
            Only used by `up`: a running lab keeps its settings.
    """

    def __init__(
        self,
        state: Path | None = None,
        cache: Path | None = None,
        ports: int | None = None,
        say: Say | None = None,
        **asked: Any,
    ) -> None:
        self.state = (state or default_state()).expanduser().absolute()
        running = load(self.state)
        self.running = running is not None
        self.settings: Settings = running or settings(**asked, **({"ports": ports} if ports else {}))
        cache = (cache or default_cache()).expanduser().absolute()
        self.layout = Layout(self.state, cache, self.settings.ports)
        self.supervisor = Supervisor(self.layout.run, self._report)
        self._say: Say = say or (lambda line: None)
        self._begun = time.monotonic()

    @property
    def site_path(self) -> Path:
        """The site file that weft reads."""
        return self.layout.site_path

    @property
    def clouds_yaml(self) -> Path:
        """Profiles of all users of the lab."""
        return self.layout.clouds_yaml

    @property
    def site(self) -> Site:
        """The site as its settings make it."""
        return make_site(self.settings, self.layout)

    def up(self) -> bool:
        """Start everything that doesn't run. False if it was up already.

        Raises `LabError` or `JobError`; then everything is stopped again, and the logs are left to be read.
        """
        self._begun = time.monotonic()
        self._check()
        with _only_one(self.state):
            if self.running and all(s.up for s in self.status()):
                return False
            if not self._whole():
                self.supervisor.stop()  # what an interrupted `up` may have left
                self._remove()
                self.running = False
                self._check_ports()
            try:
                self._start()
            except BaseException:
                if not self.running:  # else what is up stays up
                    self.supervisor.stop()
                    self._remove(keep=("log",))
                raise
        self.running = True
        return True

    def set_liar(self, between: bool) -> bool:
        """Put the liar between weft and OpenStack, or remove it; restarts weft.

        False if nothing changed. For a running lab; raises what `up` raises.
        """
        if self.settings.liar == between:
            return False
        self.supervisor.stop(["weft", "liar"], giving_up=False)
        self.settings = replace(self.settings, liar=between)
        save(self.layout, self.settings)
        self.up()
        return True

    def liar(self) -> Liar:
        """The control of this lab's liar. Raises `LabError` if there is none."""
        if not self.settings.liar:
            raise LabError("this lab has no liar: `weft lab up --liar` puts one between weft and OpenStack")
        return Liar(self.layout.url("liar"))

    def _whole(self) -> bool:
        """Whether there is a lab whose missing parts can be added."""
        return self.running and (self.settings.fabric_only or database.filled_path(self.layout).exists())

    def _check(self) -> None:
        """Raise `LabError` for problems that can be found before anything is created."""
        self.layout.check()
        if self.settings.ldap and self.settings.fabric_only:
            raise LabError("--ldap is not allowed with --only fabric: there is no Keystone")
        if self.settings.liar and self.settings.fabric_only:
            raise LabError("--liar is not allowed with --only fabric: there is no OpenStack to lie about")
        whole = jobs.all_jobs(
            self.layout, replace(self.settings, left_out=()), self.site, FILLED, lambda _: None
        )
        names = [s.name for s in jobs.services_of(whole)]
        for name in self.settings.left_out:
            if name not in names:
                raise LabError(f"--without {name} is not allowed: one of {', '.join(names)}")

    def _check_ports(self) -> None:
        taken = self.layout.taken_ports()
        if taken:
            listing = ", ".join(f"{number} ({name})" for name, number in taken.items())
            raise LabError(f"ports in use: {listing}: stop these processes or choose other --ports")

    def _start(self) -> None:
        if self.settings.fabric != "ethernet":
            environment.install_packages(environment.FABRIC_PACKAGES, self.say)
        running = jobs.guests_run(self.settings)
        if self.settings.fabric != "infiniband" or running:
            environment.install_packages(PACKAGES, self.say)
        self.layout.state.mkdir(parents=True, exist_ok=True)
        if self.settings.ipus:
            ipu.make_agents_tls(self.layout)
        site = self.site
        write_site(site, self.layout.site)
        golden = Path()
        if not self.settings.fabric_only:
            environment.install_packages(environment.CLOUD_PACKAGES, self.say)
            env = environment.ensure_environment(self.layout.cache, self.say)
            if mlnx.is_served(site):
                mlnx.ensure_overlay(self.layout.cache, env, self.say)
                mlnx.write_token(self.layout)
                environment.install_packages(mlnx.FRONT_PACKAGES, self.say)
                mlnx.write_front(self.layout)
            if has_machines(site):
                environment.install_packages(metal_jobs.packages(running), self.say)
                metal_jobs.ensure(self.layout.cache, env, running, self.say)
                metal_jobs.write(self.layout, site, running)
            if running:
                environment.install_packages(hypervisor.packages(), self.say)
                hypervisor.ensure(self.layout.cache, self.say)
                hypervisor.write(self.layout)
            if has_storage(site):
                environment.install_packages(filer.packages(), self.say)
                storage_jobs.ensure(self.layout.cache, self.say)
                storage_jobs.write(self.layout)
            if self.settings.ldap:
                ldap.ensure(self.layout.cache, env, self.say)
                ldap.write(self.layout)
            cloud.write_configuration(self.layout, env, site, running)
            infra.write_rabbitmq(self.layout)
            database.write_keys(self.layout)
            bootstrap.write_clouds(self.layout)
            # A lab that is partly up has its databases: nothing is restored or made.
            golden = FILLED if self.running else database.golden_path(self.layout.cache)
            if not golden.exists():
                self.say("no golden databases for these versions yet: making them, once")
        graph = self._jobs(site, golden)
        # From here on there is something to stop and to ask about.
        save(self.layout, self.settings)
        self.supervisor.run(graph)

    def _jobs(self, site: Site, golden: Path) -> tuple[Job, ...]:
        return jobs.all_jobs(self.layout, self.settings, site, golden, self._without_database)

    def _without_database(self, work: Callable[[], None]) -> None:
        service = next(s for s in self._services() if s.name == "mariadb")
        record = self.supervisor.record("mariadb")
        self.supervisor.stop(["mariadb"], giving_up=False, by=signal.SIGTERM)
        work()
        self.supervisor.start(service, record.sequence if record else 0)
        self.supervisor.await_ready(service)

    def _services(self) -> tuple[Service, ...]:
        return jobs.services_of(self._jobs(self.site, FILLED))

    def down(self) -> bool:
        """Stop everything and remove the state. False if there was nothing. Safe after a crash, and twice."""
        if not self.state.exists():
            return False
        with _only_one(self.state):
            there = bool(self.supervisor.records()) or self.layout.settings_path.exists()
            self.supervisor.stop()
            self._remove()
            with contextlib.suppress(OSError):
                self.state.rmdir()
        self.running = False
        return there

    def _remove(self, keep: tuple[str, ...] = ()) -> None:
        """Remove what a lab creates in its state folder, and nothing else there."""
        for name in set(OWN).difference(keep):
            path = self.state / name
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)

    def status(self) -> list[State]:
        """Every service, in the order of the graph; empty if no lab is there."""
        if load(self.state) is None:
            return []
        return self.supervisor.status(self._services())

    def say(self, line: str) -> None:
        """Report a step with the seconds since the start."""
        self._say(f"{time.monotonic() - self._begun:6.1f} s  {line}")

    def _report(self, name: str, seconds: float) -> None:
        self.say(f"{name} ({seconds:.1f} s)")


@contextlib.contextmanager
def _only_one(state: Path) -> Generator[None]:
    """One `up` or `down` of a state folder at a time; the lock is on the folder itself and leaves nothing."""
    while True:
        state.mkdir(parents=True, exist_ok=True)
        number = os.open(state, os.O_RDONLY)
        try:
            fcntl.flock(number, fcntl.LOCK_EX)
            with contextlib.suppress(FileNotFoundError):
                if state.stat().st_ino == os.fstat(number).st_ino:
                    yield
                    return
        finally:
            os.close(number)


__all__ = ["JobError", "Lab", "LabError", "State"]
