"""A Neutron that sets the lab's Ethernet switches: networking-generic-switch with weft's drivers.

A second process of Neutron's API beside the lab's, on the same database, with the mechanism driver `genericswitch` and
one section a switch, as docs/fabric-ethernet.md has them. What it needs is installed as documented:
`pip install 'weft-pods[generic-switch]'`.
"""

from __future__ import annotations

import configparser
import os
import socket
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx
import openstack
from openstack.connection import Connection

from tests.drivers.switches.rigs import Records
from tests.e2e.people import wait_for
from weft.drivers.switches import EthernetFabric, open_fabric
from weft.model.site import Site, Switching
from weftlab import environment
from weftlab.cloud import overlays
from weftlab.lab import Lab
from weftlab.switches.labsite import FABRIC, PHYSICAL_NETWORK

VLAN = 1801
"""Outside of the lab's range: the lab's own weft has nothing to do with it."""
SECOND_NETWORK = "datanet"
"""Another physical network of the lab's Neutron; here the same switches have it, too."""
PROJECT = Path(__file__).parents[2]


def switching_of(site: Site) -> Switching:
    found = site.fabrics[FABRIC].manager.switching
    assert found is not None
    return found


def switch_mac(number: int) -> str:
    """MAC address of the switch with this place, from 1, in the site."""
    return f"02:00:00:00:ff:{number:02x}"


def configured(lab: Lab, folder: Path) -> None:
    """Neutron's own configuration, with the driver and a section for each switch."""
    neutron = configparser.ConfigParser(strict=False, interpolation=None)
    neutron.read(lab.layout.etc / "neutron" / "neutron.conf")
    neutron["ml2"]["mechanism_drivers"] += ",genericswitch"
    neutron["DEFAULT"]["log_file"] = "neutron-switches.log"
    neutron["DEFAULT"]["log_dir"] = str(folder)
    switching = switching_of(lab.site)
    for number, switch in enumerate(switching.switches, 1):
        ends = [end for k in switching.links for end in (k.a, k.b)]
        links = [e.partition("/")[2] for e in ends if e.startswith(f"{switch.name}/")]
        neutron[f"genericswitch:{switch.name}"] = {
            "device_type": "weft",
            "weft_interface": switch.interface,
            "weft_url": switch.url,
            "weft_credentials": str(switching.credentials),
            "weft_ca": str(switching.ca),
            "ngs_mac_address": switch_mac(number),
            "ngs_physical_networks": f"{PHYSICAL_NETWORK},{SECOND_NETWORK}",
            "ngs_trunk_ports": ",".join(links),
            "ngs_port_default_vlan": str(switching.parking),
        }
    with (folder / "neutron.conf").open("w") as file:
        neutron.write(file)


def _install(lab: Lab, target: Path) -> None:
    python = environment.environment_path(lab.layout.cache) / "bin" / "python"
    # Not in a folder whose pyproject.toml overrides what packages need.
    command = [environment.uv(), "--directory", str(target), "pip", "install", "-q", "--python", str(python)]
    command += ["--target", str(target)]
    command += [
        "--no-sources",
        "-c",
        str(environment.PINS),
        f"weft-pods[generic-switch] @ {PROJECT.as_uri()}",
    ]
    command += [f"weft-pods-agents @ {(PROJECT / 'packages' / 'agents').as_uri()}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr


@contextmanager
def switched_neutron(lab: Lab, folder: Path) -> Generator[str]:
    """URL of a running Neutron that sets switches. Args: folder: empty, for its configuration and logs."""
    configured(lab, folder)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    env = environment.environment_path(lab.layout.cache)
    argv = [str(env / "bin" / "uwsgi"), "--http-socket", f"127.0.0.1:{port}", "--module"]
    argv += ["neutron.wsgi.api:application", "--home", str(env), "--threads", "4", "--enable-threads"]
    argv += ["--need-app", "--die-on-term", "--buffer-size", "65535", "--disable-logging"]
    argv += ["--add-header", "Connection: close"]
    with tempfile.TemporaryDirectory(prefix="weft-ngs-") as installed:
        _install(lab, Path(installed))
        paths = [installed, overlays(lab.layout, lab.site).get("PYTHONPATH", "")]
        own = {"OS_NEUTRON_CONFIG_DIR": str(folder), "OS_NEUTRON_CONFIG_FILES": str(folder / "neutron.conf")}
        own |= {"PYTHONPATH": ":".join(filter(None, paths)), "PYTHONWARNINGS": "ignore"}
        with (folder / "uwsgi.log").open("wb") as log:
            process = subprocess.Popen(argv, env={**os.environ, **own}, stdout=log, stderr=log, cwd=folder)
        try:
            url = f"http://127.0.0.1:{port}"
            wait_for(lambda: process.poll() is not None or _answers(url), 180)
            assert process.poll() is None, (folder / "uwsgi.log").read_text()[-3000:]
            yield f"{url}/v2.0"
        finally:
            process.kill()
            process.wait()


def operator_of(lab: Lab, url: str) -> Connection:
    """An administrator's connection to it."""
    known = openstack.config.OpenStackConfig(config_files=[str(lab.clouds_yaml)])
    return Connection(config=known.get_one("operator", network_endpoint_override=url))


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=5).status_code < 500
    except httpx.HTTPError:
        return False


@contextmanager
def read_switches(lab: Lab) -> Generator[EthernetFabric]:
    """weft's driver of the lab's fabric, as a site has it where Neutron sets the VLANs."""
    document = lab.site.model_dump(mode="json")
    described = document["fabrics"][FABRIC]
    described["manager"]["switching"]["configured_by"] = "neutron"
    described["segments"] = {"first": VLAN, "last": VLAN + 1}
    driver = open_fabric(Site.model_validate(document), FABRIC, Records())
    try:
        yield driver
    finally:
        driver.close()


def adapter(lab: Lab, node: str) -> str:
    """Switch port of the first adapter of a node."""
    port = lab.site.node_by_name[node].hcas_on(FABRIC)[0].switch_port
    assert port is not None
    return port
