"""`weft site certs`: certificates of agents."""

from __future__ import annotations

import argparse

from weft.cli.common import Subparsers, client_of, warn
from weft.cli.output import Listing, listed

_BY_HAND = frozenset({"CERTIFICATE_EXPIRED", "CERTIFICATE_SUPERSEDED", "AUTHORITY_OFFLINE"})


def add_site_commands(commands: Subparsers) -> None:
    """Register `weft site certs`."""
    listed(
        commands, "certs", certs, "list certificates of agents, when they end, and whether they are renewed"
    )


def certs(args: argparse.Namespace) -> Listing:
    """`weft site certs`; says on standard error how to renew those that weft can't."""
    rows = client_of(args).site.certificates()
    if stuck := [row for row in rows if row["code"] in _BY_HAND]:
        agents = "".join(f" --agent {row['name']}=HOST" for row in stuck if row["kind"] == "agent")
        warn(
            f"weft: to renew {len(stuck)} by hand, on the host with the authority's key: "
            f"weft fabric-agent certs --dir DIR{agents} --renew; then copy the files to the agents' hosts"
        )
    return Listing(("fabric", "kind", "name", "expires_at", "seen_at", "code", "state"), rows)
