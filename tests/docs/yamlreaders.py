"""Readers for the documentation's YAML: a block is a complete file, or a part that is merged into a complete one."""

from __future__ import annotations

import runpy
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml
from oslo_policy import policy as oslo_policy
from pydantic import TypeAdapter

from tests.docs.blocks import Block
from tests.helpers.paths import EXAMPLES, ROOT
from tests.helpers.prometheus import checked
from weft.app.explain import validate
from weft.app.orderfile import load_order
from weft.app.sitefile import read_site_file
from weft.app.yamltext import Positions, read_yaml, without_nulls
from weft.drivers.ufm.credentials import read_credentials
from weft.fabricagent.config import AgentConfig, read_document
from weft.model.enrollment import MachineList
from weft.model.site.fabrics import FabricManager
from weft.model.site.switching import SwitchAccess
from weft.model.sitefile import SiteTables
from weft.probeagent.config import ProbeConfig

ORDER = "name: some\nnodes: {count: 2, flavor: h100.8, image: ubuntu}\n"
CHECKS = ROOT / "images/elements/weft-host-checks/static/usr/local/bin/weft-host-checks"


def read_yaml_block(block: Block, folder: Path) -> None:
    """Raises the reader's error if the block isn't valid for any kind of file."""
    first = next(line for line in block.text.splitlines() if line.strip())
    for begins, read in _READERS.items():
        if first.startswith(begins):
            return read(block.text, folder)
    raise AssertionError(f"{block.place}: no reader for a block that begins with {first!r}")


def _order(text: str, folder: Path) -> None:
    load_order(text)


def _part_of_an_order(text: str, folder: Path) -> None:
    load_order(ORDER + (text if not text.startswith("-") else "storage:\n" + text))


def _part_of_a_site(text: str, folder: Path) -> None:
    _site(_plain(text))


def _prometheus(text: str, folder: Path) -> None:
    (folder / "prometheus.yml").write_text(text)
    checked("promtool", "check", "config", folder / "prometheus.yml")


def _part_of_a_fabric(text: str, folder: Path) -> None:
    _site({"fabrics": {"roce": _plain(text)}})


def _adapters_of_a_node(text: str, folder: Path) -> None:
    _site({"nodes": [{"name": "gpu99", **_plain(text)}]})


def _switch(text: str, folder: Path) -> None:
    TypeAdapter(list[SwitchAccess]).validate_python(yaml.safe_load(text))


def _machines(text: str, folder: Path) -> None:
    validate(MachineList, _plain(text), Positions())


def _part_of_a_machine(text: str, folder: Path) -> None:
    machine = {"bmc": "https://10.1.0.11", "ports": [{"mac": "02:00:00:00:b0:01"}]}
    listed = {
        "defaults": {"driver": "redfish", "account": "bmc.secret"},
        "machines": {"bm01": {**machine, **_plain(text)}},
    }
    validate(MachineList, listed, Positions())


def _agent(text: str, folder: Path) -> None:
    kind = AgentConfig if "opensm:" in text else ProbeConfig
    (folder / "agent.yaml").write_text(text)
    read_document(folder / "agent.yaml", kind)


def _ufm_credentials(text: str, folder: Path) -> None:
    path = folder / "ufm.yaml"
    path.touch(0o600)
    path.write_text(text)
    address = {"driver": "ufm", "addresses": ["https://ufm.example"], "credentials": str(path)}
    read_credentials(FabricManager.model_validate({**address, "authentication": "token"}))


def _cloud_config(text: str, folder: Path) -> None:
    (written,) = yaml.safe_load(text)["write_files"]
    path = folder / written["path"].lstrip("/")
    path.parent.mkdir(parents=True)
    path.write_text(written["content"])
    runpy.run_path(str(CHECKS))["expectations"](path)


def _policy(text: str, folder: Path) -> None:
    rules = yaml.safe_load(text)
    oslo_policy.Rules.from_dict(rules)
    assert all(isinstance(rule, str) for rule in rules.values())


def _plain(text: str) -> dict[str, Any]:
    return without_nulls(read_yaml(text, "block")[0])


def _site(part: Mapping[str, Any]) -> None:
    """Reads it merged into an example's site, whose parts it replaces or completes."""
    whole, _ = read_site_file(EXAMPLES / "sites/roce/site.yaml")
    part = {
        table: [r for r in rows if "csv" not in r] if isinstance(rows, list) else rows
        for table, rows in part.items()
    }
    validate(SiteTables, _merged(whole, part), Positions())


def _merged(whole: Any, part: Any) -> Any:
    if isinstance(whole, dict) and isinstance(part, Mapping):
        return {**whole, **{key: _merged(whole.get(key), value) for key, value in part.items()}}
    return part


_READERS: Mapping[str, Callable[[str, Path], None]] = {
    "scrape_configs:": _prometheus,
    "monitoring:": _part_of_a_site,
    "#cloud-config": _cloud_config,
    '"create_': _policy,
    "- {name: leaf09": _switch,
    "- {share:": _part_of_an_order,
    "acceptance:": _part_of_a_site,
    "access:": _part_of_an_order,
    "clouds:": _part_of_a_site,
    "defaults:": _machines,
    "fabrics:": _part_of_a_site,
    "hcas:": _adapters_of_a_node,
    "checks:": _part_of_a_site,
    "leases:": _part_of_a_site,
    "locality:": _part_of_an_order,
    "name: probe-": _agent,
    "name: sm1": _agent,
    "name:": _order,
    "nodes:": _part_of_a_site,
    "placement:": _part_of_a_site,
    "qos:": _part_of_a_fabric,
    "raid:": _part_of_a_machine,
    "storage:": _part_of_an_order,
    "token:": _ufm_credentials,
    "traffic:": _part_of_a_fabric,
    "verify:": _part_of_an_order,
}
"""Beginning of a block -> its reader; the first that fits is used."""
