"""Findings of `weft doctor`, and the ONE table of their codes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from weft.model.errors import without_password


class DoctorLevel(StrEnum):
    """How bad a finding is; UNKNOWN: it couldn't be looked at, which is never good."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class DoctorCode:
    """One code: its level, the page of docs with what to do, and its meaning."""

    level: DoctorLevel
    page: str
    meaning: str


_OK, _WARNING, _ERROR, _UNKNOWN = DoctorLevel.OK, DoctorLevel.WARNING, DoctorLevel.ERROR, DoctorLevel.UNKNOWN
_INSTALL, _OPERATING, _ROLES = "install.md", "operating.md", "operating-roles.md"
_ADVISORIES = "doctor.md#advisories"
_CERTIFICATES = "security.md#certificates-of-agents"
_RECORDS = "doctor.md#records"
_SITE, _SETTINGS = "site-file.md", "configuration.md"
CODES: Mapping[str, DoctorCode] = {
    "SECRETS_CLOSED": DoctorCode(
        _OK, f"{_SETTINGS}#secrets", "only their owner can read these files with secrets"
    ),
    "SECRET_OPEN": DoctorCode(_ERROR, f"{_SETTINGS}#secrets", "others can read a file with a secret"),
    "SECRET_UNREAD": DoctorCode(
        _UNKNOWN,
        f"{_SETTINGS}#secrets",
        "a file with a secret can't be read: run the doctor as weft's user, who must be able to",
    ),
    "SECRETS_SEALED": DoctorCode(
        _OK, f"{_SETTINGS}#secrets-in-the-database", "the database's secrets are encrypted with the first key"
    ),
    "SECRETS_DUE": DoctorCode(
        _WARNING,
        f"{_SETTINGS}#secrets-in-the-database",
        "secrets in the database aren't encrypted, or with an older key: `weft secrets rotate`",
    ),
    "SECRETS_LOCKED": DoctorCode(
        _ERROR,
        f"{_SETTINGS}#secrets-in-the-database",
        "the keys that encrypt the database's secrets can't be used: `weft serve` doesn't start",
    ),
    "PLAIN_HTTP": DoctorCode(
        _WARNING, f"{_SETTINGS}#without-tls", "the API serves HTTP on an address that isn't loopback"
    ),
    "EXTRAS_INSTALLED": DoctorCode(
        _OK, f"{_INSTALL}#extras", "the drivers that the site needs are installed"
    ),
    "EXTRA_MISSING": DoctorCode(_ERROR, f"{_INSTALL}#extras", "a driver that the site needs isn't installed"),
    "CERTIFICATES_VALID": DoctorCode(
        _OK, f"{_OPERATING}#monitoring", "the API's certificate is valid for a while"
    ),
    "CERTIFICATE_ENDS": DoctorCode(
        _WARNING, f"{_OPERATING}#monitoring", "the API's certificate expires soon, or isn't valid"
    ),
    "CERTIFICATE_UNUSABLE": DoctorCode(
        _ERROR,
        f"{_OPERATING}#monitoring",
        "the API's certificate and key can't be used, or don't belong together",
    ),
    "RULES_VALID": DoctorCode(_OK, f"{_SETTINGS}#checking", "the policy file can be used"),
    "RULES_WRONG": DoctorCode(
        _ERROR, f"{_SETTINGS}#checking", "the policy file can't be used: weft serve doesn't start with it"
    ),
    "DATABASE_ANSWERS": DoctorCode(_OK, f"{_OPERATING}#processes", "the database answers; its version"),
    "DATABASE_UNREACHABLE": DoctorCode(_ERROR, f"{_OPERATING}#processes", "the database doesn't answer"),
    "DATABASE_STOPPED": DoctorCode(
        _ERROR, f"{_OPERATING}#processes", "the embedded PostgreSQL doesn't run: `weft serve` starts it"
    ),
    "DATABASE_READ_ONLY": DoctorCode(
        _ERROR, f"{_OPERATING}#processes", "the database is a standby: nothing can be written"
    ),
    "SOCKET_CLOSED": DoctorCode(
        _OK, f"{_OPERATING}#processes", "only weft's user can reach the embedded PostgreSQL"
    ),
    "SOCKET_OPEN": DoctorCode(
        _ERROR, f"{_OPERATING}#processes", "other users of the machine can reach the embedded PostgreSQL"
    ),
    "SCHEMA_CURRENT": DoctorCode(_OK, f"{_OPERATING}#upgrade", "the schema is that of this version"),
    "SCHEMA_OLDER": DoctorCode(
        _WARNING,
        f"{_OPERATING}#upgrade",
        "`weft serve` of this version will migrate the database when it starts",
    ),
    "SCHEMA_NEWER": DoctorCode(
        _ERROR,
        f"{_OPERATING}#upgrade",
        "the upgrade of the database to a newer weft was finished: this version can't use it",
    ),
    "SCHEMA_BESIDE": DoctorCode(
        _WARNING,
        f"{_OPERATING}#upgrade",
        "a newer weft migrated the database: this version works beside it until the upgrade is finished",
    ),
    "UPGRADE_UNFINISHED": DoctorCode(
        _WARNING,
        f"{_OPERATING}#upgrade",
        "the second half of an upgrade isn't made: `weft upgrade --finish`, once no older process runs",
    ),
    "SCHEMA_MISSING": DoctorCode(
        _WARNING, f"{_OPERATING}#setup", "the database is empty: `weft serve` fills it"
    ),
    "WORKERS_ALIVE": DoctorCode(_OK, f"{_OPERATING}#monitoring", "workers sent heartbeats within a minute"),
    "WORKERS_NONE": DoctorCode(
        _ERROR, f"{_OPERATING}#monitoring", "no worker is alive: nothing is built, released or checked"
    ),
    "WORKERS_DIFFER": DoctorCode(
        _WARNING,
        f"{_OPERATING}#upgrade",
        "processes of another version are at work: expected while an upgrade lasts, and not longer",
    ),
    "CHANGES_ALLOWED": DoctorCode(
        _OK, f"{_OPERATING}#backup", "the database isn't older than what the clouds remember of it"
    ),
    "CHANGES_STOPPED": DoctorCode(
        _ERROR,
        f"{_OPERATING}#backup",
        "nothing is changed outside: the database was restored, or is older than what a cloud remembers of it",
    ),
    "CHANGES_UNREAD": DoctorCode(
        _UNKNOWN,
        f"{_OPERATING}#backup",
        "a cloud's note of the database can't be read: nothing is changed there",
    ),
    "CLOCK_AGREES": DoctorCode(_OK, f"{_OPERATING}#processes", "two clocks agree"),
    "CLOCK_DIFFERS": DoctorCode(
        _WARNING, f"{_OPERATING}#processes", "two clocks differ: synchronize them (NTP)"
    ),
    "SITE_ACTIVE": DoctorCode(_OK, _SITE, "a site is active"),
    "SITE_MISSING": DoctorCode(_WARNING, _SITE, "no site is active: nothing can be ordered"),
    "SITE_UNREAD": DoctorCode(
        _UNKNOWN,
        _SITE,
        "the active site can't be read; with a site file in the settings, that one is looked at",
    ),
    "PROFILE_UNUSABLE": DoctorCode(
        _ERROR, f"{_OPERATING}#setup", "clouds.yaml has no usable profile of weft's user"
    ),
    "SERVICE_ANSWERS": DoctorCode(_OK, f"{_OPERATING}#setup", "a service of the cloud answers; its version"),
    "SERVICE_UNREACHABLE": DoctorCode(
        _ERROR, f"{_OPERATING}#setup", "a service of the cloud doesn't answer, or not as it should"
    ),
    "SERVICE_UNASKED": DoctorCode(
        _UNKNOWN, f"{_OPERATING}#setup", "a service wasn't asked, because Keystone gave no token"
    ),
    "ROLES_PRESENT": DoctorCode(_OK, f"{_ROLES}#setup", "weft's user has its roles"),
    "ROLE_MISSING": DoctorCode(_ERROR, f"{_ROLES}#setup", "weft's user lacks a role"),
    "READS_ALLOWED": DoctorCode(
        _OK, f"{_ROLES}#what-each-override-is-for", "weft's user may read what it needs of a service"
    ),
    "READ_REFUSED": DoctorCode(
        _ERROR,
        f"{_ROLES}#what-each-override-is-for",
        "a service refuses a read: a policy of weft's is missing",
    ),
    "POLICY_UNREAD": DoctorCode(
        _UNKNOWN, f"{_ROLES}#verification", "policies that isolation depends on, and no API shows"
    ),
    "AGGREGATES_SOUND": DoctorCode(
        _OK, f"{_SITE}#aggregates", "host aggregates keep other flavors off pods' hosts"
    ),
    "AGGREGATES_DIFFER": DoctorCode(
        _ERROR, f"{_SITE}#aggregates", "host aggregates don't keep other flavors off pods' hosts"
    ),
    "TLS_VALID": DoctorCode(
        _OK, f"{_OPERATING}#monitoring", "a service's certificate is valid for 30 days or more"
    ),
    "TLS_ENDS": DoctorCode(
        _WARNING, f"{_OPERATING}#monitoring", "a service's certificate expires within 30 days, or has"
    ),
    "TLS_ABSENT": DoctorCode(
        _WARNING, "security.md#required-of-the-operator", "tokens cross a network in clear text"
    ),
    "TLS_UNREAD": DoctorCode(_UNKNOWN, f"{_OPERATING}#monitoring", "a service's certificate can't be read"),
    "FABRIC_SOUND": DoctorCode(
        _OK, "fabric-managers.md", "managers, agents and settings of a fabric are as they should be"
    ),
    "FABRIC_UNASKED": DoctorCode(_UNKNOWN, "fabric-managers.md", "a fabric has nothing that could be asked"),
    "FABRIC_PROBLEM": DoctorCode(
        _ERROR, "fabric-managers.md", "a manager or an agent of a fabric has a problem, or a certificate ends"
    ),
    "FABRIC_WEAK": DoctorCode(
        _ERROR, "fabric-opensm.md", "a setting of a fabric's manager is insufficient for isolation"
    ),
    "FABRIC_DIFFERS": DoctorCode(_WARNING, _SITE, "cabling differs from the site"),
    "ADVISORIES_NONE": DoctorCode(
        _OK, _ADVISORIES, "no advisory of the table affects a service; those after its day aren't in it"
    ),
    "ADVISORY_APPLIES": DoctorCode(
        _ERROR, _ADVISORIES, "a service's version has a known vulnerability: upgrade it"
    ),
    "ADVISORY_UNKNOWN": DoctorCode(
        _UNKNOWN, _ADVISORIES, "a service's version isn't known well enough: state it (--service-version)"
    ),
    "ADVISORIES_OLD": DoctorCode(_WARNING, _ADVISORIES, "the table of advisories is older than a year"),
    "AGENT_CERTIFICATES_VALID": DoctorCode(_OK, _CERTIFICATES, "agents' certificates are valid for a while"),
    "AGENT_CERTIFICATE_ENDS": DoctorCode(
        _WARNING, _CERTIFICATES, "an agent's certificate has less than 30 days left, and wasn't renewed"
    ),
    "AGENT_CERTIFICATE_URGENT": DoctorCode(
        _ERROR, _CERTIFICATES, "an agent's certificate has less than 7 days left"
    ),
    "AGENT_CERTIFICATE_EXPIRED": DoctorCode(
        _ERROR, _CERTIFICATES, "an agent's certificate has expired: the agent isn't reached"
    ),
    "AGENT_CERTIFICATE_UNSEEN": DoctorCode(
        _UNKNOWN, _CERTIFICATES, "an agent doesn't answer, or not with a certificate that weft trusts"
    ),
    "RENEWAL_ON": DoctorCode(_OK, _CERTIFICATES, "weft renews agents' certificates"),
    "RENEWAL_BY_HAND": DoctorCode(
        _OK, _CERTIFICATES, "the authority's key is kept elsewhere: operators renew agents' certificates"
    ),
    "RENEWAL_UNUSABLE": DoctorCode(
        _ERROR,
        _CERTIFICATES,
        "the authority's key that the settings name can't be used for the site's agents",
    ),
    "RECORDS_SOUND": DoctorCode(_OK, _RECORDS, "no record is in a state that weft never writes"),
    "RELEASED_UNSIGNED": DoctorCode(
        _ERROR, _RECORDS, "pods are released without a receipt: nothing proves that they are gone"
    ),
    "HOLDS_UNOWNED": DoctorCode(
        _ERROR,
        _RECORDS,
        "nodes, subnets or numbers are held for pods that don't exist, or were released: no order gets them",
    ),
    "PODS_HOLD_NOTHING": DoctorCode(
        _ERROR, _RECORDS, "pods that serve, or are built, hold no node: others may get theirs"
    ),
    "BOOKINGS_STRAY": DoctorCode(
        _ERROR,
        _RECORDS,
        "nodes are booked for orders that don't exist, or don't wait: they are kept from others",
    ),
    "REPLACEMENTS_STRAY": DoctorCode(
        _WARNING,
        _RECORDS,
        "replacements or failures are noted of pods, or generations, that don't exist: they count for limits",
    ),
    "RESOURCES_UNOWNED": DoctorCode(
        _ERROR, _RECORDS, "resources are recorded for owners that don't exist: no release removes them"
    ),
    "STOPS_OUTSIDE_SITE": DoctorCode(
        _WARNING,
        _RECORDS,
        "nodes that the site doesn't have are in quarantine, drained or held, and still will be if they return",
    ),
    "CHECK_FAILED": DoctorCode(_UNKNOWN, "doctor.md#levels", "a check couldn't be made"),
    "CHECK_TIMED_OUT": DoctorCode(_UNKNOWN, "doctor.md#levels", "a check didn't end in time"),
}
"""Code -> level, page and meaning."""


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """One finding.

    Attributes:
        code: of `CODES`.
        of: what was looked at: `database`, `cloud lab: network`, `fabric main`.
        what: a sentence, without secrets.
    """

    code: str
    of: str
    what: str

    @property
    def level(self) -> DoctorLevel:
        """That of its code."""
        return CODES[self.code].level

    @property
    def page(self) -> str:
        """Page of the documentation."""
        return CODES[self.code].page


def finding(code: str, of: str, what: object) -> DoctorFinding:
    """A finding whose sentence has no credentials in URLs, and no more than 500 characters."""
    text = " ".join(without_password(str(what)).split())
    return DoctorFinding(code, of, text if len(text) <= 500 else f"{text[:500]}…")
