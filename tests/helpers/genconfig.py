"""Kolla Ansible's `genconfig` for an exported configuration, run on this machine for hosts that don't exist:
everything is rendered, and no container is looked at. Facts come from Ansible's cache, so that none are gathered;
the one request to a cloud, for Nova's cells, is answered by a stand-in for the module that would run inside a
container.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.helpers.kolla import exported, kolla
from weft.model.site import Node, Site
from weft.planning.export.kolla import secrets
from weft.planning.export.view import CloudView, view_of

FACTS = {
    "ansible_distribution": "Rocky",
    "ansible_distribution_version": "10.0",
    "ansible_distribution_major_version": "10",
    "ansible_distribution_release": "Red Quartz",
    "ansible_os_family": "RedHat",
    "ansible_architecture": "x86_64",
    "ansible_service_mgr": "systemd",
    "ansible_processor_vcpus": 64,
    "ansible_memtotal_mb": 262144,
    "ansible_user_uid": os.getuid(),
    "ansible_user_gid": os.getgid(),
    "ansible_python": {"executable": sys.executable},
}
TOOLBOX = """#!/usr/bin/python
# WANT_JSON: whatever it is asked
import json
print(json.dumps({"changed": False, "resources": [], "services": []}))
"""


class Genconfig:
    """A folder in which a site's cloud is configured.

    Attributes:
        out: folder with a folder for each host, and in it one for each service.
    """

    def __init__(self, folder: Path, site: Site) -> None:
        self._folder, self._site, self._view = folder, site, view_of(site, None)
        self.config, self.out = folder / "kolla", folder / "out"
        self._inventory = exported(self.config, site)

    def prepare(self) -> None:
        """Writes passwords, certificates, facts, and playbooks without prompts."""
        playbooks = self._folder / "ansible"
        shutil.copytree(kolla() / "share/kolla-ansible/ansible", playbooks)
        (playbooks / "library/kolla_toolbox.py").write_text(TOOLBOX)
        shutil.copy(kolla() / "share/kolla-ansible/etc_examples/kolla/passwords.yml", self.config)
        passwords = self.config / "passwords.yml"
        self._run("kolla-genpwd", "-p", str(passwords))
        with passwords.open("a") as file:
            file.writelines(f"{name}: a-password\n" for name in secrets(self._view))
        for part in ("kernel", "initramfs"):  # the operator must provide Ironic's agent
            (self.config / "config/ironic").mkdir(parents=True, exist_ok=True)
            (self.config / f"config/ironic/ironic-agent.{part}").write_text("an agent\n")
        (self._folder / "facts").mkdir()
        for host, facts in _facts(self._view):
            text = json.dumps({"__payload__": json.dumps(facts)})
            (self._folder / "facts" / f"s1_{host}").write_text(text)
        (self._folder / "ansible.cfg").write_text(
            "[defaults]\n"
            "fact_caching = ansible.builtin.jsonfile\n"
            f"fact_caching_connection = {self._folder}/facts\n"
            "fact_caching_timeout = 0\ngathering = smart\nhost_key_checking = false\nforks = 2\n"
            f"local_tmp = {self._folder}/tmp\nremote_tmp = {self._folder}/tmp\n"
            "[connection]\npipelining = true\n"
        )
        self._ansible("certificates")

    def make(self, hosts: Sequence[str], *words: str) -> None:
        """Renders the configuration of these hosts."""
        self._ansible("genconfig", "-l", ",".join(("localhost", *hosts)), *words)

    def _ansible(self, verb: str, *words: str) -> None:
        extra = {
            "ansible_connection": "local",
            "ansible_become": False,
            "ansible_python_interpreter": str(kolla() / "bin/python"),
            "node_config_directory": f"{self.out}/{{{{ inventory_hostname }}}}",
            "config_owner_user": "root",
            "config_owner_group": "root",
        }
        playbook = self._folder / "ansible" / {"certificates": "certificates.yml"}.get(verb, "site.yml")
        known = ("-i", str(self._inventory), "--configdir", str(self.config), "-p", str(playbook))
        self._run("kolla-ansible", verb, *known, "-e", json.dumps(extra), *words)

    def _run(self, program: str, *words: str) -> None:
        env = {
            "PATH": f"{kolla()}/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "LC_ALL": "C.UTF-8",
            "HOME": str(self._folder),
            "ANSIBLE_CONFIG": str(self._folder / "ansible.cfg"),
        }
        command = [kolla() / "bin" / program, *words]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        wrong = [
            line for line in done.stdout.splitlines() if line.startswith(("fatal:", "failed:", "[ERROR]"))
        ]
        assert done.returncode == 0, "\n".join(wrong) or done.stdout[-3000:] + done.stderr[-3000:]


def _facts(view: CloudView) -> Iterator[tuple[str, dict[str, Any]]]:
    """Host -> facts as Ansible would gather them: interfaces have the site's addresses, or invented ones in their
    networks."""
    for role, hosts in view.hosts.items():
        for number, host in enumerate(hosts):
            found = {**FACTS, "ansible_hostname": host.nova_host, "ansible_nodename": host.nova_host}
            found["ansible_fqdn"] = f"{host.nova_host}.{view.deployment.domain}"
            names = list(view.roles[role].interfaces.items())
            for network, interface in names:
                found[f"ansible_{interface}"] = _interface(view, host, network, interface, number)
            for interface in view.roles[role].bridges.values():
                found[f"ansible_{interface}"] = {"device": interface, "active": True, "type": "ether"}
            found["ansible_interfaces"] = sorted(
                k.removeprefix("ansible_") for k in found if "device" in str(found[k])
            )
            yield host.nova_host, found
    yield (
        "localhost",
        {**FACTS, "ansible_hostname": "here", "ansible_nodename": "here", "ansible_fqdn": "here"},
    )


def _interface(view: CloudView, host: Node, network: str, interface: str, number: int) -> dict[str, Any]:
    row = view.interface(host.name, network)
    subnet = next(iter(view.networks[network].subnets.values()))
    first = subnet.pool.first if subnet.pool is not None else subnet.addresses[10]
    address = row.address if row is not None else first + number + (100 if "compute" in host.name else 0)
    ipv4 = {
        "address": str(address),
        "netmask": str(subnet.addresses.netmask),
        "network": str(subnet.addresses.network_address),
        "prefix": str(subnet.addresses.prefixlen),
    }
    return {"device": interface, "active": True, "type": "ether", "ipv4": ipv4}
