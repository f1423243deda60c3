"""Whether Neutron as exported accepts the networks that `weft site apply` creates for the same site."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.helpers.rdg import Document, changed, rdg
from tests.planning.export.test_kolla import ML2, sections
from weft.model.site import Site
from weft.model.specs import NetworkSpec
from weft.planning.export.formats import export
from weft.planning.site.graph import site_graph
from weftlab.environment import ensure_environment
from weftlab.layout import default_cache

NEUTRON = "config/neutron.conf"
ASK = """
import json, sys
from oslo_config import cfg
from neutron.conf import common
from neutron.conf.plugins.ml2 import config
from neutron.plugins.ml2.drivers import type_flat, type_vlan
common.register_core_common_config_opts(cfg.CONF)
config.register_ml2_plugin_opts()

def refused(files, asked):
    cfg.CONF([f"--config-file={file}" for file in files], project="neutron")
    drivers, found = {"flat": type_flat.FlatTypeDriver(), "vlan": type_vlan.VlanTypeDriver()}, {}
    for name, segment, mtu in asked:
        driver = drivers[segment["network_type"]]
        try:
            driver.validate_provider_segment(segment)
        except Exception as error:
            found[name] = str(error)
        else:  # as `Ml2Plugin._get_network_mtu`
            if (largest := driver.get_mtu(segment["physical_network"])) < mtu:
                found[name] = f"MTU above {largest}"
    return found

print(json.dumps([refused(*case) for case in json.load(sys.stdin)]))
"""


def jumbo(document: Document) -> None:
    """Large packets for storage and for pods on InfiniBand."""
    document["networks"]["storage"]["mtu"] = 4092
    document["fabrics"]["ib"]["mtu"] = 4000


def written(folder: Path, site: Site, without: str) -> tuple[list[str], list[Any]]:
    """Write Neutron's files; return them with the networks it will be asked for.

    Args:
        without: pattern of the text that is left out of the files.
    """
    folder.mkdir()
    paths = [folder / Path(name).name for name in (NEUTRON, ML2)]
    files = export(site, "kolla")
    for path, name in zip(paths, (NEUTRON, ML2), strict=True):
        path.write_text(re.sub(without, "", files[name]))
    asked: list[Any] = []
    for resource in site_graph(site).resources:
        if isinstance(spec := resource.spec, NetworkSpec):
            number = {} if spec.segment is None else {"segmentation_id": spec.segment}
            kind = "vlan" if number else "flat"
            segment = {"network_type": kind, "physical_network": spec.physical_network, **number}
            asked.append((resource.name, segment, spec.mtu))
    assert asked
    return [str(path) for path in paths], asked


def refused(folder: Path, *cases: tuple[Site, str]) -> list[dict[str, str]]:
    """For each site: network -> why Neutron's own type drivers refuse it."""
    files = [written(folder / str(n), *case) for n, case in enumerate(cases)]
    python = ensure_environment(default_cache(), print) / "bin" / "python"
    command = [str(python), "-W", "ignore", "-c", ASK]
    done = subprocess.run(
        command, input=json.dumps(files), capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.cloud
def test_neutron_type_drivers_accept_every_site_network(tmp_path: Path) -> None:
    nothing = "\0"
    plain, large, small, unlisted, untagged = refused(
        tmp_path,
        (rdg(), nothing),
        (changed(jumbo), nothing),
        (changed(jumbo), ".*_mtu.*\n"),
        (rdg(), ",ipmi,provisioning"),
        (rdg(), ".*network_vlan_ranges.*\n"),
    )
    assert plain == large == {}
    assert small == dict.fromkeys(("internal-api", "storage", "storage-mgmt"), "MTU above 1500")
    assert unlisted.keys() == {"ipmi", "provisioning"}
    assert "unknown for flat provider network" in unlisted["ipmi"]
    assert "physical_network 'ibnet' unknown" in untagged["storage"]


def test_physical_network_mtu_is_the_sites_largest() -> None:
    ml2 = sections(export(changed(jumbo), "kolla")[ML2])["ml2"]
    assert ml2["physical_network_mtus"] == ["datacentre:1500,ibnet:4092,ipmi:1500,provisioning:1500"]
    assert ml2["path_mtu"] == ["2044"], "the MTU of the network with the tunnels"
    environment = yaml.safe_load(export(changed(jumbo), "tripleo")["templates/environment.yaml"])
    found: dict[str, Any] = environment["parameter_defaults"]
    assert found["NeutronGlobalPhysnetMtu"] == 4092
    hiera: dict[str, Any] = found["ControllerExtraConfig"]
    assert hiera["neutron::plugins::ml2::physical_network_mtus"] == ml2["physical_network_mtus"][0].split(",")
    assert hiera["neutron::plugins::ml2::path_mtu"] == 2044


def test_bridges_have_the_configured_mtu() -> None:
    """Neither Neutron's agents nor Kolla set the MTU of their interfaces."""

    def outside(document: Document) -> None:
        document["networks"]["external"]["mtu"] = 9000

    nics = export(changed(outside), "tripleo")["templates/nics/Controller.j2"]
    entries: list[dict[str, Any]] = yaml.safe_load(re.sub(r"\{\{.*?\}\}", "x", nics))["network_config"]
    [bridge] = [e for e in entries if e["type"] == "ovs_bridge"]
    assert bridge["mtu"] == bridge["members"][0]["mtu"] == 9000
    assert (
        "mtu: 1500" not in nics and "mtu: 9" not in export(rdg(), "tripleo")["templates/nics/Controller.j2"]
    )
    networks = yaml.safe_load(export(changed(outside), "kayobe")["networks.yml"])
    assert networks["physnet_datacentre_mtu"] == 9000


def test_sufficient_default_mtu_is_kept() -> None:
    def usual(document: Document) -> None:
        for network in document["networks"].values():
            network["mtu"] = 1500

    files = export(changed(usual), "kolla")
    assert "mtu" not in files[ML2] and "mtu" not in files[NEUTRON]
    environment = yaml.safe_load(export(changed(usual), "tripleo")["templates/environment.yaml"])
    assert "NeutronGlobalPhysnetMtu" not in environment["parameter_defaults"]
