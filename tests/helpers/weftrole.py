"""The exported Ansible role of weft, run on this machine."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.helpers.kolla import exported, kolla
from weft.model.site import Site

PROGRAM = Path(sys.prefix)
"""A Python environment with weft, in which pip has nothing to install."""
ROLE = "weft/roles/weft"


class Ansible:
    """Kolla Ansible's Ansible for a folder with an export; this machine stands for the host.

    Args:
        path: folder of additional programs.
    """

    def __init__(self, folder: Path, site: Site, path: str = "/nowhere") -> None:
        self.path = path
        self.folder, self.inventory = folder / "export", exported(folder / "export", site)
        self.host = folder / "host"
        self.host.mkdir()
        self._variables: dict[str, Any] = {
            "ansible_connection": "local",
            "ansible_become": False,
            "ansible_python_interpreter": sys.executable,
            "weft_package": "weft-pods",
            "weft_program": str(PROGRAM),
            "weft_config": str(self.host / "etc"),
            "weft_state": str(self.host / "state"),
            "weft_units": str(self.host),
            "weft_user": "root",
            "weft_service": False,
            "weft_keystone": False,
            "weft_sdn_token": "s3cret-token",
            "weft_keystone_password": 'pass"word: x',
        }

    def play(self, *words: str, **more: Any) -> subprocess.CompletedProcess[str]:
        return self._play(self.folder / "weft/weft.yml", *words, **more)

    def setting(self, name: str) -> Any:
        """A setting of the role, as Ansible reads it."""
        book, answer = self.host / "setting.yml", self.host / "setting.json"
        copy = {"content": f"{{{{ {name} | to_json }}}}", "dest": str(answer), "mode": "0600"}
        tasks = [{"ansible.builtin.copy": copy}]
        files = [str(self.folder / ROLE / "defaults/main.yml")]
        book.write_text(
            json.dumps([{"hosts": "weft", "gather_facts": False, "vars_files": files, "tasks": tasks}])
        )
        done = self._play(book)
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(answer.read_text())

    def _play(self, book: Path, *words: str, **more: Any) -> subprocess.CompletedProcess[str]:
        given = json.dumps({**self._variables, **more})
        command = [kolla() / "bin/ansible-playbook", "-i", self.inventory, book]
        environment = {
            "PATH": f"{kolla()}/bin:{self.path}:{os.environ['PATH']}",
            "LC_ALL": "C.UTF-8",
            "HOME": str(self.host),
            "ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.default",
            "ANSIBLE_NOCOLOR": "1",
        }
        return subprocess.run(
            [*command, "-e", given, *words], env=environment, capture_output=True, text=True, check=False
        )

    def command(self) -> list[str]:
        """The command that the unit starts."""
        text = (self.host / "weft.service").read_text().replace("\\\n", " ")
        (line,) = (line for line in text.splitlines() if line.startswith("ExecStart="))
        return shlex.split(line.removeprefix("ExecStart="))
