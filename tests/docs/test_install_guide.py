"""The install guide's commands, run as they are written, each host in a folder of its own."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.docs.blocks import blocks
from tests.helpers.folders import folder_in_memory
from tests.helpers.paths import DOCS, EXAMPLES, ROOT
from weft.cli.main import main
from weft.config.tomltext import read_toml
from weft.fabricagent.tls import make_certificates

PLACES = (
    *("/opt/weft", "/etc/weft", "/etc/kolla", "/etc/systemd", "/etc/opensm", "/usr/local"),
    *("/var/lib/weft", "/var/backups", "/root"),
)
REAL = ("config check", "site check", "fabric-agent certs", "backup", "pod example")
"""Commands of weft that need neither a cloud nor a fabric."""
NOT_HERE = ("apt-get", "useradd", "kolla-ansible", "chown", "chgrp")
STUBS = r"""
set -euo pipefail
umask 022
note() { echo "$*" >> "$NOTES"; }
for name in $NOT_HERE; do eval "$name() { note $name \"\$@\"; }"; done
openstack() { note openstack "$@"; case "$*" in "user show"*) echo 0123abcd;; esac; }
python3() { note python3 "$@"; mkdir -p "$3/bin"; ln -sf /bin/true "$3/bin/pip"; ln -sf "$WEFT" "$3/bin/weft"; }
install() {
  local words=()
  while [ $# -gt 0 ]; do case "$1" in -g|-o) shift;; *) words+=("$1");; esac; shift; done
  command install "${words[@]}"
}
scp() { local to="${@: -1}"; cp "${@:1:$#-1}" "$ROOTS/${to%%:*}${to#*:}"; }
sudo() { [ "$1 $2" = "-u weft" ]; shift 2; while [[ $1 = [A-Z]*=* ]]; do export "$1"; shift; done; "$@"; }
systemctl() {
  note systemctl "$@"
  if [ "$*" = "enable --now weft-serve.service" ]; then "$PYTHON" -c "$FIRST_START"; fi
}
# Only where the guide has put it; the subnet managers' hosts have the agents alone.
weft() {
  local one
  [ "$HOST" = "a laptop" ] || [ -x "$ROOTS/$HOST/usr/local/bin/weft" ] || { echo "no program weft"; return 127; }
  while read -r one; do
    case "$*" in *--live*) break;; "$one"*) "$WEFT" "$@"; return;; esac
  done <<< "$REAL"
  note weft "$@"
}
"""
FIRST_START = """
import os
from pathlib import Path
from weft.app.settings import settings_of
from weft.app.sitefile import load_site
from weft.config.resolve import resolve
from weft.cli.main import main
from weft.config.tomltext import read_toml
from weft.engine.database import Database
from weft.engine.embedded import embedded
from weft.engine.sealing import read_keys
from weft.engine.signing import Signer
from weft.engine.store import Store
settings = settings_of(resolve(read_toml(Path(os.environ["WEFT_CONFIG"]), "x"), {}))
with embedded(settings.state) as url:
    database = Database(url)
    store = Store(database, read_keys(settings.secrets_key))
    store.activate_site(load_site(settings.site), "guide")
    Signer(store)
    database.close()
"""
"""What the first `weft serve` leaves behind, without the cloud that it would ask."""


@pytest.fixture
def roots() -> Iterator[Path]:
    """Short, since PostgreSQL's socket is in one of them."""
    with folder_in_memory("guide-") as folder:
        for host in ("ctl1", "sm1", "sm2", "deploy", "a laptop"):
            for place in (*PLACES, "/etc/systemd/system", "/usr/local/bin"):
                (folder / host / place[1:]).mkdir(parents=True, exist_ok=True)
        for host in ("ctl1", "sm1", "deploy"):
            weft = folder / host / "root" / "weft"
            weft.mkdir()
            shutil.copytree(EXAMPLES, weft / "examples")
            shutil.copy(ROOT / "requirements.lock", weft)
            shutil.copytree(ROOT / "src/weft/planning/export/policies", weft / "policies")
        root = folder / "ctl1" / "root"
        make_certificates(root / "api", {"api": ["weft.example.net"]})
        shutil.copy(root / "api" / "agent-api.pem", root / "tls.pem")
        shutil.copy(root / "api" / "agent-api.key", root / "tls.key")
        yield folder


def guide() -> list[tuple[list[str], str]]:
    """Hosts and text of each block, in order."""
    page = (DOCS / "install.md").read_text()
    before, _, rest = page.partition("\n## A Kolla Ansible cloud")
    first = before.count("\n") + 2
    last = first + rest.partition("\n## ")[0].count("\n")
    found: list[tuple[list[str], str]] = []
    for block in blocks():
        name, _, line = block.place.rpartition(":")
        if name == "docs/install.md" and first <= int(line) <= last and block.language == "sh":
            head = re.match(r"# on (.+)\n", block.text)
            assert head is not None, f"{block.place} doesn't say on which host"
            found.append((head[1].split(" and "), block.text))
    assert len(found) == 12
    return found


def test_guide_can_be_followed(roots: Path) -> None:
    """Every command succeeds, and leaves the files that later ones need, with their modes."""
    notes = roots / "notes"
    for hosts, text in guide():
        for host in hosts:
            root = roots / host
            script = re.sub(rf"(?<![\w$:])({'|'.join(PLACES)})\b", rf"{root}\1", text)
            environment = {
                **{k: v for k, v in os.environ.items() if not k.startswith(("WEFT_", "OS_", "XDG_"))},
                "WEFT": str(Path(sys.executable).parent / "weft"),
                "PYTHON": sys.executable,
                "PYTHONPATH": str(ROOT),
                "REAL": "\n".join(REAL),
                "NOT_HERE": " ".join(NOT_HERE),
                "ROOTS": str(roots),
                "HOST": host,
                "NOTES": str(notes),
                "FIRST_START": FIRST_START,
                "WEFT_CONFIG": str(root / "etc/weft/weft.toml"),
                "HOME": str(root),
            }
            if not (root / "etc/weft/weft.toml").exists():
                environment["WEFT_CONFIG"] = "/dev/null"
            if "weft.toml <<END" in text:
                environment["WEFT_CONFIG"] = str(root / "etc/weft/weft.toml")
            done = subprocess.run(
                ["bash", "-c", f"{STUBS}\ncd '{root}'\n{script}"],
                env=environment,
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
            assert done.returncode == 0, f"{host}: {text}\n{done.stdout}{done.stderr}"
    ctl, sm = roots / "ctl1" / "etc/weft", roots / "sm1" / "etc/weft"
    assert read_toml(sm / "weft.toml", "x").values["fabric_agent"]["name"] == "sm1"
    assert main(["config", "check", "--file", str(sm / "weft.toml")]) == 0
    assert (roots / "sm2/etc/weft/agent-sm2.key").exists() and not (sm / "ca.key").exists()
    for name in ("clouds.yaml", "weft.toml", "secrets.key", "tls.key"):
        assert stat.S_IMODE((ctl / name).stat().st_mode) == 0o640
    (backup,) = (roots / "ctl1/var/backups/weft").iterdir()
    assert backup.name.startswith("weft-small-") and stat.S_IMODE(backup.stat().st_mode) == 0o600
    moves = yaml.safe_load((roots / "deploy/etc/kolla/config/nova/policy.yaml").read_text())
    assert "0123abcd" in str(moves) and "WEFT_USER_ID" not in str(moves)
    both = [
        yaml.safe_load((ROOT / f"src/weft/planning/export/policies/{n}.yaml").read_text())
        for n in ("nova", "nova_moves")
    ]
    assert len(moves) == sum(map(len, both)), "no rule is in both"
    said = notes.read_text()
    pod = yaml.safe_load((roots / "a laptop/pod.yaml").read_text())["name"]
    for words in (
        "weft doctor --wrong",
        "--live --cloud-profile main",
        "weft pod create",
        f"weft pod release {pod} ",
        f"weft pod receipt {pod}\n",
        "enable --now weft-serve",
    ):
        assert words in said
