"""Access rules of application credentials: they limit the requests of a caller's token, whatever its roles allow.

Keystone doesn't enforce them: it passes them to services that declare support (`OpenStack-Identity-Access-Rules`),
and refuses such tokens to all others. Rules and patterns: "Access Rules" in Keystone's manual.
"""

from __future__ import annotations

import re

from weft.model.errors import ForbiddenError
from weft.ports.cloud import Caller

_TOKEN = re.compile(r"(?P<tag>\{[^}]*\})|(?P<tree>\*\*)|(?P<one>\*)|(?P<literal>[^{}*]+)")


def check_access(caller: Caller, service: str, method: str, path: str, prefix: str = "") -> None:
    """Raise `ForbiddenError`, with the rule that is missing, unless the caller's rules allow the request.

    Args:
        service: weft's type in Keystone's catalog.
        path: decoded, as for routing: an encoded slash counts as a slash.
        prefix: path of the API's URL in the catalog; rules may include it.
    """
    if caller.access_rules is None:
        return
    paths = {path, prefix.rstrip("/") + path}
    for rule in caller.access_rules:
        if (
            rule.service == service
            and rule.method == method
            and any(matches(one, rule.path) for one in paths)
        ):
            return
    raise ForbiddenError(
        f"the access rules of this application credential don't allow it: one with service {service}, method "
        f"{method} and path {path} is missing"
    )


def matches(path: str, pattern: str) -> bool:
    """Whether a path matches: `*` and `{name}` match one segment, `**` any number of characters."""
    built, end = "", 0
    for found in _TOKEN.finditer(pattern):
        if found.start() != end:
            return False  # a brace without its partner
        end = found.end()
        built += re.escape(found["literal"]) if found["literal"] else ".*" if found["tree"] else "[^/]+"
    return end == len(pattern) and re.fullmatch(built, path, re.DOTALL) is not None
