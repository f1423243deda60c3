"""The exported role's tasks for Keystone, run by Ansible against a stand-in of the `openstack` command."""

from __future__ import annotations

import json
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.helpers.rdg import changed, with_everything
from tests.helpers.weftrole import ROLE, Ansible
from weft.planning.export.formats import export

PASSWORD = 'pass"word: x'
URL = "https://weft.example.net:8787"
SECRETS = ("weft_keystone_password", "weft_database", "weft_sdn_token", "weft_admin_token")

OPENSTACK = """#!%s
import json, os, sys
from pathlib import Path
file = Path(__file__).parent / "cloud.json"
cloud, words = json.loads(file.read_text()), sys.argv[1:]
cloud["asked"].append(words)
rc = 0
option = {a[2:]: b for a, b in zip(words, words[1:]) if a.startswith("--")}
match words[:2]:
    case ["token", "issue"]: print("admin-token")
    case ["user", "create"]: print("weft-id")
    case ["service", "list"]: print(json.dumps([{"ID": i, "Name": "weft", "Type": t} for i, t in cloud["services"]]))
    case ["service", "create"]:
        cloud["services"].append(["made", words[-1]])
        print("made")
    case ["endpoint", "list"]:
        rc = cloud["refuses"]
        print(json.dumps([e for e in cloud["endpoints"] if e["Service"] == option["service"]]))
    case ["endpoint", "create"]:
        service, interface, url = words[-3:]
        one = {"ID": interface, "Interface": interface, "URL": url, "Region": option["region"], "Service": service}
        cloud["endpoints"].append(one)
    case ["endpoint", "set"]:
        for one in cloud["endpoints"]:
            if one["ID"] == words[-1]: one["URL"] = option["url"]
file.write_text(json.dumps(cloud))
sys.exit(rc)
"""


class Cloud:
    """The cloud that the stand-in `openstack` command reads and changes, in a file next to it. Keystone has the
    password.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        program = folder / "openstack"
        program.write_text(OPENSTACK % sys.executable)
        program.chmod(0o755)
        self._file = folder / "cloud.json"
        self.password = ""
        self.write(services=[["k", "identity"]], endpoints=[], refuses=0, asked=[])

    def read(self) -> dict[str, Any]:
        return json.loads(self._file.read_text())

    def write(self, **values: Any) -> None:
        before = self.read() if self._file.exists() else {}
        self._file.write_text(json.dumps({**before, **values}))

    @contextmanager
    def keystone(self) -> Iterator[str]:
        """Serve a Keystone that checks a user's password and lets an administrator set it; yield its URL."""
        cloud = self

        class Keystone(BaseHTTPRequestHandler):
            def log_message(self, *_: Any) -> None:
                pass

            def _body(self) -> dict[str, Any]:
                return json.loads(self.rfile.read(int(self.headers["Content-Length"])))

            def _answer(self, status: int) -> None:
                self.send_response(status)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def do_POST(self) -> None:
                user = self._body()["auth"]["identity"]["password"]["user"]
                self._answer(201 if user == {"id": "weft-id", "password": cloud.password} else 401)

            def do_PATCH(self) -> None:
                assert self.path == "/v3/users/weft-id"
                allowed = self.headers["X-Auth-Token"] == "admin-token"
                cloud.password = self._body()["user"]["password"] if allowed else cloud.password
                self._answer(200 if allowed else 403)

        server = ThreadingHTTPServer(("127.0.0.1", 0), Keystone)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v3"
        finally:
            server.shutdown()
            server.server_close()


def commands(files: dict[str, str]) -> Iterator[str]:
    """Command lines of every task of an export, and the loops that fill them."""
    for name, text in files.items():
        if "/tasks/" in name and name.endswith(".yml"):
            for task in yaml.safe_load(text):
                for module in ("ansible.builtin.command", "ansible.builtin.shell", "ansible.builtin.script"):
                    if module in task:
                        yield json.dumps([task[module], task.get("loop")])


@pytest.mark.parametrize("tool", ["kolla", "kayobe", "tripleo"])
def test_exported_tasks_have_no_secret_on_a_command_line(tool: str) -> None:
    """Every user of a host can read command lines. Tasks that handle a secret aren't logged."""
    files = export(changed(with_everything), tool)
    for line in commands(files):
        assert not [s for s in SECRETS if s in line], line
        assert not re.search(r"--(password|token|secret)\b", line), line
    for name, text in files.items():
        if "/tasks/" in name:
            for task in yaml.safe_load(text):
                if "ansible.builtin.uri" in task and any(s in json.dumps(task) for s in SECRETS):
                    assert task["no_log"] is True, task


@pytest.mark.cloud
@pytest.mark.nightly(reason="Ansible plays the tasks five times, 40 s; by day they are read")
def test_catalog_and_password_are_set_if_different(tmp_path: Path) -> None:
    """A second run changes nothing; another address is corrected in place; if reading fails nothing is created."""
    ansible, cloud = Ansible(tmp_path, changed(with_everything)), Cloud(tmp_path / "bin")
    ansible.path = str(tmp_path / "bin")
    main = ansible.folder / ROLE / "tasks/main.yml"
    tasks = [t for t in yaml.safe_load(main.read_text()) if "ansible.builtin.import_tasks" in t]
    main.write_text(yaml.safe_dump(tasks))
    with cloud.keystone() as url:
        more = {"weft_keystone": True, "weft_auth_url": url, "weft_url": URL, "openstack_cacert": ""}
        more["weft_keystone_password"] = PASSWORD
        done = ansible.play(**more)
        assert done.returncode == 0, done.stdout + done.stderr
        made = cloud.read()
        assert cloud.password == PASSWORD
        assert [s for s, t in made["services"] if t == "accelerator-pod"] == ["made"]
        assert {e["Interface"]: e["URL"] for e in made["endpoints"]} == {"public": URL, "internal": URL}
        assert not [w for words in made["asked"] for w in words if PASSWORD in w or "admin-token" in w]
        again = ansible.play(**more)
        assert "changed=0" in again.stdout and again.returncode == 0, again.stdout

        moved = "https://weft.example.org:8787"
        assert ansible.play(**{**more, "weft_url": moved}).returncode == 0
        assert [e["URL"] for e in cloud.read()["endpoints"]] == [moved, moved]

        cloud.write(endpoints=[], refuses=1)
        assert ansible.play(**more).returncode != 0
        assert cloud.read()["endpoints"] == [] and cloud.read()["services"] == made["services"]

        cloud.write(refuses=0, services=[*made["services"], ["two", "accelerator-pod"]])
        twice = ansible.play(**more)
        assert twice.returncode != 0 and "several services" in twice.stdout
