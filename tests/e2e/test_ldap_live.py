"""Customers in a directory of their own: a real slapd over TLS, Keystone's domain by the file that weft exports, and a
customer who orders a pod.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest
import yaml

from tests.e2e.people import People, Person, assert_clean, connection
from tests.helpers.customers import DOMAIN, NAME, PROJECT, Domain, exported, give_role
from tests.helpers.ownlab import own_lab
from weftlab import ldap
from weftlab.lab import Lab

pytestmark = [
    pytest.mark.cloud,
    pytest.mark.nightly(reason="a lab of its own; the domain itself is tested by day"),
]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Generator[Lab]:
    with own_lab(tmp_path_factory.mktemp("ldap"), ldap=True, nodes=8, ipus=0) as lab:
        yield lab


def restart(lab: Lab, *services: str) -> None:
    lab.supervisor.stop(list(services), giving_up=False)
    lab.up()


@pytest.fixture(scope="module")
def domain(lab: Lab) -> Domain:
    """Made as the export's README and the page on roles say: the domain, its file, a restart, roles."""
    identity: Any = connection(lab, "operator").identity
    made = identity.create_domain(name=DOMAIN)
    (ldap.domains_path(lab.layout) / NAME).write_text(exported(lab.layout))
    restart(lab, "keystone")
    identity = connection(lab, "operator").identity
    roles = {role.name: role for role in identity.roles()}
    weft = identity.find_user("weft", domain_id="default")
    for role in ("member", "weft"):
        identity.assign_domain_role_to_user(made, weft, roles[role], inherited=True)
    return give_role(identity, made.id)


@pytest.fixture
def customer(lab: Lab, domain: Domain, people: People) -> Person:
    """alice, with a profile of her own."""
    add_profile(lab)
    return people("alice")


def add_profile(lab: Lab) -> None:
    """A lab that is started again writes clouds.yaml again."""
    document = yaml.safe_load(lab.clouds_yaml.read_text())
    auth = {"auth_url": f"{lab.layout.url('keystone')}/v3", "username": "alice", "project_name": PROJECT}
    auth |= {"password": ldap.PEOPLE["alice"], "user_domain_name": DOMAIN, "project_domain_name": DOMAIN}
    document["clouds"]["alice"] = {**document["clouds"]["team-a"], "auth": auth}
    lab.clouds_yaml.write_text(yaml.safe_dump(document))


def test_a_customer_orders_a_pod(lab: Lab, people: People, customer: Person) -> None:
    """From order to receipt, by a role that the directory's group has."""
    made = customer.order("train", 2, "--wait", "--json")
    assert made.code == 0, made.err
    pod = customer.weft("pod", "show", "train", "--json").json
    assert pod["state"] == "READY"
    servers = list(connection(lab, "weft").compute.servers(all_projects=True))
    assert {s.project_id for s in servers if s.name.startswith(f"weft-{pod['id'][:8]}")} == {
        pod["project_id"]
    }
    assert people("team-a").weft("pod", "show", pod["id"]).code != 0, "another domain's project sees nothing"
    assert customer.weft("audit").code != 0, "nor is a member an operator"
    operator = people("operator")
    assert_clean(operator)
    assert customer.weft("pod", "release", "train", "--wait").code == 0
    receipt = customer.weft("pod", "receipt", "train", "--json").json["receipt"]
    assert receipt["clean"] and receipt["project_id"] == pod["project_id"]
    assert_clean(operator)


def test_without_the_directory_customers_wait_and_others_work(
    lab: Lab, people: People, customer: Person
) -> None:
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
