"""TripleO's own validators for a folder of files, in an environment of their own; each one's findings as JSON.

Run by that environment's Python as `tripleo_checks.py FOLDER`; tests don't import it.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

ANSIBLE = {
    "ctlplane_ip": "192.168.24.11",
    "ctlplane_subnet_cidr": 24,
    "ctlplane_mtu": 1500,
    "ctlplane_host_routes": [{"default": True, "next_hop": "192.168.24.1"}],
    "ctlplane_dns_nameservers": ["10.7.208.1"],
    "dns_search_domains": ["localdomain"],
}
"""Variables of a host with which tripleo-ansible renders the template of its role."""


IMAGE = {"href": "file:///var/lib/ironic/images/overcloud-hardened-uefi-full.raw"}
"""tripleoclient's default image."""


def read(path: Path) -> Any:
    return importlib.import_module("yaml").safe_load(path.read_text())


def found(check: Callable[..., Any], *args: Any) -> list[str]:
    """Findings of a validator, which returns a list of errors or raises one."""
    try:
        return [str(e) for e in check(*args) or ()]
    except Exception as error:
        return [f"{type(error).__name__}: {error}"]


def networks(folder: Path) -> list[str]:
    check = importlib.import_module("network_data_v2").validate_json_schema
    entries = read(folder / "templates/network_data.yaml")
    return [e for entry in entries for e in found(check, entry)]


def placed(folder: Path) -> list[str]:
    expand = importlib.import_module("baremetal_deploy").expand

    def check() -> list[str]:
        names = [
            i["hostname"]
            for i in expand(read(folder / "templates/node-info.yaml"), "overcloud", default_image=IMAGE)[0]
        ]
        return ["no hosts"] if not names else [f"{n} twice" for n in set(names) if names.count(n) > 1]

    return found(check)


def nodes(folder: Path) -> list[str]:
    check = importlib.import_module("tripleo_common.utils.nodes").validate_nodes
    return found(check, json.loads((folder / "instackenv.json").read_text())["nodes"])


def roles(folder: Path) -> list[str]:
    common, yaml = importlib.import_module("tripleo_common.utils.roles"), importlib.import_module("yaml")
    errors: list[str] = []
    for role in read(folder / "templates/roles_data.yaml"):
        errors += found(lambda one: common.validate_role_yaml(yaml.safe_dump([one])) and (), role)
    return errors


def nics(folder: Path) -> list[str]:
    """Each role's template, rendered with Ansible's facts of a host, is checked by os-net-config's schema and
    built by it."""
    jinja2, yaml = importlib.import_module("jinja2"), importlib.import_module("yaml")
    validate = importlib.import_module("os_net_config.validator").validate_config
    values: dict[str, Any] = dict(ANSIBLE)
    for number, network in enumerate(read(folder / "templates/network_data.yaml")):
        vlan = next(iter(network["subnets"].values())).get("vlan", 1)
        found_of = {
            "ip": f"172.{16 + number}.0.11",
            "cidr": 24,
            "mtu": network["mtu"],
            "host_routes": [],
            "vlan_id": vlan,
        }
        values |= {f"{network['name_lower']}_{name}": value for name, value in found_of.items()}
    errors: list[str] = []
    for path in sorted(folder.glob("templates/nics/*.j2")):
        text = jinja2.Template(path.read_text(), undefined=jinja2.StrictUndefined).render(values)
        entries = yaml.safe_load(text)["network_config"]
        errors += [
            f"{path.name}: {e}" for e in (*validate(entries), *(e for one in entries for e in built(one)))
        ]
    return errors


def built(entry: Any) -> list[str]:
    """Errors of os-net-config when it makes ifcfg files of an entry; it refuses values that its schema accepts.

    This host isn't changed; it is presented as one of the overcloud with Open vSwitch and these interfaces.
    """
    names = ("common", "utils", "objects", "impl_ifcfg")
    common, utils, objects, impl = (importlib.import_module(f"os_net_config.{name}") for name in names)
    common.set_noop(True)
    vars(utils)["is_ovs_installed"] = lambda: True
    vars(common)["interface_mac"] = lambda name: "02:00:00:00:00:01"
    return found(lambda: impl.IfcfgNetConfig(noop=True).add_object(objects.object_from_json(entry)))


def undercloud(folder: Path) -> list[str]:
    """Checked by oslo.config. Sections of subnets are registered under their names when tripleoclient runs."""
    program = Path(sys.prefix, "bin/oslo-config-validator")
    file = folder / "undercloud.conf"
    command = [
        program,
        "--namespace",
        "undercloud_config",
        "--input-file",
        file,
        "--exclude-group",
        "ctlplane-subnet",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return [line for line in done.stderr.splitlines() if line.startswith("ERROR")]


CHECKS = {
    "undercloud.conf": undercloud,
    "instackenv.json": nodes,
    "templates/network_data.yaml": networks,
    "templates/node-info.yaml": placed,
    "templates/roles_data.yaml": roles,
    "templates/nics": nics,
}
if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.path.insert(0, str(Path(sys.prefix, "share/ansible/plugins/module_utils")))
    json.dump({name: check(Path(sys.argv[1])) for name, check in CHECKS.items()}, sys.stdout)
