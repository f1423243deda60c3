"""Customers in a directory of their own: a real slapd over TLS, Keystone's domain by the file that weft exports, and a
customer who orders a pod.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest
import yaml

from tests.e2e.people import People, Person, assert_clean, connection, servers_of
from tests.helpers.customers import DOMAIN, PARTNERS, PROJECT, Domain, exported, give_role
from tests.helpers.ownlab import own_lab
from weftlab import jobs, ldap
from weftlab.lab import Lab

pytestmark = [
    pytest.mark.cloud,
    pytest.mark.nightly(reason="a lab of its own; the domain itself is tested by day"),
]


@pytest.fixture(scope="module")
def lab() -> Generator[Lab]:
    with own_lab(ldap=True, nodes=8, ipus=0) as lab:
        yield lab


def restart(lab: Lab, *services: str) -> None:
    lab.supervisor.stop(list(services), giving_up=False)
    lab.up()


@pytest.fixture(scope="module")
def domains(lab: Lab) -> dict[str, Domain]:
    """Made as the export's README and the page on roles say: the domains, their files, a restart, roles."""
    identity: Any = connection(lab, "operator").identity
    made = {name: identity.create_domain(name=name) for name in (DOMAIN, PARTNERS)}
    for name in made:
        (ldap.domains_path(lab.layout) / f"keystone.{name}.conf").write_text(exported(lab.layout, name))
    restart(lab, "keystone")
    identity = connection(lab, "operator").identity
    roles = {role.name: role for role in identity.roles()}
    weft = identity.find_user("weft", domain_id="default")
    for one in made.values():
        for role in ("member", "weft"):
            identity.assign_domain_role_to_user(one, weft, roles[role], inherited=True)
    return {name: give_role(identity, one.id) for name, one in made.items()}


@pytest.fixture
def customer(lab: Lab, domains: dict[str, Domain], people: People) -> Person:
    """alice, with a profile of her own."""
    add_profile(lab)
    return people("alice")


@pytest.fixture
def partner(lab: Lab, domains: dict[str, Domain], people: People) -> Person:
    """alice of the other domain, with a profile of her own, and one for the customers' project."""
    add_profile(lab, "partner", PARTNERS)
    add_profile(lab, "guest", PARTNERS, DOMAIN)
    return people("partner")


def add_profile(
    lab: Lab, profile: str = "alice", domain: str = DOMAIN, of_project: str | None = None
) -> None:
    """A lab that is started again writes clouds.yaml again."""
    document = yaml.safe_load(lab.clouds_yaml.read_text())
    auth = {"auth_url": f"{lab.layout.url('keystone')}/v3", "username": "alice", "project_name": PROJECT}
    auth |= {"password": ldap.PEOPLE["alice"], "user_domain_name": domain}
    auth["project_domain_name"] = of_project or domain
    document["clouds"][profile] = {**document["clouds"]["team-a"], "auth": auth}
    lab.clouds_yaml.write_text(yaml.safe_dump(document))


def test_customer_orders_a_pod(lab: Lab, people: People, customer: Person) -> None:
    """From order to receipt, by a role that the directory's group has."""
    made = customer.order("train", 2, "--wait", "--json")
    assert made.code == 0, made.err
    pod = customer.weft("pod", "show", "train", "--json").json
    assert pod["state"] == "READY"
    servers = servers_of(connection(lab, "weft"), pod["id"])
    assert {s.project_id for s in servers} == {pod["project_id"]}
    assert people("team-a").weft("pod", "show", pod["id"]).code != 0, "another domain's project sees nothing"
    assert customer.weft("audit").code != 0, "nor is a member an operator"
    operator = people("operator")
    assert_clean(operator)
    assert customer.weft("pod", "release", "train", "--wait").code == 0
    receipt = customer.weft("pod", "receipt", "train", "--json").json["receipt"]
    assert receipt["clean"] and receipt["project_id"] == pod["project_id"]
    assert_clean(operator)


def test_unavailable_directory_stops_only_customers(lab: Lab, people: People, customer: Person) -> None:
    """A sentence and no traceback; what is there comes back with the directory."""
    assert customer.weft("pod", "list").code == 0
    lab.supervisor.stop(["ldap"], giving_up=False)
    try:
        failed = customer.weft("pod", "list")
        assert failed.code != 0 and "Traceback" not in failed.err
        assert people("team-a").weft("pod", "list").code == 0
    finally:
        lab.up()
    add_profile(lab)
    assert customer.weft("pod", "list").code == 0


@pytest.fixture
def policy(lab: Lab, domains: dict[str, Domain]) -> Generator[None]:
    """Customers order without keeping others off leaves; partners only look; cloud users do everything."""
    file = jobs.policy_path(lab.layout)
    file.parent.mkdir(exist_ok=True)
    file.write_text(
        f""""pods:create": "rule:project_member and not user_domain_id:{domains[PARTNERS].id}"
"pods:change": "rule:project_member and not user_domain_id:{domains[PARTNERS].id} or rule:operator"
"pods:create_exclusive": "rule:project_member and user_domain_id:default"
"""
    )
    restart(lab, "weft")
    yield
    file.unlink()
    restart(lab, "weft")


ALONE = "locality: {exclusive: true}\n"


def test_permissions_of_customers_depend_on_their_domain(
    lab: Lab, people: People, policy: None, customer: Person, partner: Person, domains: dict[str, Domain]
) -> None:
    """In a running weft: one domain orders, one orders less, one only looks, in whichever project its users are."""
    identity: Any = connection(lab, "operator").identity
    role, research = identity.find_role("member"), identity.get_project(domains[DOMAIN].project)
    alice = next(u for u in identity.users(domain_id=domains[PARTNERS].id) if u.name == "alice")
    identity.assign_project_role_to_user(research, alice, role)
    before = {s.id for s in connection(lab, "weft").compute.servers(all_projects=True)}
    for who in (partner, people("guest")):
        assert who.weft("pod", "list").code == 0
        refused = who.order("theirs", 1)
        assert refused.code == 2 and "may not do pods:create" in refused.err, refused.err
        planned = who.weft("pod", "plan", "-f", "theirs.yaml")
        assert planned.code == 0, planned.err
    refused = customer.order("alone", 1, more=ALONE)
    assert refused.code == 2 and "may not do pods:create_exclusive" in refused.err, refused.err
    assert all(p["state"] == "RELEASED" for p in customer.weft("pod", "list", "--json").json)
    assert {s.id for s in connection(lab, "weft").compute.servers(all_projects=True)} == before
    made = customer.order("train", 1, "--wait")
    assert made.code == 0, made.err
    guest = people("guest")
    assert guest.weft("pod", "show", "train").code == 0, "she is a reader of that project"
    (guest.folder / "train.yaml").write_text(
        (customer.folder / "train.yaml").read_text().replace("count: 1", "count: 2")
    )
    changed = guest.weft("pod", "apply", "-f", "train.yaml")
    assert changed.code == 2 and "may not do pods:change" in changed.err, changed.err
    assert partner.weft("pod", "show", "train").code != 0
    own = people("team-a")
    alone = own.order("alone", 1, "--wait", more=ALONE)
    assert alone.code == 0, alone.err
    for who, name in ((customer, "train"), (own, "alone")):
        assert who.weft("pod", "release", name, "--wait").code == 0
    assert_clean(people("operator"))
