"""A real cloud behind a proxy that answers falsely: anything but the service's own answer is unknown, never an empty
cloud.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.drivers.openstack.real_bench import hosts_of
from tests.drivers.openstack.wired import connect
from tests.helpers.waiting import wait_for
from weft.drivers.openstack import OpenStackDriver, Sessions
from weft.model.errors import OutsideError, TemporaryError, UnknownError
from weft.model.mark import outside_name
from weft.model.owner import Owner
from weft.model.resources import Observed, Resource, Status
from weft.model.specs import (
    KeyPairSpec,
    NetworkSpec,
    PortSpec,
    SecurityGroupSpec,
    ServerSpec,
    Spec,
    SubnetSpec,
)
from weft.ports.resources import Scope
from weftlab.catalog import API_SERVICES
from weftlab.lab import Lab
from weftlab.liar import LIES, Liar, Route, running

pytestmark = [pytest.mark.cloud, pytest.mark.landing]

SEGMENT = 931
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFoqGQ0mJmTsZLuYlEGwLtxl8V6M0Lp3tm1dJ8D4hQxY"
HARMLESS = frozenset(
    {"accepted202", "late", "slow", "twice", "no_request_id", "nowhere", "stale", "hidden_rows"}
)
"""False answers that don't affect a reading, or that another test here is about."""
MISREAD = sorted(LIES.keys() - HARMLESS)
PAGES = (
    "html200",
    "empty_object200",
    "choices300",
    "elsewhere302",
    "forbidden403_html",
    "notfound404_html",
    "error500",
)
BY_DAY = frozenset(
    {
        *("accepted202", "cut", "empty_list200", "error500", "hang", "html200", "lost", "no_content204"),
        *("notfound404_forged", "nowhere", "null_list200", "reset", "unauthorized401"),
    }
)
"""One of each kind of false answer."""
AT_NIGHT = pytest.mark.nightly(
    reason="others of its kind run by day, and most of all kinds in test_absence.py"
)
SEPARATE = {"server": "nova", "key_pair": "nova"}


def each(lies: Iterable[str]) -> list[Any]:
    """The false answers as parameters; by day those of `BY_DAY`."""
    return [pytest.param(lie, marks=[] if lie in BY_DAY else [AT_NIGHT]) for lie in lies]


@dataclass(frozen=True)
class Lied:
    """A driver that finds every service through the proxy, and an existing resource of each kind."""

    liar: Liar
    clouds: Path
    driver: OpenStackDriver
    scope: Scope
    things: Mapping[str, Resource]
    ids: dict[str, str]

    def of(self, service: str) -> list[Resource]:
        return [r for r in self.things.values() if SEPARATE.get(r.kind, "neutron") == service]

    def look(self, key: str) -> Observed:
        """What the driver says of one resource; raises if it is unknown."""
        return self.driver.find(self.scope, [self.things[key]], self.ids)[key]


@pytest.fixture(scope="module")
def lied(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lied]:
    """Everything is created, and removed, without false answers."""
    upstreams = [Route(api.name, 0, lab.layout.url(api.name)) for api in API_SERVICES]
    with running(upstreams) as (liar, routes):
        entry = yaml.safe_load(lab.clouds_yaml.read_text())["clouds"]["weft"]
        entry["auth"]["auth_url"] = f"{next(r.url for r in routes if r.name == 'keystone')}/v3"
        clouds = tmp_path_factory.mktemp("liar") / "clouds.yaml"
        clouds.write_text(yaml.safe_dump({"clouds": {"weft": entry}}))
        sessions = Sessions("weft", [clouds])
        driver = OpenStackDriver("lab", sessions)
        project = str(connect(lab.clouds_yaml, "team-a").current_project_id)
        scope = Scope(f"lied-{uuid.uuid4().hex[:6]}", Owner.pod(str(uuid.uuid4())), "lied", project)
        things, ids = _graph(scope, hosts_of(lab)[1]), dict[str, str]()
        try:
            for key, resource in things.items():
                outcome = driver.create(scope, [resource], ids)[key]
                assert outcome.error is None, outcome.error
                ids[key] = str(outcome.id)
            made = Lied(liar, clouds, driver, scope, things, ids)
            wait_for(lambda: made.look("server").status is Status.SETTLED, pause=0.3)
            yield made
        finally:
            liar.lift()
            for resource in reversed(things.values()):
                driver.delete(scope, [resource], ids)
                wait_for(lambda r=resource: not driver.find(scope, [r], ids)[r.key].there, pause=0.3)
            driver.close()
            sessions.close()


def _graph(scope: Scope, host: str) -> dict[str, Resource]:
    specs: dict[str, Spec] = {
        "network": NetworkSpec(physical_network="physnet1", segment=SEGMENT, port_security=True),
        "subnet": SubnetSpec(network="network", cidr="10.79.0.0/24", gateway=False, dhcp=False),
        "group": SecurityGroupSpec(ssh_from=("192.0.2.0/24",)),
        "port": PortSpec(
            network="network",
            subnet="subnet",
            address="10.79.0.9",
            vnic_type="normal",
            security_groups=("group",),
            host=host,
        ),
        "key": KeyPairSpec(public_key=KEY),
        "server": ServerSpec(host=host, flavor="cpu1", image="tiny", key_pair="key", ports=("port",)),
    }
    return {
        key: Resource(key=key, name=outside_name(scope.owner.id, key), where="lab", spec=spec)
        for key, spec in specs.items()
    }


def _seen(driver: OpenStackDriver, lied: Lied, key: str) -> bool:
    try:
        return driver.find(lied.scope, [lied.things[key]], lied.ids)[key].there
    except UnknownError:
        return False


@pytest.mark.parametrize("service", ["nova", "neutron"])
@pytest.mark.parametrize("lie", each(MISREAD))
def test_false_answer_leads_to_unknown_or_the_truth(lied: Lied, service: str, lie: str) -> None:
    """Nothing that exists is reported absent; an unknown state is raised, and ends with the false answer."""
    with lied.liar.lying(lie, service, seconds=0.1) as rule:
        for resource in lied.of(service):
            try:
                seen = lied.look(resource.key)
            except OutsideError as error:
                assert isinstance(error, UnknownError), f"{resource.key}: {error!r} isn't temporary"
                assert 0 <= error.delay <= 600
                continue
            assert seen.there and seen.id == lied.ids[resource.key], f"{resource.key}: {seen}"
        assert lied.liar.lies_sent(rule) > 0
    for resource in lied.of(service):
        assert lied.look(resource.key).differences == ()


@pytest.mark.parametrize("service", ["nova", "neutron"])
@pytest.mark.parametrize("lie", ["empty_list200", "hidden_rows"])
def test_rows_hidden_from_a_listing_are_read_one_by_one(lied: Lied, service: str, lie: str) -> None:
    """Whatever else the listing has; if the resource by its id is a proxy's 404, it is unknown."""
    hidden = lied.liar.tell(lie, service, path=r"/[a-z-]+(/detail)?\?", rows=lied.scope.owner.id[:8])
    try:
        for resource in lied.of(service):
            assert lied.look(resource.key).id == lied.ids[resource.key]
        for page in ("notfound404_html", "notfound404_forged", "notfound404_json", "notfound404_empty"):
            for resource in lied.of(service):
                with lied.liar.lying(page, service, path=lied.ids[resource.key]) as rule:
                    with pytest.raises(UnknownError):
                        lied.look(resource.key)
                    assert lied.liar.lies_sent(rule) > 0
    finally:
        lied.liar.lift(hidden)


@pytest.mark.parametrize("service", ["nova", "neutron"])
@pytest.mark.parametrize("lie", each([*PAGES, "unauthorized401", "accepted202", "no_content204", "reset"]))
def test_falsely_reported_removal_is_not_believed(lied: Lied, service: str, lie: str) -> None:
    """DELETE is answered by a proxy, and the resource is still found."""
    with lied.liar.lying(lie, service, method="DELETE") as rule:
        for resource in lied.of(service):
            lied.driver.delete(lied.scope, [resource], lied.ids)
            assert lied.look(resource.key).there
        assert lied.liar.lies_sent(rule) > 0


@pytest.mark.parametrize("service", ["keystone", "nova", "neutron"])
@pytest.mark.parametrize(
    "lie", each([*PAGES, "empty_array200", "no_content204", "unauthorized401", "nowhere"])
)
def test_false_first_answer_is_asked_again(lied: Lied, service: str, lie: str) -> None:
    """For signing in, the catalog and version documents: nothing of the false answer is remembered."""
    sessions = Sessions("weft", [lied.clouds])
    driver = OpenStackDriver("lab", sessions)
    keys = ("server", "port")
    try:
        with lied.liar.lying(lie, service) as rule:
            for key in keys:
                try:
                    assert driver.find(lied.scope, [lied.things[key]], lied.ids)[key].there
                except OutsideError as error:
                    assert isinstance(error, TemporaryError), f"{error!r} isn't temporary"
            assert lied.liar.lies_sent(rule) > 0
        for key in keys:
            wait_for(lambda k=key: _seen(driver, lied, k), 30, pause=0.3)
    finally:
        driver.close()
        sessions.close()


@pytest.mark.parametrize("service", ["nova", "neutron"])
def test_token_expiring_under_a_false_keystone_is_recovered(lied: Lied, service: str) -> None:
    """401 from the service, then a page instead of a new token: unknown, and temporary."""
    for lie in PAGES:
        resource = lied.of(service)[0]
        with (
            lied.liar.lying("unauthorized401", service, times=1),
            lied.liar.lying(lie, "keystone") as rule,
        ):
            with pytest.raises(UnknownError):
                lied.look(resource.key)
            assert lied.liar.lies_sent(rule) > 0
        assert lied.look(resource.key).there


@pytest.mark.parametrize("service", ["nova", "neutron"])
@pytest.mark.parametrize("lie", each([*PAGES, "empty_object200", "empty_list200", "null_list200", "cut"]))
def test_audit_through_false_answers_finds_nothing_or_the_truth(lied: Lied, service: str, lie: str) -> None:
    """All resources with the site's mark, or the audit fails as unknown."""
    true = {t.id for t in lied.driver.marked(lied.scope.site, [])}
    assert true >= set(lied.ids.values())
    with lied.liar.lying(lie, service):
        try:
            seen = {t.id for t in lied.driver.marked(lied.scope.site, [])}
        except OutsideError as error:
            assert isinstance(error, UnknownError)
        else:
            assert seen == true
