"""A customer's directory beside the lab's cloud: Debian's slapd over TLS, and a Keystone that can read it.

`weft lab up --ldap`. Keystone looks for domains' files in `domains_path`, when it starts; which domain is whose is not
the lab's to say. What Keystone needs for LDAP is put beside OpenStack's environment, which isn't changed by it.
"""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
from pathlib import Path

from weft.fabricagent.tls import make_certificates
from weftlab import checks
from weftlab.config import Sections
from weftlab.environment import Say, install_overlay, install_packages, lock, program
from weftlab.layout import LabError, Layout
from weftlab.service import Service

PACKAGES = ("python-ldap==3.4.8", "ldappool==3.0.0", "pyasn1==0.6.4", "pyasn1-modules==0.4.2")
SERVER = {"slapd": "slapd"}
TOOLS = {"gcc": "gcc", "libc": "libc6-dev", "libldap": "libldap-dev", "libsasl": "libsasl2-dev"}
"""What python-ldap is compiled with; only `gcc` is a program."""
SUFFIX = "dc=customer,dc=example"
BIND_USER, BIND_PASSWORD = f"cn=keystone,{SUFFIX}", "keystone-reads"
USERS, GROUPS = f"ou=people,{SUFFIX}", f"ou=groups,{SUFFIX}"
PEOPLE = {"alice": "wonderland", "bob": "builder"}
"""Name -> password."""
TEAM = "ml-team"
"""A group with alice in it."""


def overlay_path(cache: Path) -> Path:
    """Folder of the Python package that Keystone needs for LDAP."""
    return cache / PACKAGES[0].replace("==", "-")


def domains_path(layout: Layout) -> Path:
    """Folder with a file for each domain, `keystone.NAME.conf`."""
    return layout.etc / "keystone" / "domains"


def authority_path(layout: Layout) -> Path:
    """PEM file of the authority that signed slapd's certificate."""
    return _folder(layout) / "tls" / "ca.pem"


def url(layout: Layout) -> str:
    """`ldaps://127.0.0.1:PORT`."""
    return f"ldaps://127.0.0.1:{layout.port('ldap')}"


def is_there(layout: Layout) -> bool:
    """Whether this lab has the directory; it is written first of all."""
    return (_folder(layout) / "slapd.conf").exists()


def ensure(cache: Path, env: Path, say: Say) -> None:
    """The server, and Keystone's driver, once for all labs. Raises `LabError`."""
    install_packages(SERVER, say)
    path = overlay_path(cache)
    with lock(cache / "environment.lock"):
        if (path / "complete").exists():
            return
        headers = Path(sysconfig.get_paths()["include"], "Python.h").exists()
        install_packages(TOOLS if headers else {**TOOLS, "python": "python3-dev"}, say)
        say(f"installing {', '.join(PACKAGES)} into {path}")
        shutil.rmtree(path, ignore_errors=True)
        for package in PACKAGES:
            install_overlay(env, path, package)
        (path / "complete").touch()


def with_domains(sections: Sections, layout: Layout) -> Sections:
    """Keystone's configuration with domains that have files of their own."""
    domains_path(layout).mkdir(parents=True, exist_ok=True)
    own = {"domain_specific_drivers_enabled": True, "domain_config_dir": domains_path(layout)}
    return {**sections, "identity": {**sections["identity"], **own}}


def environment(layout: Layout) -> dict[str, str]:
    """Environment variables of Keystone's process."""
    return {"PYTHONPATH": str(overlay_path(layout.cache))}


def write(layout: Layout) -> None:
    """slapd's files, and the directory itself unless it is there. Raises `LabError`."""
    folder = _folder(layout)
    if (folder / "db" / "data.mdb").exists():
        return
    make_certificates(folder / "tls", {"ldap": ["127.0.0.1"]})
    (folder / "db").mkdir(parents=True, exist_ok=True)
    (folder / "slapd.conf").write_text(_configuration(folder))
    (folder / "directory.ldif").write_text(_directory())
    server = program("slapd") or "slapd"
    command = [server, "-T", "add", "-f", str(folder / "slapd.conf"), "-l", str(folder / "directory.ldif")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LabError(f"slapd -T add failed: {done.stderr[-500:]}")


def server(layout: Layout) -> Service:
    """slapd as a service of the lab."""
    listen = f"{url(layout)}/"
    return Service(
        name="ldap",
        argv=(
            program("slapd") or "slapd",
            "-f",
            str(_folder(layout) / "slapd.conf"),
            "-h",
            listen,
            "-d",
            "0",
        ),
        log=layout.log("ldap"),
        cwd=layout.work / "ldap",
        ready=checks.answers_tcp("127.0.0.1", layout.port("ldap")),
        timeout=30,
    )


def _folder(layout: Layout) -> Path:
    return layout.data / "ldap"


def _configuration(folder: Path) -> str:
    """Passwords are compared and never shown; only Keystone's user reads the rest."""
    tls = folder / "tls"
    schemas = "".join(f"include /etc/ldap/schema/{s}.schema\n" for s in ("core", "cosine", "inetorgperson"))
    return (
        f"{schemas}modulepath /usr/lib/ldap\nmoduleload back_mdb\npidfile {folder}/slapd.pid\n"
        f"TLSCertificateFile {tls}/agent-ldap.pem\nTLSCertificateKeyFile {tls}/agent-ldap.key\n"
        f"TLSCACertificateFile {tls}/ca.pem\n"
        f'database mdb\nsuffix "{SUFFIX}"\ndirectory {folder}/db\nmaxsize 10485760\nindex objectClass,uid,cn eq\n'
        "access to attrs=userPassword by anonymous auth by * none\n"
        f'access to * by dn.exact="{BIND_USER}" read by * none\n'
    )


def _directory() -> str:
    entries = [
        (SUFFIX, ("dcObject", "organization"), {"o": "Customer", "dc": "customer"}),
        (USERS, ("organizationalUnit",), {"ou": "people"}),
        (GROUPS, ("organizationalUnit",), {"ou": "groups"}),
        (
            BIND_USER,
            ("organizationalRole", "simpleSecurityObject"),
            {"cn": "keystone", "userPassword": BIND_PASSWORD},
        ),
        *(
            (
                f"uid={name},{USERS}",
                ("inetOrgPerson",),
                {
                    "uid": name,
                    "cn": name,
                    "sn": name,
                    "mail": f"{name}@customer.example",
                    "userPassword": secret,
                },
            )
            for name, secret in PEOPLE.items()
        ),
        (f"cn={TEAM},{GROUPS}", ("groupOfNames",), {"cn": TEAM, "member": f"uid=alice,{USERS}"}),
    ]
    return "\n".join(
        f"dn: {dn}\n"
        + "".join(f"objectClass: {c}\n" for c in classes)
        + "".join(f"{name}: {value}\n" for name, value in fields.items())
        for dn, classes, fields in entries
    )
