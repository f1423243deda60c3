"""Customers in the lab's directory: their Keystone domain by the exported file, and their tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import httpx

from tests.helpers.rdg import Document, changed, deployment
from weft.planning.export.formats import export
from weftlab import ldap
from weftlab.layout import Layout

DOMAIN, PROJECT = "customers", "research"
NAME = f"keystone.{DOMAIN}.conf"
PARTNERS = "partners"
"""Name of a second domain with the same directory."""


@dataclass(frozen=True)
class Domain:
    """Ids of the customers' domain and of its project."""

    id: str
    project: str


def exported(layout: Layout, name: str = DOMAIN) -> str:
    """The domain's exported file, with the values that Kolla fills in."""

    def with_directory(document: Document) -> None:
        one: dict[str, Any] = {"url": ldap.url(layout), "ca": str(ldap.authority_path(layout))}
        one |= {"user": ldap.BIND_USER, "users": ldap.USERS, "groups": ldap.GROUPS}
        deployment(document)["ldap_domains"] = {name: one}

    text = export(changed(with_directory), "kolla")[f"config/keystone/domains/keystone.{name}.conf"]
    assert ldap.BIND_PASSWORD not in text
    return text.replace(f"{{{{ keystone_ldap_{name}_password }}}}", ldap.BIND_PASSWORD)


def give_role(identity: Any, domain: str) -> Domain:
    """A project of the domain, in which the directory's group has role member."""
    role = identity.find_role("member")
    project = identity.create_project(name=PROJECT, domain_id=domain)
    (team,) = [group for group in identity.groups(domain_id=domain) if group.name == ldap.TEAM]
    identity.assign_project_role_to_group(project, team, role)
    return Domain(domain, project.id)


def sign_in(layout: Layout, name: str, password: str, project: str = PROJECT) -> httpx.Response:
    """Keystone's answer to a customer's sign-in; the token is in X-Subject-Token."""
    user = {"name": name, "domain": {"name": DOMAIN}, "password": password}
    scope = {"project": {"name": project, "domain": {"name": DOMAIN}}}
    identity = {"methods": ["password"], "password": {"user": user}}
    body = {"auth": {"identity": identity, "scope": scope}}
    return httpx.post(f"{layout.url('keystone')}/v3/auth/tokens", json=body, timeout=30)
