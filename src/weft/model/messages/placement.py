"""Messages about orders that there is no room for."""

from __future__ import annotations

from weft.model.messages.message import MESSAGE, Code, Component, Several
from weft.model.messages.values import CIDR, COUNT, FIELD, LEVEL, NODE, TEXT, word

_PLACE = word(r"(?:cloud|fabric|IPU-POD) [A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_ASKED = {"n": COUNT, "spare": COUNT, "there": COUNT, "size": COUNT, "free": COUNT, "groups": COUNT}

TOO_FEW_NODES = Code(
    "TOO_FEW_NODES",
    Component.PLACEMENT,
    "{n:node|nodes}[ ({spare} of them spare)] {n:=is|are} requested, but {there} {there:=is|are} available[ "
    "(removed by: "
    "{removed})].",
    "{n:node|nodes}[ ({spare} of them spare)] {n:=is|are} requested, but {there} {there:=is|are} available",
    "refusals",
    {**_ASKED, "removed": TEXT},
)
TOO_FEW_GROUPS = Code(
    "TOO_FEW_GROUPS",
    Component.PLACEMENT,
    "{n:node|nodes}[ ({spare} of them spare)] are requested in groups of {size} {where}, but only {there} of "
    "the {free} "
    "available nodes form such groups (locality.slice is {size}).",
    True,
    "refusals",
    {**_ASKED, "where": word("per leaf|per NVLink domain|that are whole NVLink domains")},
)
NOT_ON_ONE_NODE = Code(
    "NOT_ON_ONE_NODE",
    Component.PLACEMENT,
    "{n:node|nodes}[ ({spare} of them spare)] can't be on one node: locality.required is node.",
    True,
    "refusals",
    _ASKED,
)
NOT_IN_ONE = Code(
    "NOT_IN_ONE",
    Component.PLACEMENT,
    "{there:node|nodes} {there:=is|are} available[ in groups of {groups}], but at most {most} of the {n} within "
    "one {level} "
    "({where}), and locality.required is {level}.",
    "{there:node|nodes} {there:=is|are} available[ in groups of {groups}], but at most {most} of the {n} within "
    "one {level}",
    "refusals",
    {**_ASKED, "most": COUNT, "level": LEVEL, "where": TEXT},
)
UPLINKS_FULL = Code(
    "UPLINKS_FULL",
    Component.PLACEMENT,
    "{there:node|nodes} {there:=is|are} available[ in groups of {groups}], but no leaves whose uplinks have "
    "{gbps} Gb/s left"
    "[ for each of {what}].",
    True,
    "refusals",
    {**_ASKED, "gbps": COUNT, "what": TEXT},
)
_SHARES = {
    "n": COUNT,
    "each": COUNT,
    "type": NODE,
    "there": COUNT,
    "most": COUNT,
    "level": LEVEL,
    "removed": TEXT,
}
TOO_FEW_SHARES = Code(
    "TOO_FEW_SHARES",
    Component.PLACEMENT,
    "{n:server|servers} with {each} {type} each are requested on shared nodes, and there is capacity for "
    "{there}[ (removed "
    "by: {removed})].",
    "{n:server|servers} with {each} {type} each are requested on shared nodes, and there is capacity for {there}",
    "refusals",
    _SHARES,
)
SHARES_NOT_IN_ONE = Code(
    "SHARES_NOT_IN_ONE",
    Component.PLACEMENT,
    "{n:server|servers} with {each} {type} each fit, but at most {most} within one {level}, and locality.required is "
    "{level}.",
    "{n:server|servers} with {each} {type} each fit, but at most {most} within one {level}",
    "refusals",
    _SHARES,
)
MORE_FOR_POD = Code(
    "MORE_FOR_POD",
    Component.PLACEMENT,
    "{more} for the {stay} of the pod: {why}",
    True,
    "refusals",
    {"more": word(r"\d{1,9} additional (?:node|server)s?"), "stay": COUNT, "why": MESSAGE},
)
NO_REPLACEMENT = Code(
    "NO_REPLACEMENT",
    Component.PLACEMENT,
    "no node can take the place of {node}: {why}",
    True,
    "refusals",
    {"node": NODE, "why": MESSAGE},
)
CHOSEN_NODE_OUT = Code(
    "CHOSEN_NODE_OUT",
    Component.PLACEMENT,
    "{chosen} was asked for, and isn't available: {filter}[ ({why})].",
    "{chosen} was asked for, and isn't available.",
    "refusals",
    {
        "chosen": NODE,
        "filter": word("maintenance|down|quarantine|hold|drain|checks|report|busy|reserved"),
        "why": TEXT,
    },
)
PROJECT_LIMIT = Code(
    "PROJECT_LIMIT",
    Component.PLACEMENT,
    "the project has {has} of at most {most} nodes; {more} more are requested[, {spare} of them spare]",
    True,
    "refusals",
    {"has": COUNT, "most": COUNT, "more": COUNT, "spare": COUNT},
)
SUBNET_TOO_SMALL = Code(
    "SUBNET_TOO_SMALL",
    Component.PLACEMENT,
    "subnet {cidr} of the pod's {plane} network has {there} addresses, and {needed} are needed for "
    "{n:node|nodes}; a subnet "
    "can't grow while servers are on it",
    True,
    "refusals",
    {"cidr": CIDR, "plane": FIELD, "there": COUNT, "needed": COUNT, "n": COUNT},
)
NUMBERS_EXHAUSTED = Code(
    "NUMBERS_EXHAUSTED",
    Component.PLACEMENT,
    "{place}: all {what}[ {first} to {last}] are in use",
    True,
    "refusals",
    {"place": _PLACE, "what": word(r"[A-Za-z_ -]{1,60}"), "first": COUNT, "last": COUNT},
)
SUBNETS_EXHAUSTED = Code(
    "SUBNETS_EXHAUSTED",
    Component.PLACEMENT,
    "{place}: no free subnet[ of {size} addresses] is left in {field}",
    "{place}: no free subnet[ of {size} addresses] is left",
    "refusals",
    {"place": _PLACE, "size": COUNT, "field": TEXT},
)
NO_SHARED_ADAPTERS = Code(
    "NO_SHARED_ADAPTERS",
    Component.PLACEMENT,
    "shared adapters are not possible on fabric {fabric}: {why}",
    "shared adapters are not possible on fabric {fabric}",
    "refusals",
    {"fabric": NODE, "why": TEXT},
)
NOT_ON_OMNI_PATH = Code(
    "NOT_ON_OMNI_PATH",
    Component.PLACEMENT,
    "{what} are not possible on fabric {fabric}: Omni-Path adapters have no SR-IOV",
    True,
    "refusals",
    {"what": word("shared adapters|virtual machines"), "fabric": NODE},
)
TOO_FEW_HOSTS = Code(
    "TOO_FEW_HOSTS",
    Component.PLACEMENT,
    "{place} has {there} {what} with capacity, {needed} are needed[ ({why})]",
    "{place} has {there} {what} with capacity, {needed} are needed",
    "refusals",
    {
        "place": _PLACE,
        "there": COUNT,
        "what": word("Poplar servers|nodes for V-IPU controllers"),
        "needed": COUNT,
        "why": TEXT,
    },
)
NO_RUN = Code(
    "NO_RUN",
    Component.PLACEMENT,
    "{place} has no free run of {run}: {free} are free, the longest run of them is {longest}",
    True,
    "refusals",
    {
        "place": _PLACE,
        "run": word(r"\d{1,6} (?:IPU-Machine|neighbouring IPU-Machines) \(\d{1,7} IPUs\)"),
        "free": COUNT,
        "longest": COUNT,
    },
)
QUOTA_ROW = Code(
    "QUOTA_ROW",
    Component.CLOUD,
    "{resource}: {used} used + {wanted} requested > {limit}",
    True,
    "refusals",
    {"resource": word(r"[A-Za-z_() ]{1,40}"), "used": COUNT, "wanted": COUNT, "limit": COUNT},
)
QUOTAS_EXCEEDED = Code(
    "QUOTAS_EXCEEDED",
    Component.CLOUD,
    "the project's quotas would be exceeded: {rows}",
    True,
    "refusals",
    {"rows": Several()},
)
SITE_IS_REMOVING = Code(
    "SITE_IS_REMOVING",
    Component.SITE,
    "the site is removing {things}: order again once weft site apply has created it again",
    None,
    "refusals",
    {"things": TEXT},
)
