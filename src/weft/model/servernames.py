"""Names of a pod's servers: in the cloud, and as host names. A pattern in the order gives them.

Sources: RFC 1123 2.1 (a label of letters, digits and '-', at most 63 characters); Nova derives a server's host name
from its name, and changes nothing in such a label (`nova.utils.sanitize_hostname`).
"""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, StringConstraints

DEFAULT = "{pod}-{index}"
MOST_DIGITS = 5
"""Digits of an index: an order has at most 10,000 servers, and one being removed keeps its index until it is gone."""
_LONGEST = 63
_PATTERN = re.compile(r"(?:[a-z0-9-]|\{pod\}|\{index(?::0[2-5])?\})+")
_INDEX = re.compile(r"\{index(?::0([2-5]))?\}")
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?")
_GRAMMAR = (
    "a-z, 0-9, '-', {pod} for the pod's name and, once, {index} for the server's number from 0 "
    "({index:02} to {index:05}: with so many digits), such as {pod}-{index}"
)


def _checked(pattern: str) -> str:
    if _PATTERN.fullmatch(pattern) is None or len(_INDEX.findall(pattern)) != 1:
        raise ValueError(_GRAMMAR)
    return pattern


ServerNames = Annotated[str, StringConstraints(max_length=80), AfterValidator(_checked)]
"""A pattern of names; `why_not_names` checks it with a pod's name."""


def server_name(pattern: str, pod: str, index: int) -> str:
    """The name of one server.

    Args:
        pattern: a `ServerNames`.
        index: the server's number in its pod, from 0.
    """

    def number(found: re.Match[str]) -> str:
        return f"{index:0{int(found[1] or 1)}d}"

    return _INDEX.sub(number, pattern).replace("{pod}", pod)


def why_not_names(pattern: str, pod: str) -> str:
    """Why a pattern gives no host names for a pod of this name; empty: it does."""
    longest = server_name(pattern, pod, 10**MOST_DIGITS - 1)
    if len(longest) > _LONGEST:
        return (
            f"names of at most {_LONGEST} characters with the pod's name and {MOST_DIGITS} digits: shorten it"
        )
    if _LABEL.fullmatch(longest) is None:
        return "names that start and end with a letter or digit"
    if longest.isdigit():
        return "names that aren't digits alone, which programs read as addresses"
    return ""
