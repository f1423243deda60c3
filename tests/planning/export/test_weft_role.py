"""weft as an Ansible role next to Kolla Ansible's: the export's contents, and a run of it by Ansible."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import jinja2
import pytest
import yaml

from tests.helpers.kolla import read
from tests.helpers.rdg import changed, deployment, rdg, with_everything
from tests.helpers.weftrole import PROGRAM, ROLE, Ansible
from weft.app.sitefile import load_site
from weft.planning.export.formats import export
from weft.planning.export.weftrole import _ENVIRONMENT, _TASKS, _UNIT


def test_role_contains_the_site_file(tmp_path: Path) -> None:
    """weft reads the same site from it."""
    file = tmp_path / "site.yaml"
    file.write_text(export(rdg(), "kolla")[f"{ROLE}/files/site.yaml"])
    assert load_site(file) == rdg()


def test_defaults_follow_from_the_site() -> None:
    files = export(changed(with_everything), "kolla")
    found = yaml.safe_load(files[f"{ROLE}/defaults/main.yml"])
    assert found["weft_url"] == "https://weft.example.net:8787" and found["weft_listen"] == "0.0.0.0:8787"
    assert (
        found["weft_certificate"]
        and found["weft_is_notified"] is True
        and found["weft_domains"] == ["customers"]
    )
    assert found["weft_profile"] == "overcloud"
    assert found["weft_auth_url"] == "https://api-internal.localdomain:5000/v3"
    plain = export(changed(lambda d: deployment(d).update(tls="none")), "kolla")
    found = yaml.safe_load(plain[f"{ROLE}/defaults/main.yml"])
    assert (found["weft_url"], found["weft_listen"]) == ("http://127.0.0.1:8787", "127.0.0.1:8787")
    assert found["weft_auth_url"].startswith("http://") and found["weft_certificate"] == ""
    assert "`weft fabric-agent certs`" in plain["README.md"]
    assert "Without `weft_url`" in plain["README.md"] and "Without `weft_url`" not in files["README.md"]
    assert not found["weft_is_notified"] and f"{ROLE}/templates/neutron-token.j2" not in plain


AT_NIGHT = pytest.mark.nightly(reason="Ansible takes two seconds each; by day without any address")


@pytest.mark.cloud
@pytest.mark.parametrize(
    ("url", "listed"),
    [
        (None, []),
        pytest.param("https://localhost:8787", [], marks=AT_NIGHT),
        pytest.param("https://[::1]:8787", [], marks=AT_NIGHT),
        ("https://weft.example.net:8787", ["public", "internal"]),
    ],
)
def test_loopback_address_is_not_in_the_catalog(tmp_path: Path, url: str | None, listed: list[str]) -> None:
    """As Ansible evaluates the role's settings: clients would send their tokens to any local listener."""
    ansible = Ansible(tmp_path, changed(lambda d: deployment(d).update(weft_url=url)))
    assert ansible.setting("weft_interfaces") == listed


@pytest.mark.cloud
def test_ansible_syntax_check_accepts_the_role_and_finds_mistakes(tmp_path: Path) -> None:
    """Such as a module that doesn't exist."""
    ansible = Ansible(tmp_path, changed(with_everything))
    assert read(ansible.inventory)["weft"]["hosts"] == ["controller-1"]
    done = ansible.play("--syntax-check")
    assert done.returncode == 0, done.stderr
    tasks = ansible.folder / ROLE / "tasks/keystone.yml"
    tasks.write_text(tasks.read_text().replace("ansible.builtin.command", "ansible.builtin.comand"))
    assert ansible.play("--syntax-check").returncode != 0


@pytest.mark.cloud
@pytest.mark.nightly(reason="the role is played twice, 45 s; by day Ansible reads it")
def test_role_installs_weft(tmp_path: Path) -> None:
    """Without user and systemd: files with their modes, a unit and a command line that are valid. A second run
    changes nothing, and a site file that weft can't read isn't installed.
    """
    ansible = Ansible(tmp_path, changed(with_everything))
    done = ansible.play()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "s3cret" not in done.stdout and "pass" not in done.stdout.replace("passwords", "")
    etc = ansible.host / "etc"
    modes = {p.name: oct(p.stat().st_mode & 0o777) for p in (*etc.iterdir(), ansible.host / "state")}
    assert modes == {
        "site.yaml": "0o640",
        "clouds.yaml": "0o600",
        "neutron-token": "0o600",
        "weft.env": "0o600",
        "state": "0o700",
    }
    assert (etc / "neutron-token").read_text() == "s3cret-token\n"
    auth = yaml.safe_load((etc / "clouds.yaml").read_text())["clouds"]["overcloud"]["auth"]
    assert auth["password"] == 'pass"word: x'
    _unit(ansible)
    again = ansible.play()
    assert "changed=0" in again.stdout and "failed=0" in again.stdout, again.stdout
    site = ansible.folder / ROLE / "files/site.yaml"
    before = (etc / "site.yaml").read_bytes()
    site.write_text(site.read_text().replace('"driver": "ufm"', '"driver": "usb"'))
    wrong = ansible.play()
    assert wrong.returncode != 0 and "usb" in wrong.stdout and (etc / "site.yaml").read_bytes() == before
    assert ansible.play(weft_keystone_password="").returncode != 0


def _unit(ansible: Ansible) -> None:
    unit = ansible.host / "weft.service"
    verified = ["systemd-analyze", "verify", str(unit)]
    if shutil.which(verified[0]):
        done = subprocess.run(verified, capture_output=True, text=True, check=False)
        assert "weft.service" not in done.stderr, done.stderr
    words = ansible.command()
    assert words[0] == str(PROGRAM / "bin/weft")
    assert words[words.index("--neutron-token") + 1] == str(ansible.host / "etc/neutron-token")
    # weft accepts the command line and then finds no certificate
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2 and "tls.pem" in done.stderr, done.stderr


URL = "postgresql://weft:s3cr%40t$HOME@db.example/weft?target_session_attrs=read-write"
VALUES = {
    "weft_user": "root",
    "weft_config": "/etc/weft",
    "weft_program": "/usr",
    "weft_listen": "127.0.0.1:8787",
    "weft_state": "/var/lib/weft 100%",
    "weft_profile": "weft$1",
    "weft_url": "https://weft.example/%7Eweft",
    "weft_is_notified": False,
    "weft_policy": "",
    "weft_certificate": "",
    "weft_database": URL,
}


def filled(template: str) -> str:
    return jinja2.Template(template, trim_blocks=True).render(VALUES)


def test_systemd_unit_has_no_password() -> None:
    """Anyone may read a unit or a command line; the database's URL is in a file that only weft reads."""
    assert "s3cr" not in filled(_UNIT)
    assert "EnvironmentFile=/etc/weft/weft.env" in filled(_UNIT)
    assert filled(_ENVIRONMENT) == f'WEFT_DATABASE="{URL}"\n'
    assert 'dest: "{{ weft_config }}/weft.env"\n    owner: "{{ weft_user }}"\n    mode: "0600"' in _TASKS


def test_systemd_specifiers_are_escaped() -> None:
    """% is a specifier everywhere in a unit, $ a variable on a command line."""
    lines = filled(_UNIT).splitlines()
    [state] = [line for line in lines if line.startswith("ReadWritePaths=")]
    assert state == "ReadWritePaths=/var/lib/weft 100%%"
    command = " ".join(lines)
    assert "--cloud-profile weft$$1 " in command and "https://weft.example/%%7Eweft" in command


def test_package_to_install_has_no_default() -> None:
    """On PyPI the name weft belongs to another project."""
    files = export(changed(with_everything), "kolla")
    assert yaml.safe_load(files[f"{ROLE}/defaults/main.yml"])["weft_package"] == ""
    assert "that: weft_package | length > 0" in _TASKS
