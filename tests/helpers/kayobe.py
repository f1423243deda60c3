"""Kayobe in an environment of its own, and what it makes of an exported configuration."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from tests.helpers.kolla import kolla
from tests.helpers.paths import ROOT
from weft.model.site import Site
from weft.planning.export.formats import export
from weftlab.environment import ensure_alone, install_packages
from weftlab.layout import default_cache

PINS = ROOT / "tests" / "data" / "export" / "kayobe.txt"


@cache
def kayobe() -> Path:
    """The program of an environment that is made once and kept in the lab's cache."""
    install_packages({"rsync": "rsync"}, print)  # Kayobe copies inventories with it
    return ensure_alone(default_cache(), "kayobe", PINS, ("kayobe", "ansible"), print)


class Kayobe:
    """A folder with a site's Kayobe configuration, and beside it what Kayobe makes of it.

    Attributes:
        config: KAYOBE_CONFIG_PATH.
        kolla: KOLLA_CONFIG_PATH, which Kolla Ansible would read.
    """

    def __init__(self, folder: Path, site: Site) -> None:
        self.config, self.kolla, self._home = folder / "etc", folder / "kolla", folder / "home"
        (self._home / ".ssh").mkdir(parents=True)
        for name, text in export(site, "kayobe").items():
            (self.config / name).parent.mkdir(parents=True, exist_ok=True)
            (self.config / name).write_text(text)

    def dump(self, hosts: str, variable: str) -> dict[str, Any]:
        """Host -> value of a variable, by Kayobe's `configuration dump`."""
        done = self.run("configuration", "dump", "--var-name", variable, "-l", hosts)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return json.loads(done.stdout[done.stdout.index("{") : done.stdout.rindex("}") + 1])

    def make(self, playbook: str) -> None:
        """Runs a playbook of Kayobe's that makes Kolla Ansible's configuration."""
        place = kayobe() / "share/kayobe/ansible" / f"{playbook}.yml"
        own: Sequence[str] = (
            "-e",
            "kayobe_control_host_become=false",
            "-e",
            '{"kolla_ansible_custom_passwords": {}}',
        )
        done = self.run("playbook", "run", str(place), "--tags", "config", *own)
        assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        env = {
            "PATH": f"{kayobe()}/bin:/usr/bin:/bin",
            "HOME": str(self._home),
            "LC_ALL": "C.UTF-8",
            "KAYOBE_CONFIG_PATH": str(self.config),
            "KOLLA_CONFIG_PATH": str(self.kolla),
            "KOLLA_VENV_PATH": str(kolla()),
        }
        command = [kayobe() / "bin/kayobe", *words]
        return subprocess.run(command, env=env, capture_output=True, text=True, check=False)

    def inventory(self) -> dict[str, Any]:
        """The inventories that Kayobe made for Kolla Ansible, as Ansible reads them."""
        env = {"PATH": f"{kolla()}/bin:/usr/bin:/bin", "LC_ALL": "C.UTF-8", "HOME": str(self._home)}
        places = [self.kolla / "inventory/overcloud", *(self.kolla / "extra-inventories").glob("*")]
        words = [word for place in places for word in ("-i", str(place))]
        command = [kolla() / "bin/ansible-inventory", *words, "--list"]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)
