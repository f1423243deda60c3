"""Settings of the subnet manager that isolation depends on if tenants own whole adapters. Pure.

A user with root on a server with a whole HCA can send management datagrams of any kind. The partition doesn't stop
them; only the subnet manager's own configuration does. Each rule names the setting, the required value, and what a
tenant can do without it. A setting that isn't in the file has OpenSM's default, which is never safe.

Sources: options of OpenSM 3.3.23 (`opensm -c`); UFM Enterprise manual, "Security Features" and "SM default properties";
NVIDIA InfiniBand security guidelines; InfiniBand Architecture Specification 1.4 §14.2.4 (M_Key), §14.4 (SM election).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from weft.model.livecheck import Weakness

UNSET = ("", "(null)", "0", "0x0", "0x0000000000000000")
SET, WELL_KNOWN, NONE = "(set)", "(the well-known default)", "(not set)"
"""What the agent reports instead of a secret's value."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One setting.

    Attributes:
        good: whether a value is sufficient; "" if it isn't in the file.
        wanted: the required value, for people.
        allows: what a tenant who owns a whole HCA can do without it.
        vendor: only NVIDIA's OpenSM has it, not upstream's (3.3).
    """

    setting: str
    good: Callable[[str], bool]
    wanted: str
    allows: str
    vendor: bool = False


SECRETS = ("m_key", "sm_key", "sa_key")
DEFAULT_MEMBERSHIP = "default_membership"
"""UFM's own (gv.cfg); without UFM it is in OpenSM's partition file."""


def _secret(value: str) -> bool:
    return value == SET


def _true(value: str) -> bool:
    return value == "TRUE"  # OpenSM reads any other word, even `true`, as FALSE


def _default_false(value: str) -> bool:
    return value in ("", "FALSE")


def _enabled(value: str) -> bool:
    return value == "2"


RULES = (
    Rule(
        "m_key",
        _secret,
        "a random number of 64 bits",
        "write any port's P_Key table and PortInfo (SubnSet), and so join any pod, or turn enforcement off",
    ),
    Rule(
        "m_key_protection_level",
        lambda v: v in ("2", "3"),
        "2",
        "read the M_Key from any port's PortInfo, and then do everything that it prevents",
    ),
    Rule(
        "m_key_per_port",
        _true,
        "TRUE",
        "use the M_Key found in one's own adapter on every other port",
        vendor=True,
    ),
    Rule(
        "sm_key",
        _secret,
        "a random number of 64 bits, the same on all managers",
        "run a subnet manager that the real ones negotiate with as one of their own",
    ),
    Rule(
        "allowed_sm_guids",
        lambda v: v not in UNSET,
        "the port GUIDs of all managers",
        "run a subnet manager that becomes master, and set every port's P_Key table",
        vendor=True,
    ),
    Rule(
        "sm_priority",
        lambda v: v == "15",
        "15 on every manager",
        "run a subnet manager with higher priority, which then takes over as master",
    ),
    Rule(
        "sa_key",
        _secret,
        "a random number of 64 bits (hca.sa_key of the agent's file is the same)",
        "query the subnet administrator as a trusted client: others' P_Key tables, all records; change others' records",
    ),
    Rule(
        "sa_enhanced_trust_model",
        _true,
        "TRUE",
        "read the whole fabric from the subnet administrator, and flood it with records",
        vendor=True,
    ),
    Rule(
        "no_partition_enforcement",
        _default_false,
        "FALSE",
        "send with any P_Key: no switch checks it, only the receiver's own adapter does",
    ),
    Rule(
        "part_enforce",
        lambda v: v in ("", "both"),
        "both",
        "send or receive with any P_Key through its leaf",
    ),
    Rule(
        "allow_both_pkeys",
        _default_false,
        "FALSE",
        "be a full and a limited member at once, which the tables that weft reads can't tell apart",
    ),
    Rule(
        "console",
        lambda v: v in ("", "off", "local"),
        "off",
        "control the subnet manager without a password, from anywhere that can reach its port",
    ),
    Rule(
        "cc_key_enable",
        _enabled,
        "2",
        "change the congestion control of any adapter or switch, and so slow others down",
        vendor=True,
    ),
    Rule(
        "vs_key_enable",
        _enabled,
        "2",
        "send vendor-specific datagrams: read and write any switch's or adapter's registers",
        vendor=True,
    ),
    Rule(
        "n2n_key_enable",
        _enabled,
        "2",
        "send datagrams to switches in other switches' names, and so change routes",
        vendor=True,
    ),
)
UFM_RULES = (
    Rule(
        DEFAULT_MEMBERSHIP,
        lambda v: v == "limited",
        "limited, in gv.cfg",
        "reach every host of every other tenant over the default partition",
    ),
    *RULES,
)
NAMES = frozenset(r.setting for r in UFM_RULES)


def masked(name: str, value: str) -> str:
    """A value that is safe to report: a secret is replaced by whether it is set."""
    if name not in SECRETS:
        return value
    try:
        number = int(value, 0)
    except ValueError:
        return NONE if value in UNSET else SET
    return NONE if number == 0 else WELL_KNOWN if number in (1, 1 << 56) else SET


def weaknesses(
    fabric: str, manager: str, options: Mapping[str, str], rules: Iterable[Rule] = RULES
) -> tuple[Weakness, ...]:
    """Every rule that a manager's options violate."""
    return tuple(
        Weakness(
            fabric=fabric,
            manager=manager,
            setting=rule.setting,
            found=options.get(rule.setting, "") or NONE,
            wanted=rule.wanted + (" (only NVIDIA's OpenSM, as in UFM, has it)" if rule.vendor else ""),
            allows=rule.allows,
        )
        for rule in rules
        if not rule.good(options.get(rule.setting, ""))
    )
