"""Bare metal as jobs of the lab's graph."""

from __future__ import annotations

import shutil
from pathlib import Path

from weft.model.site import Site
from weftlab import checks, config, database, environment
from weftlab.config import Sections
from weftlab.environment import Say
from weftlab.layout import Layout
from weftlab.metal import boots as booting
from weftlab.metal import config as metal
from weftlab.metal import enroll
from weftlab.metal.machines import HOST, machines, novas_machines
from weftlab.service import Job, Service, Step, wait_until
from weftlab.switches.labsite import lab_ovs

PINS = Path(__file__).with_name("constraints.txt")
PROGRAMS = Path(__file__).with_name("programs")
DISTRIBUTIONS = ("ironic", "sushy-tools", "pymysql")
PACKAGES = {"genisoimage": "genisoimage"}
"""Nova makes a machine's config drive with it."""
ENTRY_POINTS = """\
[ironic.hardware.types]
lab = weftlab_ironic:LabHardware

[ironic.hardware.interfaces.boot]
lab-virtual-media = weftlab_ironic:VirtualMedia

[ironic.hardware.interfaces.console]
lab = weftlab_ironic:LabConsole

[ironic.hardware.interfaces.deploy]
lab = weftlab_ironic:LabDeploy
lab-ramdisk = weftlab_ironic:LabRamdisk

[ironic.hardware.interfaces.inspect]
lab = weftlab_ironic:LabInspect
"""
DRIVER = """\
[neutron.ml2.mechanism_drivers]
weftlab = weftlab_neutron:MachinePorts
"""


def has_machines(site: Site) -> bool:
    """Whether the site has bare-metal machines."""
    return bool(machines(site))


def driver_path(layout: Layout) -> Path:
    """What Neutron's processes find beside their environment."""
    return layout.etc / "neutron" / "plugin"


def packages(boots: bool) -> dict[str, str]:
    """Debian package -> program, with QEMU's if machines boot."""
    return {**PACKAGES, **(booting.PACKAGES if boots else {})}


def ensure(cache: Path, env: Path, boots: bool, say: Say) -> None:
    """Ironic's environment, and what Neutron needs for machines that boot. Raises `LabError`.

    Args:
        env: OpenStack's environment.
    """
    environment.ensure_other(cache, "ironic", PINS, DISTRIBUTIONS, say)
    if boots:
        booting.ensure_overlay(cache, env, say)


def write(layout: Layout, site: Site, boots: bool = False) -> None:
    """Configuration, Ironic's plug-in, and the folders that they name. Args: boots: the machines do."""
    etc = layout.etc / "ironic"
    etc.mkdir(parents=True, exist_ok=True)
    (etc / "ironic.conf").write_text(config.render(metal.ironic(layout, boots)))
    for folder in (
        "ironic/lock",
        "ironic/http",
        "ironic/tftp",
        "machines",
        "inspections",
        "bmc/media",
        f"nova/{HOST}/lock",
    ):
        (layout.data / folder).mkdir(parents=True, exist_ok=True)
    enroll.write_secret(layout)
    enroll.write_list(layout, site, boots)
    (layout.etc / "bmc" / "emulator.conf").write_text(metal.emulator(layout, site, boots))
    (layout.etc / "nova").mkdir(parents=True, exist_ok=True)
    (layout.etc / "nova" / f"{HOST}.conf").write_text(config.render(metal.compute(layout)))
    _plugin(plugin_path(layout), "weftlab_ironic", ENTRY_POINTS)
    _plugin(driver_path(layout), "weftlab_neutron", DRIVER + (booting.DEVICE if boots else ""))


def _plugin(folder: Path, module: str, entry_points: str) -> None:
    """A module with its entry points, as if it were installed, for PYTHONPATH."""
    info = folder / f"{module}-1.0.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    shutil.copy(PROGRAMS / f"{module}.py", folder)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entry_points)


def plugin_path(layout: Layout) -> Path:
    """Folder of the lab's plug-in of Ironic."""
    return layout.etc / "ironic" / "plugin"


def with_driver(sections: Sections, layout: Layout, boots: bool) -> Sections:
    """Neutron's configuration with the drivers that bind machines' ports: one for all, or two for those that boot."""
    drivers = f"{sections['ml2']['mechanism_drivers']},weftlab"
    bound = {**sections, "ml2": {**sections["ml2"], "mechanism_drivers": drivers}}
    return booting.with_switch(bound, lab_ovs(layout)) if boots else bound


def overlay(layout: Layout, boots: bool) -> tuple[str, ...]:
    """What Neutron's processes find beside their environment."""
    return (str(driver_path(layout)), *(booting.overlay(layout) if boots else ()))


def metal_jobs(layout: Layout, site: Site, filled: tuple[str, ...], boots: bool = False) -> tuple[Job, ...]:
    """Jobs of Ironic, the BMCs and the machines.

    Args: filled: jobs after which the databases have all that they have in every lab; boots: the machines do.
    """
    env = environment.other_path(layout.cache, "ironic", PINS, DISTRIBUTIONS)
    conf = ("--config-file", str(layout.etc / "ironic" / "ironic.conf"))
    # At a second start nothing is to be done, but both would find that out.
    schema = [str(env / "bin" / "ironic-dbsync"), *conf, "upgrade"]
    return (
        Step("schema of ironic", lambda: database.run(layout, "ironic", schema, env), after=filled),
        Step("accounts of ironic", lambda: enroll.accounts(layout), after=("policies",)),
        Step("network of ironic", lambda: enroll.cleaning_network(layout), after=("policies",)),
        Service(
            name="ironic",
            argv=(str(env / "bin" / "ironic"), *conf),
            env={
                "PYTHONWARNINGS": "ignore",
                "PYTHONPATH": str(plugin_path(layout)),
                "WEFTLAB_MACHINES": str(layout.data / "machines"),
            },
            log=layout.log("ironic-out"),
            logs=(layout.log("ironic"),),
            cwd=layout.work / "ironic",
            ready=checks.answers_http(layout.port("ironic")),
            after=("schema of ironic", "accounts of ironic", "bmc"),
            timeout=180,
        ),
        Service(
            name="bmc",
            argv=(
                *(str(env / "bin" / "python"), str(PROGRAMS / "bmc.py")),
                *(str(layout.etc / "bmc" / "emulator.conf"), str(metal.secret_path(layout))),
            ),
            env={"PYTHONWARNINGS": "ignore", "TMPDIR": str(layout.data / "bmc" / "media")},
            log=layout.log("bmc"),
            cwd=layout.work / "bmc",
            ready=checks.answers_http(layout.port("bmc"), "/redfish/v1"),
            after=("machines' cables",) if boots else (),
            timeout=60,
        ),
        *(_cabled(layout, site) if boots else ()),
        Step(
            "machines",
            lambda: enroll.machines_step(layout, site),
            after=("ironic", "network of ironic", "neutron-rpc"),
        ),
        *(_in_nova(layout, site) if novas_machines(site) else ()),
    )


def _cabled(layout: Layout, site: Site) -> tuple[Job, ...]:
    ovs = lab_ovs(layout)
    return (Step("machines' cables", lambda: booting.cable(ovs, site), after=("host-bridges",)),)


def _in_nova(layout: Layout, site: Site) -> tuple[Job, ...]:
    return (
        Step("flavor of machines", lambda: enroll.flavor(layout), after=("policies",)),
        Step(
            "machines in Nova",
            lambda: wait_until(enroll.offered(layout, site), enroll.PATIENCE, pause=2.0),
            after=("machines", "computes"),
        ),
    )
