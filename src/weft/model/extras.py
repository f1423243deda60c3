"""The extras of weft-pods: what is installed only where something needs it."""

from __future__ import annotations

from collections.abc import Mapping

DISTRIBUTION = "weft-pods"
EXTRAS: Mapping[str, tuple[str, ...]] = {
    "generic-switch": ("networking_generic_switch", "oslo_log"),
    "grafana": ("grafana_foundation_sdk",),
    "neutron": ("sqlalchemy", "pymysql"),
    "openstackclient": ("osc_lib",),
    "site": ("pynetbox", "sushy"),
    "vipu": ("grpc", "openvipu"),
}
"""Extra -> the modules that weft imports of it, as in pyproject.toml."""


def installation(extra: str) -> str:
    """The command that installs an extra."""
    return f"pip install '{DISTRIBUTION}[{extra}]'"
