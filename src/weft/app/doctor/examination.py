"""All checks of `weft doctor` in their order."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from weft.app.doctor import agents, cloud, fabric, gate, host
from weft.app.doctor.advisories import Advisories, read_table
from weft.app.doctor.bounds import DoctorCheck, carried_out
from weft.app.doctor.database import DatabaseCheck
from weft.app.doctor.findings import DoctorFinding, finding
from weft.app.settings import ServeSettings
from weft.app.sitefile import load_site
from weft.app.wiring import profile_of
from weft.drivers.openstack import Sessions
from weft.model.errors import WeftError
from weft.model.site import Site


def examine(
    settings: ServeSettings, seconds: float, advisories: Advisories | None = None
) -> list[DoctorFinding]:
    """Look at everything; nothing is changed. Takes at most three times `seconds`.

    Args:
        seconds: limit of each check.
        advisories: that versions are compared with; None: those that this version of weft knows.
    """
    known = advisories or Advisories(read_table(None), {})
    database = DatabaseCheck(settings, seconds)
    found = carried_out(
        [
            DoctorCheck("secrets", partial(host.secrets, settings)),
            DoctorCheck("serve", partial(host.listening, settings)),
            DoctorCheck("policy", partial(host.rules, settings)),
            DoctorCheck("database", database.look),
        ],
        seconds,
    )
    site = database.site
    if site is None and not any(one.code == "SITE_MISSING" for one in found):
        site, said = _site_of_file(settings.site)
        found.append(said)
    with ExitStack() as stack:
        found += _outside(settings, site, seconds, stack, database.url, known)
    return found


def _site_of_file(path: Path | None) -> tuple[Site | None, DoctorFinding]:
    """The site of the settings' file, where the database can't say."""
    if path is None:
        said = "the database wasn't readable, and the settings name no site file: fabrics weren't checked"
        return None, finding("SITE_UNREAD", "site", said)
    try:
        site = load_site(path)
    except (WeftError, OSError) as error:
        return None, finding("SITE_UNREAD", "site", error)
    said = f"the database wasn't readable; checked what {path} describes instead"
    return site, finding("SITE_UNREAD", "site", said)


def _outside(
    settings: ServeSettings,
    site: Site | None,
    seconds: float,
    stack: ExitStack,
    url: str | None,
    advisories: Advisories,
) -> Iterator[DoctorFinding]:
    """Keystone of each cloud first, whose token the other checks need; then everything at once.

    Args:
        url: of the database, if it can be read.
    """
    yield from advisories.age()
    first, accounts, later = list[DoctorCheck](), list[tuple[_Account, Sessions]](), list[DoctorCheck]()
    for account in _accounts(settings, site):
        try:
            sessions = stack.enter_context(closing(Sessions(account.profile)))
        except (WeftError, OSError) as error:
            yield finding("PROFILE_UNUSABLE", account.label, error)
            continue
        accounts.append((account, sessions))
        first.append(
            cloud.keystone_check(sessions, account.label, seconds, advisories.in_cloud(account.cloud))
        )
    yield from carried_out(first, seconds)
    for check, (account, sessions) in zip(first, accounts, strict=True):
        if any(one.code == "SERVICE_ANSWERS" for one in check.found):
            known = advisories.in_cloud(account.cloud)
            later += cloud.service_checks(sessions, account.services, account.label, seconds, known)
        elif account.services:
            said = f"{', '.join(account.services)} weren't asked: Keystone gave no token to look with"
            yield finding("SERVICE_UNASKED", account.label, said)
    if site is not None:
        if url is not None:
            signed_in = {
                account.cloud: sessions
                for check, (account, sessions) in zip(first, accounts, strict=True)
                if any(one.code == "SERVICE_ANSWERS" for one in check.found)
            }
            clouds = {name: signed_in.get(name) for name in site.clouds}
            later.append(gate.gate_check(url, site.name, clouds, seconds))
        later += [
            DoctorCheck("extras", partial(host.extras, site)),
            DoctorCheck("agents", partial(agents.certificates, site, seconds)),
            DoctorCheck("renewal", partial(agents.renewal, site, settings)),
            DoctorCheck("secrets of the site", partial(host.site_secrets, site)),
        ]
        later += cloud.site_checks(site, settings.cloud_profile)
        later += [
            DoctorCheck(f"fabric {name}", partial(fabric.fabric, site, name)) for name in sorted(site.fabrics)
        ]
    yield from carried_out(later, seconds)


@dataclass(frozen=True, slots=True)
class _Account:
    """weft's user in a cloud, and the services that it uses there besides Keystone.

    Attributes:
        cloud: of the site; empty: only its Keystone is used, to validate tokens.
    """

    cloud: str
    profile: str
    services: tuple[str, ...]

    @property
    def label(self) -> str:
        """The name for findings."""
        return f"cloud {self.cloud}" if self.cloud else f"profile {self.profile}"


def _accounts(settings: ServeSettings, site: Site | None) -> list[_Account]:
    """weft's account in each cloud, and in the one whose Keystone validates tokens, if that is another."""
    validates = settings.cloud_profile or os.environ.get("OS_CLOUD", "weft")
    if site is None:
        return [_Account("", validates, cloud.ALWAYS)]
    found = [
        _Account(name, profile_of(site, name, settings.cloud_profile), cloud.services_of(site, name))
        for name in sorted(site.clouds)
    ]
    if validates not in {one.profile for one in found}:
        found.append(_Account("", validates, ()))
    return found
