"""Kolla Ansible's whole `genconfig` of an exported cloud, checked by the services' own validators."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.helpers.genconfig import Genconfig
from tests.helpers.rdg import Document, changed, deployment, with_everything, with_machines, with_roce
from tests.planning.export.test_kolla import sections
from weft.model.site import Deployment, Site
from weft.planning.export.formats import export
from weft.planning.export.policies import USER, rules
from weftlab import mlnx
from weftlab.environment import ensure_environment, ensure_other, install_packages
from weftlab.layout import default_cache
from weftlab.metal.jobs import DISTRIBUTIONS, PINS

pytestmark = [
    pytest.mark.cloud,
    pytest.mark.nightly(
        reason="Kolla renders everything of two hosts: minutes; its inventory is read by day"
    ),
]
CONTROLLER, COMPUTE = "controller-1", "compute-1"
NAMESPACES = {
    "nova": ("nova.conf",),
    "neutron": ("neutron", "neutron.ml2"),
    "keystone": ("keystone",),
    "ironic": ("ironic",),
}
"""Folder of exported files -> namespaces of oslo.config."""


def without_monitoring(document: Document) -> None:
    """Remove monitoring, since a handler of Prometheus would restart containers."""
    deployment(document)["roles"]["Controller"]["functions"].remove("monitoring")


def deployed(site: Site) -> Deployment:
    found = site.clouds["overcloud"].deployment
    assert found is not None
    return found


SITE = changed(with_everything, with_roce, with_machines, without_monitoring)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Genconfig:
    one = Genconfig(tmp_path_factory.mktemp("genconfig"), SITE)
    one.prepare()
    one.make([CONTROLLER, COMPUTE])
    return one


PLACES = (
    ("config/nova.conf", CONTROLLER, "nova-api/nova.conf"),
    ("config/nova/nova-scheduler.conf", CONTROLLER, "nova-scheduler/nova.conf"),
    ("config/nova/nova-compute.conf", COMPUTE, "nova-compute/nova.conf"),
    ("config/neutron.conf", CONTROLLER, "neutron-server/neutron.conf"),
    ("config/neutron/ml2_conf.ini", CONTROLLER, "neutron-server/ml2_conf.ini"),
    (
        "config/keystone/domains/keystone.customers.conf",
        CONTROLLER,
        "keystone/domains/keystone.customers.conf",
    ),
    ("config/ironic.conf", CONTROLLER, "ironic-conductor/ironic.conf"),
    ("config/ironic.conf", CONTROLLER, "ironic-api/ironic.conf"),
)
"""Exported file, host, and the service's file into which Kolla merges it."""


@pytest.mark.parametrize(("path", "host", "place"), PLACES)
def test_exported_options_are_in_the_services_files_and_valid(
    made: Genconfig, tmp_path: Path, path: str, host: str, place: str
) -> None:
    """Secrets are filled in; oslo.config's validator accepts each option and rejects a misspelt one."""
    rendered = made.out / host / place
    theirs, wanted = sections(rendered.read_text()), sections(export(SITE, "kolla")[path])
    for section, options in wanted.items():
        for name, values in options.items():
            if "{{" in values[0]:
                assert theirs[section][name] == ["a-password"], name
            else:
                assert theirs[section][name] == values, name
    known = {f"{s}/{o}" for s, options in wanted.items() for o in options if s != "sdn"}
    service = path.split("/")[1].removesuffix(".conf")
    assert unknown(rendered, service) & known == set()
    section, option = next((s, o) for s, options in wanted.items() for o in options)
    wrong = tmp_path / "wrong.conf"
    wrong.write_text(f"[{section}]\n{option}x = 1\n")
    assert unknown(wrong, service) == {f"{section}/{option}x"}


def test_networking_mlnx_has_the_exported_options(made: Genconfig) -> None:
    """It registers none with oslo.config's validator."""
    openstack = ensure_environment(default_cache(), print)
    mlnx.ensure_overlay(default_cache(), openstack, print)
    code = "from networking_mlnx.plugins.ml2.drivers.sdn.config import sdn_opts; print(*(o.dest for o in sdn_opts))"
    env = {"PYTHONPATH": str(mlnx.overlay_path(default_cache())), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [openstack / "bin/python", "-c", code], env=env, capture_output=True, text=True, check=True
    )
    known = set(done.stdout.split())
    assert set(sections(export(SITE, "kolla")["config/neutron/ml2_conf.ini"])["sdn"]) <= known


@pytest.mark.parametrize("name", ["neutron-server", "nova-api"])
def test_services_read_wefts_policy_rules(made: Genconfig, name: str) -> None:
    """The id of weft's user is filled in, and Kolla puts the file where the service reads it."""
    service = name.partition("-")[0]
    folder = made.out / CONTROLLER / name
    wanted = export(SITE, "kolla")[f"config/{service}/policy.yaml"].replace(f"{{{{ {USER} }}}}", "a-password")
    assert rules((folder / "policy.yaml").read_text()) == rules(wanted)
    config = sections((folder / f"{service}.conf").read_text())
    assert config["oslo_policy"]["policy_file"] == ["policy.yaml"]
    brought = {one["dest"] for one in json.loads((folder / "config.json").read_text())["config_files"]}
    assert f"/etc/{service}/policy.yaml" in brought


def test_ironics_dnsmasq_accepts_its_file(made: Genconfig) -> None:
    """Machines are inspected at the site's addresses."""
    install_packages({"dnsmasq": "dnsmasq-base"}, print)
    file = made.out / CONTROLLER / "ironic-dnsmasq/dnsmasq.conf"
    first, text = deployed(SITE).inspection, file.read_text()
    assert first is not None and f"{first.first},{first.last}" in text
    for server in re.findall(r"option:(?:tftp-server|server-ip-address),(\S+)", text):
        assert server == "192.168.24.11", "the machines' network and not the APIs'"
    assert "http://192.168.24.11:" in text
    done = subprocess.run(
        ["/usr/sbin/dnsmasq", "--test", "-C", file], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def unknown(file: Path, service: str) -> set[str]:
    """Options (section/name) that no part of the service has."""
    if service == "ironic":
        openstack = ensure_other(default_cache(), "ironic", PINS, DISTRIBUTIONS, print)
    else:
        openstack = ensure_environment(default_cache(), print)
    words = [word for name in NAMESPACES[service] for word in ("--namespace", name)]
    command = [openstack / "bin/oslo-config-validator", "--input-file", file, *words]
    env = {"PYTHONWARNINGS": "ignore"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr, done.stderr
    return set(re.findall(r"ERROR:oslo_config.validator:(\S+) is not part", done.stderr))


def test_haproxy_accepts_its_files_with_wefts_frontend(made: Genconfig, tmp_path: Path) -> None:
    """The certificates are Kolla's own; paths, users and groups of the container are replaced."""
    install_packages({"haproxy": "haproxy"}, print)
    source, folder = made.out / CONTROLLER / "haproxy", tmp_path / "haproxy"
    shutil.copytree(source, folder)
    for file in [folder / "haproxy.cfg", *(folder / "services.d").glob("*.cfg")]:
        text = file.read_text().replace("/etc/haproxy/certificates/", f"{folder}/")
        text = re.sub(r"(?m)^    (user|group|chroot) .*$", "", text)
        text = re.sub(r"(?m)^    stats socket .*$", "", text)
        text = re.sub(r"ca-file \S*ca-bundle.crt", f"ca-file {folder}/ca-certificates/root.crt", text)
        file.write_text(text)

    def check() -> subprocess.CompletedProcess[str]:
        command = ["/usr/sbin/haproxy", "-c", "-f", folder / "haproxy.cfg", "-f", folder / "services.d"]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    done = check()
    assert done.returncode == 0, done.stdout + done.stderr
    front = folder / "services.d/weft.cfg"
    front.write_text(front.read_text().replace("timeout server", "timeout servers"))
    assert check().returncode != 0


def test_keepalived_accepts_its_file(made: Genconfig, tmp_path: Path) -> None:
    """In a namespace with the hosts' interfaces. Status 6 is about Kolla's scripts without `script_security` only."""
    install_packages({"keepalived": "keepalived"}, print)
    file = tmp_path / "keepalived.conf"
    text = (made.out / CONTROLLER / "keepalived/keepalived.conf").read_text()
    file.write_text(text.replace('script "/check_alive.sh"', 'script "/bin/true"'))

    def check() -> subprocess.CompletedProcess[str]:
        links = "; ".join(
            f"ip link add {name} type veth peer name x{n}" for n, name in enumerate(("eno2", "ib2.8011"))
        )
        command = ["unshare", "-n", "sh", "-c", f"{links}; exec keepalived -t -f {file}"]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    done = check()
    assert done.returncode in (0, 6), done.stdout + done.stderr
    file.write_text(file.read_text().replace("interface ib2.8011", "interface ib9.8011"))
    assert check().returncode not in (0, 6)


def test_dnsmasq_accepts_its_file(made: Genconfig) -> None:
    install_packages({"dnsmasq": "dnsmasq-base"}, print)
    file = made.out / CONTROLLER / "neutron-dhcp-agent/dnsmasq.conf"
    done = subprocess.run(
        ["/usr/sbin/dnsmasq", "--test", "-C", file], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_agents_map_each_physical_network_to_its_interfaces(made: Genconfig) -> None:
    sriov = sections((made.out / COMPUTE / "neutron-sriov-agent/sriov_agent.ini").read_text())
    assert sriov["sriov_nic"]["physical_device_mappings"] == ["rocenet:ens1f0np0,rocenet:ens2f0np0"]
    mlnx_agent = sections((made.out / COMPUTE / "neutron-mlnx-agent/mlnx_agent.ini").read_text())
    assert mlnx_agent["eswitch"]["physical_interface_mappings"] == ["ibnet:ib2"]
    openvswitch = sections(
        (made.out / COMPUTE / "neutron-openvswitch-agent/openvswitch_agent.ini").read_text()
    )
    assert openvswitch["ovs"]["bridge_mappings"] == ["datacentre:br-ex"]
