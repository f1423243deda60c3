"""Host names of hardware in a cloud's DNS. Source: RFC 1123 2.1; Neutron refuses anything else in `dns_name`."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import StringConstraints

_LABEL = r"^[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?$"
_LONGEST = 63

DnsName = Annotated[str, StringConstraints(to_lower=True, max_length=_LONGEST, pattern=_LABEL)]
"""One label of a host name. Neutron adds the cloud's `dns_domain`."""

DNS_NAMES = "letters, digits and '-', starting and ending with a letter or digit, at most 63 characters"


def is_dns_name(text: str) -> bool:
    """Whether this is one label of a host name."""
    return len(text) <= _LONGEST and re.fullmatch(_LABEL, text) is not None


def host_label(device: str, interface: str) -> str:
    """`<device>-<interface>` as a label: `gpu01.dc1` and `eth_0` make `gpu01-dc1-eth-0`.

    Without the device's domain if it would be too long with it.
    """
    whole = _label(f"{device}-{interface}")
    return whole if len(whole) <= _LONGEST else _label(f"{device.partition('.')[0]}-{interface}")


def _label(text: str) -> str:
    return re.sub(r"[^a-z0-9-]", "-", text.lower())
