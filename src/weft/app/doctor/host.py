"""Checks of the host that weft runs on: files with secrets, the API's certificate, drivers that are installed."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from weft.app.doctor.findings import DoctorFinding, finding
from weft.app.drivers import missing_extras
from weft.app.policy import Policy
from weft.app.servecertificate import check_certificate
from weft.app.settings import ServeSettings
from weft.config.kinds import is_loopback
from weft.config.secretfiles import readable_by_others
from weft.generate.certificates import expiry_problems
from weft.model.errors import InputError
from weft.model.site import Site

_CLOUDS = ("clouds.yaml", "clouds.yml", "secure.yaml", "secure.yml")


def secrets(settings: ServeSettings) -> Iterator[DoctorFinding]:
    """Modes of the files with secrets that the processes read."""
    named = [
        settings.certificate[1] if settings.certificate else None,
        settings.neutron_token,
        settings.monitoring_token,
        settings.secrets_key,
        settings.authority_key,
    ]
    yield from _modes("secrets", [*filter(None, named), *_clouds_files()])


def site_secrets(site: Site) -> Iterator[DoctorFinding]:
    """Modes of the files with secrets that the site names: keys, and passwords of managers and switches."""
    named: list[str | None] = []
    for fabric in site.fabrics.values():
        one = fabric.manager
        named += [one.key, one.credentials, fabric.traffic.key if fabric.traffic else None]
        named += [one.switching.credentials] if one.switching else []
    yield from _modes("secrets of the site", [Path(path) for path in dict.fromkeys(filter(None, named))])


def _modes(of: str, paths: Sequence[Path]) -> Iterator[DoctorFinding]:
    bad = False
    for path in paths:
        if why := _unread(path):
            bad = True
            yield finding("SECRET_UNREAD", of, f"{path} can't be looked at ({why})")
        elif why := readable_by_others(path):
            bad = True
            yield finding("SECRET_OPEN", of, f"{path} must be {why}")
    if paths and not bad:
        yield finding("SECRETS_CLOSED", of, f"closed to others: {', '.join(map(str, paths))}")


def _unread(path: Path) -> str:
    """Why this process can't read a file, as weft couldn't if it ran as the same user; empty: it can."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # to open a pipe would wait, and its mode says little
            return "it isn't a regular file"
        path.open("rb").close()
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _clouds_files() -> Iterator[Path]:
    """clouds.yaml and secure.yaml where openstacksdk looks for them, as far as they are there."""
    for variable in ("OS_CLIENT_CONFIG_FILE", "OS_CLIENT_SECURE_FILE"):
        if given := os.environ.get(variable):
            yield Path(given)
    home = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    for folder in (Path.cwd(), home / "openstack", Path("/etc/openstack")):
        yield from (folder / name for name in _CLOUDS if os.path.lexists(folder / name))


def listening(settings: ServeSettings) -> Iterator[DoctorFinding]:
    """The API's own address and certificate."""
    if settings.certificate is None:
        if not is_loopback(settings.host):
            said = f"the API on {settings.host}:{settings.port} serves plain HTTP, as plain_http says"
            yield finding("PLAIN_HTTP", "serve", said)
        return
    chain = settings.certificate[0]
    try:
        problems = expiry_problems(chain.read_bytes(), str(chain), datetime.now(UTC), remedy="")
    except OSError as error:
        problems = [f"certificate {chain} can't be read: {error.strerror}"]
    yield from (finding("CERTIFICATE_ENDS", "serve", problem) for problem in problems)
    if problems:
        return
    try:
        check_certificate(settings.certificate)
    except InputError as error:
        said = f"{error}; a weft serve that runs keeps the pair from before, and doesn't start again with this one"
        yield finding("CERTIFICATE_UNUSABLE", "serve", said)
    else:
        yield finding("CERTIFICATES_VALID", "serve", f"the API's certificate {chain} is valid")


def rules(settings: ServeSettings) -> Iterator[DoctorFinding]:
    """The operator's policy file."""
    if settings.policy is None:
        return
    try:
        Policy(settings.policy)
    except InputError as error:
        yield finding("RULES_WRONG", "policy", error)
    else:
        yield finding("RULES_VALID", "policy", f"{settings.policy} has rules that weft knows")


def extras(site: Site) -> Iterator[DoctorFinding]:
    """Drivers that the site needs."""
    lacking = missing_extras(site)
    yield from (finding("EXTRA_MISSING", "extras", sentence) for sentence in lacking)
    if not lacking:
        yield finding("EXTRAS_INSTALLED", "extras", "all drivers that the site needs are installed")
