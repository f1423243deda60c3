"""Callers in tests of API and command line: two tenants with every role, and operators."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from weft.ports.cloud import Caller


def caller(
    name: str,
    project: str | None,
    *roles: str,
    system: bool = False,
    hours: float = 1,
    domain: str = "default",
) -> Caller:
    """A caller whose ids are `id-of-<name>` and `id-of-<project>`, with `-in-<domain>` for another domain."""
    inside = "" if domain == "default" else f"-in-{domain}"
    return Caller(
        user_id=f"id-of-{name}{inside}",
        user_name=name,
        project_id=f"id-of-{project}{inside}" if project else None,
        project_name=project,
        roles=frozenset(roles),
        expires_at=datetime.now(UTC) + timedelta(hours=hours),
        system=system,
        project_domain_id=domain if project else None,
        user_domain_id=domain,
    )


def tokens() -> dict[str, Caller]:
    """Token -> caller; the token names the caller."""
    return {
        "a-member": caller("alice", "team-a", "member", "reader"),
        "a-reader": caller("rita", "team-a", "reader"),
        "b-member": caller("bob", "team-b", "member", "reader"),
        "a-admin": caller("ada", "team-a", "admin"),
        "operator": caller("olga", "admin", "admin"),
        "another-domains-admin": caller("mal", "admin", "admin", domain="customer"),
        "system-admin": caller("sam", None, "admin", system=True),
        "system-reader": caller("sue", None, "reader", system=True),
        "roleless": caller("rob", "team-a"),
        "unscoped": caller("una", None),
        "expired": caller("eve", "team-a", "member", hours=-1),
    }


def by(token: str) -> dict[str, str]:
    """The request headers of the caller with this token."""
    return {"X-Auth-Token": token}
