"""The install guides' commands, run as written, with a directory for each host."""

from __future__ import annotations

import configparser
import os
import re
import shutil
import socket
import ssl
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from tests.docs.blocks import blocks
from tests.helpers.folders import folder_in_memory
from tests.helpers.paths import DOCS, EXAMPLES, ROOT
from tests.helpers.waiting import wait_for
from weft.app.livecheck import check_live
from weft.app.sitefile import load_site
from weft.cli.main import main
from weft.config.tomltext import read_toml
from weft.drivers.switches.access import credentials_for
from weft.drivers.wire.tlsfiles import pair_problem
from weft.fabricagent.tls import make_certificates
from weft.model.site import FabricAgent, FabricManager, Site
from weft.testing.fabric import FakeFabric
from weft.testing.serving import free_port
from weftlab.ufm import Ufm
from weftlab.ufm.fabrics import CalledFabric
from weftlab.ufm.server import Cluster, UfmNode, context
from weftlab.ufm.state import User
from weftlab.ufm.ufm import Config

PLACES = (
    *("/opt/weft", "/etc/weft", "/etc/kolla", "/etc/systemd", "/etc/opensm", "/etc/openvipu", "/usr/local"),
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
openvipu-server() { [ -L "$ROOTS/$HOST/usr/local/bin/openvipu-server" ] && "${WEFT%weft}openvipu-server" "$@"; }
# Only where the guide has put it; the subnet managers' hosts have the agents alone.
weft() {
  local one
  [ "$HOST" = "laptop" ] || [ -x "$ROOTS/$HOST/usr/local/bin/weft" ] || { echo "no program weft"; return 127; }
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
from weft.engine.base.database import Database
from weft.engine.base.embedded import embedded
from weft.engine.base.sealing import read_keys
from weft.engine.store.signing import Signer
from weft.engine.store.store import Store
settings = settings_of(resolve(read_toml(Path(os.environ["WEFT_CONFIG"]), "x"), {}))
with embedded(settings.state) as url:
    database = Database(url)
    store = Store(database, read_keys(settings.secrets_key))
    store.activate_site(load_site(settings.site), "guide")
    Signer(store)
    database.close()
"""
"""Makes the files that the first `weft serve` would make, without a cloud."""


HOSTS = ("ctl1", "sm1", "sm2", "deploy", "laptop", "gpu01", "gw1")
_STEP = re.compile(r"\*\*(\d+)\. ")


@pytest.fixture
def roots() -> Iterator[Path]:
    """A directory for each host; short, because the path of PostgreSQL's socket is limited."""
    with folder_in_memory("guide-") as folder:
        for host in HOSTS:
            # Directories of a fresh Debian; the guide makes those of weft.
            for place in ("/usr/local/bin", "/etc/systemd/system", "/root", "/opt", "/var/lib"):
                (folder / host / place[1:]).mkdir(parents=True)
        for host, place in (("sm1", "/etc/opensm"), ("sm2", "/etc/opensm"), ("deploy", "/etc/kolla")):
            (folder / host / place[1:]).mkdir()
        for host in HOSTS:
            weft = folder / host / "root" / "weft"
            weft.mkdir()
            shutil.copytree(EXAMPLES, weft / "examples")
            shutil.copy(ROOT / "requirements.lock", weft)
            shutil.copytree(ROOT / "src/weft/planning/export/policies", weft / "policies")
        root = folder / "ctl1" / "root"
        make_certificates(
            root / "api", {"api": ["weft.example.net"], "ufm": ["127.0.0.1"], "eos": ["127.0.0.1"]}
        )
        for name, to in (("agent-api", "tls"), ("agent-ufm", "ufm"), ("ca", "ufm-ca"), ("ca", "switches-ca")):
            shutil.copy(root / "api" / f"{name}.pem", root / f"{to}.pem")
        shutil.copy(root / "api" / "agent-api.key", root / "tls.key")
        yield folder


def steps(page: str) -> dict[int, list[tuple[list[str], str]]]:
    """Number of a step -> (hosts, text) of each of its blocks, in order."""
    lines = (DOCS / page).read_text().splitlines()
    first = next((n for n, line in enumerate(lines) if line.startswith("## A Kolla Ansible cloud")), 0)
    last = next((n for n, line in enumerate(lines) if n > first and line.startswith("## ")), len(lines))
    found: dict[int, list[tuple[list[str], str]]] = {}
    for block in blocks():
        name, _, line = block.place.rpartition(":")
        if name == f"docs/{page}" and first < int(line) <= last and block.language == "sh":
            head = re.match(r"# on (.+)\n", block.text)
            assert head is not None, f"{block.place} doesn't say on which host"
            numbers = [m[1] for one in lines[first : int(line)] if (m := _STEP.match(one))]
            found.setdefault(int(numbers[-1]), []).append(
                ([host.removeprefix("a ") for host in head[1].split(" and ")], block.text)
            )
    return found


def guide(page: str = "install.md") -> list[tuple[list[str], str]]:
    """(hosts, text) of each block, in order; the page for another kind of fabric replaces steps 3 to 5 of
    install.md."""
    first = steps("install.md")
    assert sum(map(len, first.values())) == 13 and sorted(first) == list(range(1, 11))
    if page != "install.md":
        replaced = steps(page)
        assert sorted(replaced) == [3, 4, 5]
        first |= replaced
    found = [block for _, of_step in sorted(first.items()) for block in of_step]
    gone = {"sm1", "sm2"} if page != "install.md" else set[str]()
    return [([h for h in hosts if h not in gone], text) for hosts, text in found]


def follow(roots: Path, page: str) -> str:
    """Runs every block; calls of programs that are replaced by stubs, as text."""
    notes = roots / "notes"
    for hosts, text in guide(page):
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
    return notes.read_text()


AT_NIGHT = pytest.mark.nightly(
    reason="half a minute each; by day the guide for OpenSM is followed, and blocks of all are read by their tools"
)


@pytest.mark.landing
def test_guide_for_opensm_can_be_followed(roots: Path) -> None:
    """Every command succeeds, and later ones find the files of earlier ones, with their modes."""
    said = follow(roots, "install.md")
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
    assert len(moves) == sum(map(len, both)), "no rule is in both blocks"
    pod = yaml.safe_load((roots / "laptop/pod.yaml").read_text())["name"]
    for words in (
        "weft doctor --wrong",
        "--live --cloud-profile main",
        "weft pod create",
        f"weft pod release {pod} ",
        f"weft pod receipt {pod}\n",
        "enable --now weft-serve",
    ):
        assert words in said


def site_of(roots: Path, **paths: str) -> Site:
    """The site that the guide made, with paths moved into the host's directory."""
    folder = roots / "ctl1/etc/weft/site"
    text = (folder / "site.yaml").read_text().replace("/etc/weft/", f"{roots}/ctl1/etc/weft/")
    for old, new in paths.items():
        text = text.replace(old, new)
    (folder / "site.yaml").write_text(text)
    return load_site(folder / "site.yaml")


@AT_NIGHT
def test_guide_for_ufm_can_be_followed(roots: Path) -> None:
    """weft signs in to a UFM with the guide's user, trusts its authority, and finds the site's fabric."""
    follow(roots, "install-ufm.md")
    ctl, port = roots / "ctl1", free_port()
    assert stat.S_IMODE((ctl / "etc/weft/ufm.yaml").stat().st_mode) == 0o640
    site = site_of(roots)
    manager = site.fabrics["ib"].manager
    assert manager.driver == "ufm" and manager.ca is not None and Path(manager.ca).exists()
    agents = tuple(FabricAgent(name=n, url="https://127.0.0.1:1", node=n) for n in ("ufm1", "ufm2"))
    opensm = site.fabrics["ib"].model_copy(update={"manager": FabricManager(driver="opensm", agents=agents)})
    seen = FakeFabric(site.model_copy(update={"fabrics": {"ib": opensm}}), "ib").managers[0]
    user = yaml.safe_load((ctl / "etc/weft/ufm.yaml").read_text())
    backend = CalledFabric("Default=0x7fff, ipoib : ALL=limited;\n", lambda _: None, seen.topology)
    ufm = Ufm(backend, Config(users={user["username"]: User(user["password"], "fabric_admin")}), None)
    keys = ctl / "root/api"
    cluster = Cluster(
        ufm, [UfmNode("ufm1", "127.0.0.1", port)], context(keys / "agent-ufm.pem", keys / "agent-ufm.key")
    )
    try:
        here = manager.model_copy(update={"addresses": (f"https://127.0.0.1:{port}",)})
        fabric = site.fabrics["ib"].model_copy(update={"manager": here})
        found = check_live(site.model_copy(update={"fabrics": {"ib": fabric}}))
    finally:
        cluster.stop()
    assert found.managers == 1 and not found.differences, found


@AT_NIGHT
def test_guide_for_roce_can_be_followed(roots: Path) -> None:
    """The probe agent's settings are valid, its certificate fits its key, and the switches' user is read."""
    follow(roots, "install-roce.md")
    ctl, host = roots / "ctl1", roots / "gpu01/etc/weft"
    assert main(["config", "check", "--file", str(host / "weft.toml")]) == 0
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(
        host / "agent-probe-gpu01.pem", host / "agent-probe-gpu01.key"
    )
    site = site_of(roots)
    switching, traffic = site.fabrics["roce"].manager.switching, site.fabrics["roce"].traffic
    assert switching is not None and traffic is not None and traffic.agents[0].nodes == ("gpu01",)
    assert pair_problem(traffic) == ""
    for switch, password in (
        ("leaf01", "the password of the switches"),
        ("spine01", "the password of spine01"),
    ):
        assert credentials_for(switch, switching.credentials).password == password
    neutron = configparser.ConfigParser()
    neutron.read(roots / "deploy/etc/kolla/config/neutron/ml2_conf.ini")
    ranges = neutron["ml2_type_vlan"]["network_vlan_ranges"].split(",")
    assert site.fabrics["roce"].physical_network in ranges
    assert ctl.exists() and not (host / "ca.key").exists()


@AT_NIGHT
def test_guide_for_ipu_pods_can_be_followed(roots: Path) -> None:
    """An agent with the gateway's files answers over TLS; the site names the authority that signed its
    certificate."""
    follow(roots, "install-ipu-pods.md")
    gateway, port = roots / "gw1/etc/openvipu", free_port()
    site = site_of(roots)
    authority = site.ipu_pods["pod1"].gateway.agents_ca
    assert authority is not None and authority.strip() == (gateway / "tls/ca.crt").read_text().strip()
    assert not (gateway / "tls/ca.key").exists()
    words = (gateway / "agent.conf").read_text().partition("=")[2].split()
    machine = next(one for one in site.ipu_machines if one.name == words[words.index("--name") + 1])
    assert words[words.index("--address") + 1] == f"{machine.gw_address}:8080"
    program = str(Path(sys.executable).parent / "openvipu-agent")
    more = ["--tls", str(gateway / "tls"), "--no-client-certificates", "--no-exporter"]
    agent = subprocess.Popen([program, "--name", machine.name, "--address", f"127.0.0.1:{port}", *more])
    try:
        trusted = ssl.create_default_context(cadata=authority)

        def certificate() -> bool:
            with (
                socket.create_connection(("127.0.0.1", port), 10) as plain,
                trusted.wrap_socket(plain, server_hostname="openvipu-agent") as secure,
            ):
                return bool(secure.getpeercert())

        wait_for(lambda: answers(certificate))
    finally:
        agent.terminate()
        agent.wait(30)


def answers(ask: Callable[[], bool]) -> bool:
    """Whether `ask` succeeds; False as long as connections are refused."""
    try:
        return ask()
    except ConnectionError:
        return False
