"""Files for TripleO: their contents, and the findings of TripleO's own validators."""

from __future__ import annotations

import configparser
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.helpers.archives import unpack
from tests.helpers.paths import ROOT
from tests.helpers.rdg import (
    Document,
    by_neutron,
    changed,
    deployment,
    rdg,
    with_everything,
    with_roce,
    with_shares,
    without_fabric,
)
from weft.model.errors import InputError, InputErrors
from weft.model.site import Site
from weft.planning.export.formats import export
from weftlab.environment import ensure_alone
from weftlab.layout import default_cache

PINS = ROOT / "tests" / "data" / "export" / "tripleo.txt"
TOOLS = ("os-net-config", "tripleo-ansible", "tripleo-common", "python-tripleoclient", "pip")
LACKING = {
    "14.3.0": {"MlnxSDNToken", "OS::TripleO::Services::GlanceApiInternal"},
    "18.0.0": {"environments/disable-telemetry.yaml"},
}
"""Version of the heat templates (Wallaby, and the last one) -> what only later versions of Wallaby have."""
BUILDERS = ("setuptools==59.8.0", "pbr==5.11.1", "wheel==0.38.4")
"""The templates' source distributions are older than setuptools' search for packages."""
NODE_INFO, ENVIRONMENT = "templates/node-info.yaml", "templates/environment.yaml"


def tripleo(site: Site) -> dict[str, Any]:
    """The YAML files of a site, by name without folder and suffix."""
    files = export(site, "tripleo")
    return {Path(name).stem: yaml.safe_load(text) for name, text in files.items() if name.endswith(".yaml")}


@cache
def validators() -> Path:
    """The Python environment of TripleO's validators, made once and kept in the lab's cache."""
    return ensure_alone(default_cache(), "tripleo", PINS, TOOLS, print)


def validated(folder: Path) -> dict[str, list[str]]:
    program = [validators() / "bin/python", ROOT / "tests/helpers/tripleo_checks.py", folder]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def written(folder: Path, site: Site) -> Path:
    for name, text in export(site, "tripleo").items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_hosts_match_the_guide() -> None:
    """Names, roles and counts of the guide; each machine has the port that it boots from."""
    files = export(rdg(), "tripleo")
    machines = json.loads(files["instackenv.json"])["nodes"]
    assert [m["name"] for m in machines] == [
        "controller-1",
        "controller-2",
        "controller-3",
        "compute-1",
        "compute-2",
    ]
    assert {m["pm_password"] for m in machines} == {"$BMC_PASSWORD"}
    placed = tripleo(rdg())["node-info"]
    assert [(r["name"], r["count"]) for r in placed] == [("Controller", 3), ("ComputeSriovIB", 2)]
    assert [i["hostname"] for r in placed for i in r["instances"]] == [
        *(f"overcloud-controller-{n}" for n in range(3)),
        *(f"overcloud-computesriovib-{n}" for n in range(2)),
    ]
    assert placed[0]["instances"][0]["networks"][0] == {
        "network": "ctlplane",
        "vif": True,
        "fixed_ip": "192.168.24.11",
    }


def test_undercloud_conf_follows_the_site() -> None:
    found = configparser.ConfigParser()
    found.read_string(export(rdg(), "tripleo")["undercloud.conf"])
    assert found["DEFAULT"]["local_ip"] == "192.168.24.2/24" and found["DEFAULT"]["local_interface"] == "eno1"
    assert found["DEFAULT"]["undercloud_public_host"] == "192.168.24.3", "the lowest unused address"
    assert found["DEFAULT"]["undercloud_admin_host"] == "192.168.24.4", "192.168.24.5 is UFM's"
    assert found["ctlplane-subnet"]["inspection_iprange"] == "192.168.24.100,192.168.24.120"


def test_control_networks_use_ipoib() -> None:
    """P_Keys on the single adapter, without the membership bit, with the APIs' addresses."""
    files = tripleo(rdg())
    assert [n["name"] for n in files["network_data"]] == ["External", "InternalApi", "Storage", "StorageMgmt"]
    assert {v["network"]: v.get("ip_address") for v in files["vip_data"]} == {
        "ctlplane": None,
        "external": "10.7.208.250",
        "internal_api": "172.17.0.250",
        "storage": None,
        "storage_mgmt": None,
    }
    template = export(rdg(), "tripleo")["templates/nics/Controller.j2"]
    assert template.count("type: ib_interface") == 1 and template.count("type: ib_child_interface") == 3
    assert [f"pkey_id: {n}\n" in template for n in (17, 18, 19)] == [True] * 3


def test_compute_parameters_have_devices_cpus_and_physical_networks() -> None:
    found = tripleo(rdg())["environment"]["parameter_defaults"]
    compute = found["ComputeSriovIBParameters"]
    assert (
        compute["NovaComputeCpuDedicatedSet"] == ["2-17", "20-35"] and compute["IsolCpusList"] == "2-17,20-35"
    )
    addresses = [d["address"] for d in compute["NovaPCIPassthrough"]]
    assert addresses[-2:] == ["0000:c5:01.1", "0000:cc:00.0"]
    assert found["ControllerExtraConfig"]["nova::pci::aliases"][0]["name"] == "a100"
    assert found["MultiInterfaceDriverMappings"] == ["datacentre:openvswitch", "ibnet:ipoib"]
    assert found["NeutronBridgeMappings"] == "datacentre:br-ex"
    sdn = tripleo(rdg())["neutron-ml2-mlnx-sdn"]["parameter_defaults"]
    assert sdn["MlnxSDNUrl"] == "https://192.168.24.5/ufmRestV3" and sdn["MlnxSDNToken"] == "$MLNX_SDN_TOKEN"
    assert (sdn["MlnxSDNUsername"], sdn["MlnxSDNPassword"]) == ("", "")


def test_firewall_is_a_service_of_the_roles() -> None:
    """The templates have no parameter for it."""
    for firewall in (True, False):
        found = tripleo(changed(lambda d, on=firewall: deployment(d).update(firewall=on)))
        has = ["OS::TripleO::Services::TripleoFirewall" in r["ServicesDefault"] for r in found["roles_data"]]
        assert has == [firewall] * 2 and "ManageFirewall" not in found["environment"]["parameter_defaults"]


def test_ldap_domains_are_configured() -> None:
    found = tripleo(changed(with_everything))["environment"]["parameter_defaults"]
    assert found["KeystoneLDAPDomainEnable"] is True
    assert found["KeystoneLDAPBackendConfigs"]["customers"]["password"] == "$KEYSTONE_LDAP_CUSTOMERS_PASSWORD"
    assert "KEYSTONE_LDAP_CUSTOMERS_PASSWORD" in export(changed(with_everything), "tripleo")["README.md"]


def test_site_without_fabric_has_no_infiniband_files() -> None:
    files = export(changed(without_fabric), "tripleo")
    assert not any("mlnx" in name for name in files)
    assert (
        "ib_" not in files["templates/nics/Controller.j2"]
        and "type: vlan" in files["templates/nics/Controller.j2"]
    )
    assert "mlnx" not in files["deploy.sh"]


@pytest.mark.parametrize("tls", ["everywhere", "external", "none"])
def test_deploy_command_is_a_valid_shell_script(tmp_path: Path, tls: str) -> None:
    files = export(changed(lambda d: deployment(d).update(tls=tls)), "tripleo")
    (tmp_path / "deploy.sh").write_text(files["deploy.sh"])
    assert subprocess.run(["bash", "-n", tmp_path / "deploy.sh"], check=False).returncode == 0
    assert ("enable-internal-tls" in files["deploy.sh"]) is (tls == "everywhere")
    for name in files:
        if name.startswith("templates/") and name.endswith(".yaml"):
            assert f"/home/stack/{name}" in files["deploy.sh"], f"the deploy command has {name}"


def test_missing_site_settings_are_reported() -> None:
    def nothing(document: Document) -> None:
        deployment(document).update(seed=None, inspection=None)
        document["interfaces"] = [
            i for i in document["interfaces"] if i["name"] != "bmc" or i["device"] != "compute-1"
        ]

    with pytest.raises(InputErrors) as caught:
        export(changed(nothing), "tripleo")
    assert [e.field for e in caught.value.errors] == [
        "clouds.overcloud.deployment.seed",
        "clouds.overcloud.deployment.inspection",
        "interfaces",
    ]
    with pytest.raises(InputErrors, match=r"configured_by: 'neutron' is not allowed: weft"):
        export(changed(with_roce, by_neutron), "tripleo")


def test_bonds_are_refused() -> None:
    def on_a_bond(document: Document) -> None:
        role = deployment(document)["roles"]["ComputeSriovIB"]
        role["interfaces"]["external"], role["bonds"] = "bond0", {"bond0": ["eno4", "eno5"]}

    with pytest.raises(
        InputErrors, match=r"ComputeSriovIB.bonds: 'bond0' is not allowed: none: the templates"
    ):
        export(changed(on_a_bond), "tripleo")


def test_role_with_different_hosts_is_refused() -> None:
    def another_slot(document: Document) -> None:
        node = next(n for n in document["nodes"] if n["name"] == "compute-2")
        node["accelerators"][0]["pci"] = "0000:17:00.0"

    with pytest.raises(
        InputError, match="hosts with the same devices, for TripleO: compute-2 differs from compute-1"
    ):
        export(changed(another_slot), "tripleo")


def test_ambiguous_names_are_refused() -> None:
    def like_it(document: Document) -> None:
        networks = document["networks"]
        networks["storage.mgmt"] = json.loads(
            json.dumps(networks["storage-mgmt"]).replace("172.19.", "172.20.")
        )
        networks["storage.mgmt"]["vlan"] = 20
        deployment(document)["roles"]["Controller"]["interfaces"]["storage.mgmt"] = "ib2.8014"

    with pytest.raises(InputError, match="TripleO would call it StorageMgmt"):
        export(changed(like_it), "tripleo")


def test_secrets_of_any_content_are_filled_in(tmp_path: Path) -> None:
    """As JSON and YAML values in files that only their owner reads; if one is missing no file is written."""
    folder = written(tmp_path, changed(with_everything, with_roce))
    secret = """a"b\\c$d: #'{"""
    names = {"BMC_USER": "root", "BMC_PASSWORD": secret, "MLNX_SDN_TOKEN": secret, "WEFT_USER_ID": "4711"}
    names["KEYSTONE_LDAP_CUSTOMERS_PASSWORD"] = secret

    def fill(source: str, target: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
        words = [sys.executable, folder / "fill.py", folder / source, folder / target]
        return subprocess.run(words, env=env, capture_output=True, text=True, check=False)

    left = {n: v for n, v in names.items() if n != "BMC_PASSWORD"}
    missing = fill("instackenv.json", "filled.json", left)
    assert (missing.returncode, missing.stderr) == (1, "fill.py: BMC_PASSWORD isn't set\n")
    assert not (folder / "filled.json").exists()
    assert fill("instackenv.json", "filled.json", names).returncode == 0
    assert {n["pm_password"] for n in json.loads((folder / "filled.json").read_text())["nodes"]} == {secret}
    assert (folder / "filled.json").stat().st_mode & 0o777 == 0o600
    for file in (ENVIRONMENT, "templates/neutron-ml2-mlnx-sdn.yaml"):
        before = yaml.safe_load((folder / file).read_text())
        assert fill(file, file, names).returncode == 0
        after = yaml.safe_load((folder / file).read_text())
        assert after != before and before.keys() == after.keys()
        assert (folder / file).stat().st_mode & 0o777 == 0o600 and "$MLNX" not in str(after)
        assert secret in texts(after)


def texts(value: Any) -> list[str]:
    """Every text in a document."""
    if isinstance(value, str):
        return [value]
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for one in inside for text in texts(one)]


@pytest.mark.cloud
@pytest.mark.nightly(reason="four clouds; by day the files are compared with what is expected")
def test_tripleo_validators_accept_the_files(tmp_path: Path) -> None:
    """For the guide's cloud, one with every feature, several fabrics, and one on Ethernet only."""
    sites = {
        "rdg": rdg(),
        "everything": changed(with_everything, with_roce),
        "ethernet": changed(without_fabric),
    }
    for name, site in sites.items():
        assert {k: v for k, v in validated(written(tmp_path / name, site)).items() if v} == {}, name


@pytest.mark.cloud
def test_tripleo_validators_find_mistakes(tmp_path: Path) -> None:
    """One mistake in each file, all at once; each is found at its place."""
    folder = written(tmp_path, rdg())
    for name, old, new in (
        ("undercloud.conf", "clean_nodes", "enable_tempest = false\nclean_nodes"),
        ("instackenv.json", "0c:42:a1:00:02:01", "0c:42:a1:00:02:00"),
        ("templates/network_data.yaml", "mtu: 2044", "mtu: large"),
        (NODE_INFO, "hostname_format", "host_format"),
        ("templates/roles_data.yaml", "CountDefault: 2", "CountDefault: two"),
        ("templates/nics/ComputeSriovIB.j2", "pkey_id", "pkey"),
    ):
        text = (folder / name).read_text()
        assert old in text
        (folder / name).write_text(text.replace(old, new))
    controllers = folder / "templates/nics/Controller.j2"
    controllers.write_text(controllers.read_text().replace("pkey_id: 17", f"pkey_id: {0x8000 | 17}"))
    found = validated(folder)
    assert [name for name, errors in found.items() if not errors] == []
    assert "Controller.j2: InvalidConfigException: Invalid pkey value 0x8011" in found["templates/nics"]


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python environment that can build the heat templates' source distributions, whose wheels are empty."""
    folder = tmp_path_factory.mktemp("builder")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    subprocess.run([folder / "bin/pip", "install", "-q", *BUILDERS], check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module", params=sorted(LACKING))
def heat(request: pytest.FixtureRequest, builder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("heat")
    words = ("download", "-q", "--no-build-isolation", "--no-deps", "--no-binary", ":all:", "-d", folder)
    wanted = f"tripleo-heat-templates=={request.param}"
    env = {**os.environ, "PBR_VERSION": request.param}
    subprocess.run([builder / "bin/pip", *words, wanted], check=True, capture_output=True, env=env)
    (archive,) = folder.glob("*.tar.gz")
    unpack(archive, folder)
    return folder / archive.name.removesuffix(".tar.gz")


@pytest.mark.cloud
@pytest.mark.nightly(
    reason="downloads the templates of all of TripleO; the validators look at each file by day"
)
def test_heat_templates_render_with_roles_and_networks(heat: Path, tmp_path: Path) -> None:
    """By TripleO's own renderer. Files that the deploy command names exist, and services and parameters are the
    templates' own: `--validation-warnings-fatal` ends a deployment with an unknown parameter.
    """
    folder = written(tmp_path / "files", changed(with_everything, with_roce, with_shares))

    def rendered(out: Path) -> subprocess.CompletedProcess[str]:
        given = (folder / "templates/roles_data.yaml", folder / "templates/network_data.yaml")
        words = ("tools/process-templates.py", "-r", given[0], "-n", given[1], "-o", out)
        command = [validators() / "bin/python", *words]
        return subprocess.run(command, cwd=heat, capture_output=True, text=True, check=False)

    out = tmp_path / "out"
    assert rendered(out).returncode == 0
    assert (out / "puppet/computesriovib-role.yaml").exists() and len(list(out.rglob("*"))) > 1500
    named = re.findall(
        r"/usr/share/openstack-tripleo-heat-templates/(\S+)", (folder / "deploy.sh").read_text()
    )
    lacking = {name for name in named if not (out / name).exists()}
    lacking |= set(_parameters(folder)) - _known(out)
    lacking |= _services(folder) - _registered(out)
    assert lacking == LACKING[heat.name.rpartition("-")[2]]
    roles = folder / "templates/roles_data.yaml"
    roles.write_text(roles.read_text().replace("name: ComputeSriovIB", "nam: ComputeSriovIB"))
    assert rendered(tmp_path / "wrong").returncode != 0


def _services(folder: Path) -> set[str]:
    roles = yaml.safe_load((folder / "templates/roles_data.yaml").read_text())
    return {service for role in roles for service in role["ServicesDefault"]}


def _registered(out: Path) -> set[str]:
    """Services in the templates."""
    text = (out / "overcloud-resource-registry-puppet.yaml").read_text()
    return set(yaml.safe_load(text)["resource_registry"])


def _known(out: Path) -> set[str]:
    """Names of the templates' parameters."""
    found: set[str] = set()
    for file in out.rglob("*.yaml"):
        if block := re.search(r"(?ms)^parameters:\n(.*?)(?=^\S|\Z)", file.read_text()):
            found |= set(re.findall(r"(?m)^  (\w+):", block.group(1)))
    return found


def _parameters(folder: Path) -> Iterator[str]:
    """Names of the parameters that the environments set, also those for one role; `ExtraConfig` isn't a parameter."""
    for file in (folder / "templates").glob("*.yaml"):
        document = yaml.safe_load(file.read_text())
        for name, value in (
            document.get("parameter_defaults", {}) if isinstance(document, dict) else {}
        ).items():
            if name.endswith("Parameters"):
                yield from value
            elif not name.endswith("ExtraConfig"):
                yield name


def test_all_files_are_in_the_copied_folders(tmp_path: Path) -> None:
    """No file refers to the folder in which it was made."""
    folder = written(tmp_path / "out", rdg())
    shutil.move(folder, tmp_path / "moved")
    assert not any(str(tmp_path) in p.read_text() for p in (tmp_path / "moved").rglob("*") if p.is_file())
