"""Checks of a cloud: its services, weft's user and its roles there, policies, certificates, clocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from urllib.parse import urlsplit

from weft.app.doctor.advisories import Advisories
from weft.app.doctor.bounds import DoctorCheck
from weft.app.doctor.findings import DoctorFinding, finding
from weft.app.livecheck import UNCHECKED, check_aggregates, policy_notes
from weft.config.kinds import is_loopback
from weft.drivers.openstack import Sessions
from weft.drivers.openstack.account import account_problems
from weft.drivers.openstack.reach import certificate_end, keystone_ahead, meet, refused_reads
from weft.model.errors import WeftError
from weft.model.site import Site
from weft.planning.site.aggregates import virtual_hosts

ALWAYS = ("network", "compute", "image", "placement")
SOON = timedelta(days=30)
"""A service's certificate that ends within this time is reported."""
CLOCKS = 5.0
"""Seconds by which a service's clock may differ: the header `Date` has whole seconds, and answers take a while."""


def services_of(site: Site, cloud: str) -> tuple[str, ...]:
    """Services of the cloud that the site needs besides Keystone."""
    machines = any(n.machine is not None and n.cloud == cloud for n in site.nodes)
    storage = site.clouds[cloud].storage
    more = [*(["baremetal"] if machines else []), *(["shared-file-system"] if storage.shares else [])]
    return (*ALWAYS, *more, *(["block-storage"] if storage.volumes else []))


def keystone_check(sessions: Sessions, label: str, seconds: float, advisories: Advisories) -> DoctorCheck:
    """Whether weft's user gets a token, with the roles that it needs. It runs first: the others need the token."""

    def look() -> Iterator[DoctorFinding]:
        of = f"{label}: identity"
        try:
            ahead = keystone_ahead(sessions)
        except WeftError as error:
            yield finding("SERVICE_UNREACHABLE", of, error)
            return
        yield from _service(sessions, label, "identity", seconds, advisories, ahead)
        problems = account_problems(sessions)
        for problem in problems:
            yield finding("ROLE_MISSING", of, problem)
        if not problems:
            user, project = sessions.account
            yield finding("ROLES_PRESENT", of, f"{user} has its roles in {project} and in tenants' projects")

    return DoctorCheck(f"{label}: identity", look)


def service_checks(
    sessions: Sessions, services: Iterable[str], label: str, seconds: float, advisories: Advisories
) -> list[DoctorCheck]:
    """A check for each further service, so that a silent one delays no other."""
    return [
        DoctorCheck(f"{label}: {name}", partial(_service, sessions, label, name, seconds, advisories))
        for name in services
    ]


def _service(
    sessions: Sessions,
    label: str,
    name: str,
    seconds: float,
    advisories: Advisories,
    ahead: float | None = None,
) -> Iterator[DoctorFinding]:
    """Findings about one service. Args: ahead: seconds that its clock is ahead; None: by its answers."""
    of = f"{label}: {name}"
    try:
        met = meet(sessions, name)
        most = f" (up to {met.newest})" if met.newest else ""
        version = f" version {met.version}{most}" if met.version or most else ""
        yield finding("SERVICE_ANSWERS", of, f"{met.url} answers,{version or ' without naming a version'}")
        if (seen := met.ahead if ahead is None else ahead) is not None:
            yield _clock(of, seen)
        yield _tls(of, met.url, seconds)
        yield from advisories.of(label, name, met.newest)
        refused, rows = refused_reads(sessions, name)
    except WeftError as error:
        yield finding("SERVICE_UNREACHABLE", of, error)
        return
    for sentence in refused:
        yield finding("READ_REFUSED", of, sentence)
    if name == "network" and not any("provider:network_type" in row for row in rows):
        policy = "(policy get_network:provider:*)"
        if rows:
            said = f"Neutron shows weft's user no provider:* of networks {policy}"
            yield finding("READ_REFUSED", of, said)
        else:
            said = f"there is no network to see whether Neutron shows weft's user provider:* {policy}"
            yield finding("POLICY_UNREAD", of, said)
    elif not refused:
        yield finding("READS_ALLOWED", of, "weft's user may read what it needs")


def _clock(of: str, ahead: float) -> DoctorFinding:
    if abs(ahead) <= CLOCKS:
        return finding("CLOCK_AGREES", of, "its clock agrees with this host's")
    word = "ahead of" if ahead > 0 else "behind"
    return finding("CLOCK_DIFFERS", of, f"its clock is {abs(ahead):.0f} s {word} this host's")


def _tls(of: str, url: str, seconds: float) -> DoctorFinding:
    parts = urlsplit(url)
    where = f"{parts.scheme}://{parts.netloc}"
    if parts.scheme != "https":
        if is_loopback(str(parts.hostname)):
            return finding("TLS_VALID", of, f"{where} is on this host, and needs no TLS")
        return finding("TLS_ABSENT", of, f"{where} has no TLS: tokens cross the network in clear text")
    try:
        end = certificate_end(url, seconds / 4)
    except (OSError, ValueError) as error:
        return finding("TLS_UNREAD", of, f"the certificate of {where} can't be read: {error}")
    left = end - datetime.now(UTC)
    said = f"the certificate of {where} ends at {end:%Y-%m-%d %H:%M} UTC"
    return finding("TLS_ENDS" if left < SOON else "TLS_VALID", of, said)


def site_checks(site: Site, profile: str | None) -> list[DoctorCheck]:
    """Host aggregates, and policies that can't be read."""

    def aggregates() -> Iterator[DoctorFinding]:
        found = check_aggregates(site, profile)
        yield from _problems(found.problems, "AGGREGATES_DIFFER", "host aggregates")
        kept = [name for name, one in site.clouds.items() if one.hosts_kept_free == "aggregate"]
        if found.good and any(virtual_hosts(site, name) for name in kept):
            yield finding("AGGREGATES_SOUND", "host aggregates", "other flavors are kept off pods' hosts")

    def policies() -> Iterator[DoctorFinding]:
        for note in policy_notes(site):
            yield finding("POLICY_UNREAD", "policies", note)

    return [DoctorCheck("host aggregates", aggregates), DoctorCheck("policies", policies)]


def _problems(problems: tuple[str, ...], code: str, of: str) -> Iterator[DoctorFinding]:
    for problem in problems:
        yield finding("CHECK_FAILED" if UNCHECKED in problem else code, of, problem)
