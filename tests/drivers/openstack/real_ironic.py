"""A real Ironic with the lab's machines and BMC emulator: without Keystone, a database server or Nova."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import requests
import yaml

from weft.model.site import Site
from weftlab import config, environment
from weftlab.config import Sections
from weftlab.hypervisor.bridges import DOOR, make_bridges
from weftlab.layout import Layout, default_cache, free_ports
from weftlab.metal import boots, enroll
from weftlab.metal import config as metal
from weftlab.metal.jobs import DISTRIBUTIONS, PINS, PROGRAMS, packages, plugin_path, write
from weftlab.metal.machines import machines
from weftlab.site import make_site, settings, write_site
from weftlab.supervisor import Supervisor
from weftlab.switches import PACKAGES
from weftlab.switches.jobs import ovs_jobs
from weftlab.switches.labsite import lab_ovs

PATIENCE = 240.0
HEADERS = {"X-OpenStack-Ironic-API-Version": "1.78"}


class RealIronic:
    """Its API, used as an administrator."""

    def __init__(self, layout: Layout, node: str) -> None:
        self.layout, self.node = layout, node
        self.url = layout.url("ironic")

    def ask(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        answer = requests.request(method, f"{self.url}/v1/{path}", json=body, headers=HEADERS, timeout=60)
        assert answer.ok, f"{method} {path}: {answer.status_code} {answer.text[:500]}"
        return answer.json() if answer.content else {}

    def await_state(self, *states: str) -> dict[str, Any]:
        end = time.monotonic() + PATIENCE
        while True:
            found = self.ask("GET", f"nodes/{self.node}")
            if found["provision_state"] in states and not found["reservation"]:
                return found
            assert time.monotonic() < end, f"{found['provision_state']}: {found['last_error']}"
            time.sleep(0.2)

    def provision(self, target: str, *states: str) -> dict[str, Any]:
        self.ask("PUT", f"nodes/{self.node}/states/provision", {"target": target})
        return self.await_state(*states)

    def deploy(self) -> None:
        """Deploy as Nova's driver does, in short."""
        change = {"op": "add", "path": "/instance_info", "value": {"image_source": "http://127.0.0.1/image"}}
        instance = {"op": "add", "path": "/instance_uuid", "value": "11111111-1111-1111-1111-111111111111"}
        self.ask("PATCH", f"nodes/{self.node}", [change, instance])
        self.provision("active", "active")

    def set_bios(self, **settings: str) -> None:
        """Change a BIOS setting at the machine's BMC, past Ironic, as from the machine's own operating system."""
        name, password = metal.secret_path(self.layout).read_text().split()
        url = f"{self.layout.url('bmc')}/redfish/v1/Systems/{self.node}/BIOS/Settings"
        answer = requests.patch(url, json={"Attributes": settings}, auth=(name, password), timeout=60)
        assert answer.ok, answer.text

    def flash(self) -> None:
        """Flash the next version of the BIOS, past Ironic."""
        name, password = metal.secret_path(self.layout).read_text().split()
        url = f"{self.layout.url('bmc')}/redfish/v1/UpdateService/Actions/UpdateService.SimpleUpdate"
        body = {"ImageURI": "http://127.0.0.1/bios", "Targets": [f"/redfish/v1/Systems/{self.node}"]}
        answer = requests.post(url, json=body, auth=(name, password), timeout=60)
        assert answer.ok, answer.text

    @property
    def disk(self) -> Path:
        return self.layout.data / "machines" / self.node


@contextmanager
def _switch(layout: Layout, site: Site) -> Iterator[None]:
    """An Open vSwitch with the machine's cable in it."""
    environment.install_packages(PACKAGES, print)
    ovs, supervisor = lab_ovs(layout), Supervisor(layout.run)
    try:
        supervisor.run(ovs_jobs(ovs, (DOOR,), layout.state / "log"))
        make_bridges(ovs, ())
        boots.cable(ovs, site)
        boots.cable(ovs, site)
        yield
    finally:
        supervisor.stop()


@contextmanager
def real_ironic(
    folder: Path, more: Sections | None = None, booting: bool = False, count: int = 1
) -> Iterator[RealIronic]:
    """An Ironic that is ready to enroll its machine, or `count` machines.

    Args:
        more: sections that replace those of its configuration.
        booting: the machine boots, cabled to the bridge `mgmt` of its own Open vSwitch.
    """
    chosen = settings(nodes=4, computes=1, ipus=0, metal=count, ports=free_ports())
    layout = Layout(folder, default_cache(), chosen.ports)
    site = make_site(chosen, layout)
    environment.install_packages(packages(boots=booting), print)
    env = environment.ensure_other(layout.cache, "ironic", PINS, DISTRIBUTIONS, lambda line: None)
    write_site(site, layout.site)
    write(layout, site, booting)
    sections = metal.ironic(layout, booting)
    del sections["keystone_authtoken"]
    sections["DEFAULT"] |= {"auth_strategy": "noauth", "enabled_network_interfaces": "noop"}
    # with SQLite a conductor records its heartbeat only when it starts
    sections["conductor"]["heartbeat_timeout"] = 3600
    sections["database"] = {"connection": f"sqlite:///{layout.data}/ironic/ironic.sqlite"}
    managed = "enabled_hardware_types" not in (more or {}).get("DEFAULT", {})
    for name, own in (more or {}).items():
        sections[name] = {**sections.get(name, {}), **own}
    conf = layout.etc / "ironic" / "ironic.conf"
    conf.write_text(config.render(sections))
    for name in ("log", "work"):
        (folder / name).mkdir()
    with _switch(layout, site) if booting else nullcontext():
        yield from _running(layout, site, env, managed)


def _running(layout: Layout, site: Site, env: Path, managed: bool) -> Iterator[RealIronic]:
    """The running programs; `managed`: the machines have BMCs."""
    folder, conf = layout.state, layout.etc / "ironic" / "ironic.conf"
    _make_schema(env, conf, layout.data / "ironic" / "ironic.sqlite")
    own = {"PYTHONPATH": str(plugin_path(layout)), "WEFTLAB_MACHINES": str(layout.data / "machines")}
    own["TMPDIR"] = str(layout.data / "bmc" / "media")
    commands = [[env / "bin/ironic", "--config-file", conf]]
    if managed:
        emulator = layout.etc / "bmc/emulator.conf"
        commands.append([env / "bin/python", PROGRAMS / "bmc.py", emulator, metal.secret_path(layout)])
    running = [subprocess.Popen(c, env={"PATH": "/usr/bin:/bin", **own}, cwd=folder) for c in commands]
    try:
        ironic = RealIronic(layout, str(machines(site)[0].machine))
        _await_answer(ironic)
        yield ironic
    finally:
        for process in running:
            process.terminate()
        for process in running:
            _await_end(process)


_empty: dict[Path, bytes] = {}
"""Environment -> a database without rows, since Ironic's programs need longer to make one than many tests run."""


def _make_schema(env: Path, conf: Path, database: Path) -> None:
    """Make the database's tables; `database`: its file, unless the configuration has a server's."""
    ours = str(database) in conf.read_text()
    if ours and env in _empty:
        database.write_bytes(_empty[env])
        return
    subprocess.run(
        [env / "bin/ironic-dbsync", "--config-file", conf, "create_schema"], check=True, timeout=300
    )
    if ours:
        _empty[env] = database.read_bytes()


def _await_end(process: subprocess.Popen[bytes]) -> None:
    """Kill the process if it doesn't end by itself: a conductor first finishes its periodic tasks, which ask its
    machine's BMC, and that has ended too.
    """
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(30)


def list_of(ironic: RealIronic, **more: object) -> Path:
    """The lab's hardware list of machines without networks; `more`: further defaults."""
    path = enroll.list_path(ironic.layout)
    listed = yaml.safe_load(path.read_text())
    listed["defaults"] |= {"interfaces": {"network": "noop"}, **more}
    path.write_text(yaml.safe_dump(listed))
    return path


def _await_answer(ironic: RealIronic) -> None:
    end = time.monotonic() + PATIENCE
    while True:
        try:
            if ironic.ask("GET", "conductors")["conductors"]:
                return
        except (OSError, AssertionError, ValueError):
            pass
        assert time.monotonic() < end, "Ironic doesn't answer"
        time.sleep(0.5)


def in_iso(drive: Path, path: str) -> str:
    """A file of a config drive, read as the machine does. Raises `CalledProcessError`."""
    command = ["isoinfo", "-J", "-i", str(drive), "-x", path]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
