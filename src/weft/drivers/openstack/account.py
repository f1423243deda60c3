"""Whether weft's user has the roles that it needs: docs/operating-roles.md."""

from __future__ import annotations

from weft.drivers.openstack.identity import caller_of
from weft.drivers.openstack.session import Sessions
from weft.model.errors import UnknownError

OWN_ROLES = ("service", "weft")
"""Roles of weft's user in its own project; in tenants' projects it needs `member` and `weft`."""


def account_problems(sessions: Sessions) -> tuple[str, ...]:
    """Roles that are missing, one sentence each with the command that adds them. Raises `OutsideError` if it can't be
    read."""
    user, project = sessions.account
    keystone, asked = sessions.own().identity, "read the roles of weft's user"
    answer = keystone.ask(asked, "GET", "/auth/tokens", headers={"X-Subject-Token": keystone.token()})
    try:
        roles = caller_of(answer.body).roles
    except ValueError:
        raise UnknownError(asked, f"keystone at {sessions.auth_url}", "no token of Identity API v3") from None
    found = [
        f"weft's user {user} lacks the role {role} in its project {project}: "
        f"openstack role add --user {user} --project {project} {role}"
        for role in OWN_ROLES
        if role not in roles
    ]
    if not sessions.served().keys() - {keystone.signed_in_project()}:
        found.append(
            f"weft's user {user} has a role in no project of tenants, so none can order: for all of a domain, "
            f"openstack role add --user {user} --domain default --inherited member; the same with weft"
        )
    return tuple(found)
