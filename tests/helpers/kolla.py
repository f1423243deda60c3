"""Kolla Ansible in an environment of its own, and a site's exported inventory as its Ansible reads it."""

from __future__ import annotations

import json
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

from tests.helpers.paths import ROOT
from weft.model.site import Site
from weft.planning.export.formats import export
from weftlab.environment import ensure_alone
from weftlab.layout import default_cache

PINS = ROOT / "tests" / "data" / "export" / "kolla.txt"


@cache
def kolla() -> Path:
    """The environment, made once and kept in the lab's cache."""
    return ensure_alone(default_cache(), "kolla", PINS, ("kolla-ansible", "ansible"), print)


def shipped() -> Path:
    """The example inventory that Kolla Ansible installs."""
    return kolla() / "share/kolla-ansible/ansible/inventory/multinode"


def exported(folder: Path, site: Site) -> Path:
    """The exported inventory of a site, with its variables beside it."""
    for name, text in export(site, "kolla").items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder / "inventory/multinode"


def read(inventory: Path) -> dict[str, Any]:
    """An inventory as Ansible reads it: group -> hosts and child groups; `_meta` has each host's variables."""
    command = [kolla() / "bin/ansible-inventory", "-i", inventory, "--list"]
    environment = {"PATH": f"{kolla()}/bin:/usr/bin:/bin", "LC_ALL": "C.UTF-8", "HOME": str(inventory.parent)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
