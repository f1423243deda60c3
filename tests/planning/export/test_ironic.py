"""Ironic as exported: how machines pass from one tenant to the next."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.helpers.kolla import kolla
from tests.helpers.rdg import Document, changed, with_machines
from tests.planning.export.test_kolla import sections
from weft.planning.export.formats import export
from weftlab.environment import ensure_other
from weftlab.layout import default_cache
from weftlab.metal.jobs import DISTRIBUTIONS, PINS

FILE = "config/ironic.conf"
ASK = """
import json, sys
from ironic.conf import CONF
CONF([f"--config-file={file}" for file in sys.argv[1:]], project="ironic")
asked = ("automated_clean", "automatic_lessee_source", "record_step_flows_in_history")
print(json.dumps([*(CONF.conductor[name] for name in asked), CONF.deploy.delete_configuration_priority]))
"""


def with_arrays(document: Document) -> None:
    document["clouds"]["overcloud"]["cleaning_steps"] = ["raid.delete_configuration"]


def test_machines_are_cleaned_and_unowned_between_tenants() -> None:
    text = export(changed(with_machines), "kolla")[FILE]
    assert sections(text)["conductor"]["automated_clean"] == ["true"]
    networks = {f"{use}_network" for use in ("cleaning", "provisioning", "inspection", "rescuing")}
    assert {n: sections(text)["neutron"][n] for n in networks} == {n: ["provisioning"] for n in networks}
    assert "deploy" not in sections(text)
    deploy = sections(export(changed(with_machines, with_arrays), "kolla")[FILE])["deploy"]
    assert int(deploy["delete_configuration_priority"][0]) > 99, "the agent erases metadata at this priority"
    by_kayobe = sections(export(changed(with_machines), "kayobe")[f"kolla/{FILE}"])
    assert by_kayobe["conductor"] == sections(text)["conductor"]
    assert not networks & by_kayobe["neutron"].keys(), "Kayobe makes them under its own names"


def test_machines_boot_from_the_provisioning_network() -> None:
    """Kolla Ansible's default is the network of the APIs, which machines must not reach."""
    wanted = {f"ironic_{what}_interface": "eno1" for what in ("dnsmasq", "http", "tftp")}
    site, place = changed(with_machines), "inventory/group_vars/role_controller.yml"
    found = yaml.safe_load(export(site, "kolla")[place])
    assert wanted.items() <= found.items() and found["network_interface"] != "eno1"
    by_kayobe = yaml.safe_load(export(site, "kayobe")[f"kolla/{place}"])
    assert {n: by_kayobe[n] for n in wanted if "dnsmasq" not in n}.items() <= wanted.items()
    assert "http" not in "".join(yaml.safe_load(export(changed(), "kolla")[place]))


@pytest.mark.cloud
def test_ironic_options_override_kollas_defaults(tmp_path: Path) -> None:
    """With Kolla's own file machines would pass to the next tenant uncleaned."""
    template = kolla() / "share/kolla-ansible/ansible/roles/ironic/templates/ironic.conf.j2"
    [theirs] = re.findall(r"^automated_clean *=.*$", template.read_text(), re.MULTILINE)
    kollas, ours = tmp_path / "kolla.conf", tmp_path / "ironic.conf"
    kollas.write_text(f"[conductor]\n{theirs}\n")
    ours.write_text(export(changed(with_machines, with_arrays), "kolla")[FILE])
    bin_ = ensure_other(default_cache(), "ironic", PINS, DISTRIBUTIONS, print) / "bin"

    def read(*files: Path) -> list[object]:
        command = [str(bin_ / "python"), "-W", "ignore", "-c", ASK, *map(str, files)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    assert read(kollas)[:2] == [False, "instance"]
    assert read(kollas, ours) == [True, "none", True, 100]
    validator = [str(bin_ / "oslo-config-validator"), "--namespace", "ironic", "--input-file"]
    for text, code in ((ours.read_text(), 0), (ours.read_text().replace("lessee_source", "lessee_sauce"), 1)):
        ours.write_text(text)
        assert subprocess.run([*validator, str(ours)], capture_output=True, check=False).returncode == code
