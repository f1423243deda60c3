"""Checks of the site's settings for nodes' own checks, and what is expected of a node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from weft.model.hostchecks import CODES
from weft.model.site import BOOTABLE, ExpectedHost, Site
from weft.planning.kept import kept
from weft.planning.site.wrongvalues import WrongValue


def check_host_checks(site: Site) -> Iterator[WrongValue]:
    """Codes are those of weft-check, machine types those of the site's hosts."""
    for code in site.checks.codes:
        if code not in CODES:
            yield ("checks", "codes", code), code, f"a code of weft-check: {', '.join(sorted(CODES))}"
    types = (
        sorted({node.machine_type for node in site.nodes if node.role in BOOTABLE})
        if site.checks.expected
        else []
    )
    for name in site.checks.expected:
        if name not in types:
            yield ("checks", "expected", name), name, f"a machine type of the site: {', '.join(types)}"


@kept
def hosts_by_type(site: Site) -> Mapping[str, int]:
    """Machine type -> how many hosts of it the site has."""
    return Counter(node.machine_type for node in site.nodes)


@kept
def expected_digests(site: Site) -> Mapping[str, str]:
    """Node -> digest of what is expected of it; nodes without expected values are left out."""
    digests = {name: one.digest() for name, one in site.checks.expected.items()}
    if not digests:
        return {}
    types = {node.name: node.machine_type for node in site.nodes}
    return {name: digests[type_] for name, type_ in types.items() if type_ in digests}


def expected_file(site: Site, node: str) -> bytes:
    """What weft-check expects of a node; no values if the site has none for its machine type."""
    return site.checks.expected.get(site.node_by_name[node].machine_type, ExpectedHost()).file()
