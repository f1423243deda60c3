"""Messages about clouds, fabrics and the database: the request, its target, the response, and what happens next."""

from __future__ import annotations

from weft.model.messages.message import MESSAGE, OPERATORS, Code, Component, Message, Nested, Several
from weft.model.messages.values import COUNT, FIELD, ID, NAMED, TEXT, Words, word

_NUMBERED = r"[a-z0-9][a-z0-9-]{0,56}-\d{1,5}"
"""A server's name by the default pattern; any other could be a host's name, and is not shown."""
_PLAIN = word(r"[\w .@/-]{1,40}")
"""A name that its owner chose, from characters that can't form a sentence."""

FAILED = Code(
    "OUTSIDE_FAILED",
    Component.CLOUD,
    "{asked} ({of}): {answer}; {then}",
    True,
    "outside",
    {
        "asked": Nested("serve the request"),
        "of": Nested("the site"),
        "answer": Nested(OPERATORS),
        "then": Nested("ask an operator what to do"),
    },
)

# -- what was asked, of whom -----------------------------------------------------------------------------------------

REQUEST = Code(
    "REQUEST",
    Component.CLOUD,
    "{verb} {what}",
    True,
    "outside",
    {
        "verb": word("create|update|delete|tag|boot|read|find|look at|look for|read back|list|serve"),
        "what": word(
            rf"(?:[A-Za-z][A-Za-z ]{{0,40}} )?{NAMED}|(?:server )?{_NUMBERED}|[A-Za-z][A-Za-z ]{{0,40}}"
        ),
    },
)
WAIT_FOR = Code(
    "WAIT_FOR",
    Component.CLOUD,
    "wait for {names} {end}",
    True,
    "outside",
    {"names": Words(word(rf"{NAMED}|{_NUMBERED}"), most=3), "end": word("to settle|to go")},
)
READ_BACK = Code("READ_BACK", Component.RELEASE, "read back what was removed", True, "release")
TAKE_AWAY = Code("TAKE_AWAY", Component.RELEASE, "delete everything", True, "release")
SERVE_ORDER = Code("SERVE_ORDER", Component.ORDER, "serve the order", True, "outside")
CHECK_TOKEN = Code("CHECK_TOKEN", Component.SERVICE, "check a caller's token", True, "outside")
TALK_TO_DATABASE = Code("TALK_TO_DATABASE", Component.SERVICE, "run a statement", True, "outside")
WRITE_TO_DATABASE = Code("WRITE_TO_DATABASE", Component.SERVICE, "write to the database", True, "outside")
SERVICE = Code(
    "SERVICE",
    Component.CLOUD,
    "{type}[ at {address}][, through keystone at {keystone}]",
    "{name}",
    "outside",
    {
        "type": TEXT,
        "name": word("Nova|Neutron|Glance|Keystone|Placement|Cinder|Manila|Ironic"),
        "address": TEXT,
        "keystone": TEXT,
    },
)
DATABASE = Code(
    "DATABASE", Component.SERVICE, "PostgreSQL[ at {address}]", "the database", "outside", {"address": TEXT}
)
SCHEMA_NEWER = Code(
    "SCHEMA_NEWER",
    Component.SERVICE,
    "an upgrade to a newer weft was finished ({migration}): this version can't work with it",
    "an upgrade to a newer weft was finished: this process can't work with it",
    "outside",
    {"migration": TEXT},
)
UPGRADE_UNFINISHED = Code(
    "UPGRADE_UNFINISHED",
    Component.SERVICE,
    "{migration} needs {needed}, which ends an earlier upgrade that wasn't finished",
    None,
    "outside",
    {"migration": TEXT, "needed": TEXT},
)
NO_VERSIONS_YET = Code(
    "NO_VERSIONS_YET",
    Component.SERVICE,
    "{database}: the tables of this version are missing; weft serve makes them when it starts",
    None,
    "outside",
    {"database": TEXT},
)
MIGRATED_BY_ANOTHER = Code(
    "MIGRATED_BY_ANOTHER",
    Component.SERVICE,
    "{database}: another process migrates it or finishes an upgrade: wait until it has ended",
    None,
    "outside",
    {"database": TEXT},
)
OLDER_AT_WORK = Code(
    "OLDER_AT_WORK",
    Component.SERVICE,
    "processes of an older weft sent a heartbeat within {seconds} s: {processes}[ and {more} more]; "
    "stop them, or wait as long, before the upgrade is finished; nothing was changed",
    None,
    "outside",
    {"processes": TEXT, "more": COUNT, "seconds": COUNT},
)
NEWER_AT_WORK = Code(
    "NEWER_AT_WORK",
    Component.SERVICE,
    "processes of a newer weft sent a heartbeat within {seconds} s: {processes}[ and {more} more]; "
    "only that version can finish the upgrade to it; nothing was changed",
    None,
    "outside",
    {"processes": TEXT, "more": COUNT, "seconds": COUNT},
)
SESSIONS_LEFT = Code(
    "SESSIONS_LEFT",
    Component.SERVICE,
    "sessions of an older weft can't be ended: {sessions}; stop these processes, or finish the upgrade as their user "
    "of PostgreSQL; no second half was made",
    None,
    "outside",
    {"sessions": TEXT},
)
NEEDS_NEWER = Code(
    "NEEDS_NEWER",
    Component.SERVICE,
    "only the newer weft that works with this database can read it[ ({found})]",
    "only a newer weft can read it, which works beside this one",
    "outside",
    {"found": TEXT},
)
_NAMES = {
    "compute": "Nova",
    "network": "Neutron",
    "image": "Glance",
    "identity": "Keystone",
    "placement": "Placement",
    "block-storage": "Cinder",
    "share": "Manila",
    "shared-file-system": "Manila",
    "baremetal": "Ironic",
}


def service(kind: str, address: str | None = None, keystone: str | None = None) -> Message:
    """One of OpenStack's services, by its type in the catalog."""
    return SERVICE(type=kind, name=_NAMES.get(kind), address=address, keystone=keystone)


# -- what came back --------------------------------------------------------------------------------------------------

ANSWER = Code(
    "ANSWER",
    Component.CLOUD,
    "HTTP {status}[ {text}][ with {strange} instead of a JSON object][ (request {request})]",
    "HTTP {status}[, {known}]",
    "outside",
    {"status": COUNT, "text": TEXT, "strange": TEXT, "request": TEXT, "known": MESSAGE},
)
DEFECT = Code(
    "DEFECT",
    Component.SERVICE,
    "defect in weft ({name}: {text})",
    "defect in weft",
    "outside",
    {"name": TEXT, "text": TEXT},
)
ODD_ANSWER = Code(
    "ODD_ANSWER",
    Component.CLOUD,
    "{what}: {answer}",
    "{answer}",
    "outside",
    {"what": TEXT, "answer": MESSAGE},
)
_RESOURCES = Words(
    word(
        "cores|ram|instances|injected_files|metadata_items|key_pairs|server_groups"
        "|network|subnet|port|router|floatingip|security_group|security_group_rule"
    )
)
_COUNTS = Words(word(r"\d{1,9}"))
QUOTA_EXCEEDED = Code(
    "QUOTA_EXCEEDED",
    Component.CLOUD,
    "Quota exceeded for {resources}[: Requested {requested}, but already used {used} of {limit} {of}]",
    True,
    "outside",
    {"resources": _RESOURCES, "requested": _COUNTS, "used": _COUNTS, "limit": _COUNTS, "of": _RESOURCES},
)
QUOTA_OF_RESOURCES = Code(
    "QUOTA_OF_RESOURCES",
    Component.CLOUD,
    "Quota exceeded for resources: {resources}",
    True,
    "outside",
    {"resources": _RESOURCES},
)
NO_VALID_HOST = Code("NO_VALID_HOST", Component.CLOUD, "No valid host was found", True, "outside")
SERVER_FAULT = Code(
    "SERVER_FAULT", Component.CLOUD, "{text}", "{known}", "outside", {"text": TEXT, "known": MESSAGE}
)
FAILED_TIMES = Code(
    "FAILED_TIMES",
    Component.CLOUD,
    "it failed {n} times[: {why}]",
    "it failed {n} times[, {why}]",
    "outside",
    {"n": COUNT, "why": MESSAGE},
)
NOT_YET = Code(
    "NOT_YET", Component.CLOUD, "not yet ({why})", "not yet[ ({why})]", "outside", {"why": MESSAGE}
)
NO_ANSWER = Code("NO_ANSWER", Component.SERVICE, "no answer in time", True, "outside")
LOCKED = Code(
    "LOCKED",
    Component.SERVICE,
    "blocked by others for too long: {text}",
    "blocked by others for too long",
    "outside",
    {"text": TEXT},
)
NO_CONNECTION = Code(
    "NO_CONNECTION",
    Component.SERVICE,
    "no connection was free: {text}",
    "no connection was free",
    "outside",
    {"text": TEXT},
)
READ_ONLY = Code(
    "READ_ONLY", Component.SERVICE, "it is read-only: {text}", "it is read-only", "outside", {"text": TEXT}
)
NO_ROLE = Code(
    "NO_ROLE",
    Component.CLOUD,
    "HTTP 403: weft's own account lacks a role: user {user} needs the role service in project {project}",
    "HTTP 403, weft's own account lacks a role",
    "outside",
    {"user": TEXT, "project": TEXT},
)

# -- what uses a resource that is to be deleted -----------------------------------------------------------------------

IN_USE = Code(
    "IN_USE",
    Component.NETWORK,
    "{seen}[; in use by {users}][, {uses}][, and {more} more]",
    "{seen}[, {uses}][, and {more} more]",
    "in-use",
    {"seen": Nested(OPERATORS), "users": TEXT, "uses": Several(between=", "), "more": COUNT},
)
_USED = {
    "thing": word(
        "port|subnet|trunk|floating ip|vpn service|vpn endpoint group|attachment|snapshot|backup|replica|group"
        "|share group|share"
    ),
    "id": ID,
    "name": _PLAIN,
    "server": _PLAIN,
    "owner": word("pod|network|site"),
    "of": word("[A-Za-z][A-Za-z ]{0,40}"),
    "project": TEXT,
}
USED_BY_PROJECT = Code(
    "USED_BY_PROJECT",
    Component.NETWORK,
    "{thing} {id}[ '{name}'][ of server '{server}'] uses the {owner}'s {of}: remove it",
    True,
    "in-use",
    _USED,
)
USED_BY_OTHERS = Code(
    "USED_BY_OTHERS",
    Component.NETWORK,
    "{thing} {id} of project {project} uses the {owner}'s {of}",
    "something of another project uses the {owner}'s {of} (operators see what)",
    "in-use",
    _USED,
)

# -- what happens next -----------------------------------------------------------------------------------------------

WILL_RETRY = Code("WILL_RETRY", Component.SERVICE, "will be retried", True, "outside")
TRY_LATER = Code("TRY_LATER", Component.SERVICE, "try again later", True, "outside")
RAISE_QUOTA = Code("RAISE_QUOTA", Component.CLOUD, "raise the project's quota or order less", True, "outside")
CHECK_THEN_RELEASE = Code(
    "CHECK_THEN_RELEASE", Component.POD, "check the reason, then release the pod", True, "outside"
)
CHECK_THEN_REPLACE = Code(
    "CHECK_THEN_REPLACE",
    Component.POD,
    "check the reason, then replace its node, or release the pod",
    True,
    "outside",
)
CHANGE_ORDER = Code("CHANGE_ORDER", Component.ORDER, "change the order", True, "outside")
OPERATORS_ALARMED = Code(
    "OPERATORS_ALARMED", Component.SERVICE, "{then}", "operators are alarmed", "outside", {"then": TEXT}
)
STATE_OF_CLOUD = Code(
    "STATE_OF_CLOUD",
    Component.CLOUD,
    "{state}[ {task}][ on {host}]",
    "{state}[ {task}]",
    "outside",
    {
        "state": word(r"[A-Z][A-Z_]{1,19}|[a-z][a-z _-]{1,39}"),
        "task": FIELD,
        "host": TEXT,
    },
)
BEING_REVOKED = Code("BEING_REVOKED", Component.STORAGE, "being revoked", True, "outside")
BEING_DELETED = Code("BEING_DELETED", Component.CLOUD, "being deleted", True, "outside")
SOFT_DELETED = Code(
    "SOFT_DELETED",
    Component.CLOUD,
    "soft-deleted: it holds its host until it is reclaimed, or restored by its owner",
    True,
    "outside",
)
SETTLING = Code(
    "SETTLING",
    Component.CLOUD,
    "{names}: {why}",
    "{names}[: {why}]",
    "outside",
    {"names": Words(word(rf"{NAMED}|{_NUMBERED}"), most=3), "why": MESSAGE},
)
