"""The exported inventory as Ansible reads it, beside Kolla Ansible's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.kolla import exported, read, shipped
from tests.helpers.rdg import rdg

pytestmark = pytest.mark.cloud


def test_inventory_has_every_kolla_group(tmp_path: Path) -> None:
    """Each group of Kolla's release with the same subgroups, and the hosts in the groups of their roles."""
    theirs, ours = read(shipped()), read(exported(tmp_path, rdg()))
    children = {name: sorted(group["children"]) for name, group in theirs.items() if "children" in group}
    for name in children.keys() - {"all"}:
        assert sorted(ours[name]["children"]) == children[name], name
    assert ours["role_controller"]["hosts"] == ["controller-1", "controller-2", "controller-3"]
    assert [g for g in ("control", "network", "storage") if ours[g]["children"] == ["role_controller"]] == [
        "control",
        "network",
        "storage",
    ]
    assert ours["compute"]["children"] == ["role_computesriovib"]
    variables = ours["_meta"]["hostvars"]["compute-1"]
    assert variables["ansible_host"] == "192.168.24.14" and variables["network_interface"] == "ib2.8011"
