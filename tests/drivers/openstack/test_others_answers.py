"""Answers about something else than was asked for, as from a confused cache, prove nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.drivers.openstack.test_absence import IDS, NETWORK, SCOPE, SERVER
from tests.drivers.openstack.tinycloud import PROJECT, Reply, TinyCloud, tiny_cloud
from weft.drivers.openstack import OpenStackDriver, OpenStackFacts, Sessions
from weft.drivers.openstack.lookups import Lookups
from weft.model.errors import UnknownError
from weft.model.ordernames import OrderNames
from weft.model.resources import Resource, Status
from weft.ports.occupants import Ended

OTHER = "5f0c4a4e-0000-4000-8000-000000000002"
IMAGE = "5f0c4a4e-0000-4000-8000-000000000003"
BUILD, END = "_do_build_and_run_instance", "terminate_instance"


@dataclass(frozen=True)
class Rig:
    cloud: TinyCloud
    driver: OpenStackDriver
    facts: OpenStackFacts
    sessions: Sessions


@pytest.fixture
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with tiny_cloud() as (cloud, text):
        file = tmp_path_factory.mktemp("tiny") / "clouds.yaml"
        file.write_text(text)
        sessions = Sessions("weft", [file])
        driver = OpenStackDriver("lab", sessions)
        yield Rig(cloud, driver, OpenStackFacts(sessions), sessions)
        driver.close()
        sessions.close()


@pytest.mark.parametrize("shown", ["another", "in capitals", "none"])
@pytest.mark.parametrize("wanted", [NETWORK, SERVER], ids=["network", "server"])
def test_answer_about_another_resource_does_not_prove_absence(rig: Rig, wanted: Resource, shown: str) -> None:
    """No listing has it, and the GET by its id shows another resource instead of a 404."""
    own = IDS[wanted.key]
    id_ = {"another": OTHER, "in capitals": own.upper(), "none": None}[shown]
    row = {"id": id_, "name": "x", "description": "", "project_id": PROJECT, "created_at": ""}
    server = {**row, "tenant_id": PROJECT, "created": "", "status": "ACTIVE", "flavor": {}}
    path = f"/compute/servers/{own}" if wanted is SERVER else f"/network/networks/{own}"
    body = {"server": server} if wanted is SERVER else {"network": row}
    rig.cloud.lies = [(f"GET {path}", Reply(200, body))]
    with pytest.raises(UnknownError, match="another"):
        rig.driver.find(SCOPE, [wanted], IDS)
    with pytest.raises(UnknownError, match="another"):
        rig.driver.delete(SCOPE, [wanted], IDS)
    assert not [line for line in rig.cloud.asked if line.startswith("DELETE")]


@pytest.mark.parametrize("where", ["listing", "action"])
def test_record_of_another_server_does_not_prove_an_end(rig: Rig, where: str) -> None:
    """The other server was destroyed, this one never was."""
    server = IDS[SERVER.key]
    rig.cloud.act(server, "create", (BUILD, "a", "Success"))
    rig.cloud.act(OTHER, "create", (BUILD, "a", "Success"))
    rig.cloud.act(OTHER, "delete", (END, "a", "Success"))
    assert rig.facts.endings(PROJECT, [server])[server].how is Ended.NOT_DESTROYED
    path = f"/compute/servers/{server}/os-instance-actions"
    others = rig.cloud.actions[OTHER]
    if where == "listing":
        rig.cloud.actions[server] = others
    else:
        lie = Reply(200, {"instanceAction": others[1]})
        rig.cloud.lies = [(f"GET {path}/req-{server}-0", lie)]
    assert rig.facts.endings(PROJECT, [server])[server].how is Ended.UNKNOWN


def test_creation_time_without_a_zone_is_utc_and_another_one_unknown(rig: Rig) -> None:
    """Servers made since a request are found by comparison with the database's time."""
    row: dict[str, object] = {"id": OTHER, "name": "x", "tenant_id": PROJECT}
    row["created"] = "2026-11-30T10:00:00.123456"
    rig.cloud.things["servers"] = [row]
    [made] = rig.facts.made_by(PROJECT, [OTHER]).values()
    assert made.isoformat() == "2026-11-30T10:00:00.123456+00:00"
    for other in (None, "", "yesterday", 7):
        row["created"] = other
        with pytest.raises(UnknownError):
            rig.facts.made_by(PROJECT, [OTHER])


EVACUATED = ("_do_build_and_run_instance", "a"), ("rebuild_instance", "b"), ("terminate_instance", "b")


@pytest.mark.parametrize("events", [[], {}, "", [{"event": None, "result": "Success"}]], ids=str)
def test_record_without_the_build_does_not_prove_an_end(rig: Rig, events: object) -> None:
    """Of an evacuated server's record the last host is left, which removed it; where it was built, it may still run."""
    server = IDS[SERVER.key]
    for action, (name, host) in zip(("create", "evacuate", "delete"), EVACUATED, strict=True):
        rig.cloud.act(server, action, (name, host, "Success"))
    assert rig.facts.endings(PROJECT, [server])[server].how is Ended.LEFT_BEHIND
    rig.cloud.actions[server][0]["events"] = [] if events == [] else rig.cloud.actions[server][0]["events"]
    if events != []:
        path = f"/compute/servers/{server}/os-instance-actions/req-{server}-0"
        lie = {**rig.cloud.actions[server][0], "events": events}
        rig.cloud.lies = [(f"GET {path}", Reply(200, {"instanceAction": lie}))]
    assert rig.facts.endings(PROJECT, [server])[server].how is Ended.UNKNOWN


@pytest.mark.parametrize("status", ["UNKNOWN", "active", "RESIZED", "", None])
def test_status_that_nova_does_not_have_is_not_judged(rig: Rig, status: str | None) -> None:
    """It is neither a difference for a person to resolve nor the end of a boot."""
    row = {"id": IDS[SERVER.key], "name": SERVER.name, "description": SCOPE.mark(SERVER.key).text()}
    more = {"tenant_id": PROJECT, "created": "", "flavor": {}, "OS-EXT-SRV-ATTR:host": "gpu01"}
    rig.cloud.things["servers"] = [{**row, **more, "status": status}]
    seen = rig.driver.find(SCOPE, [SERVER], IDS)[SERVER.key]
    assert seen.status is Status.PENDING and not seen.differences


def test_image_shown_instead_of_another_is_not_booted(rig: Rig) -> None:
    """The order names an image by id, and Glance's answer is about another."""
    rig.cloud.lies = [
        (f"GET /image/images/{OTHER}", Reply(200, {"id": IMAGE, "status": "active", "name": "x"}))
    ]
    with pytest.raises(UnknownError, match=f"image {IMAGE} instead"):
        Lookups().image(rig.sessions.project(PROJECT), OTHER)


@pytest.mark.parametrize("listed", [[], [{"id": OTHER, "name": "team-b"}]], ids=["none", "others"])
def test_list_of_projects_without_wefts_own_is_not_whole(rig: Rig, listed: list[object]) -> None:
    """The audit lists shares and volumes project by project, and would miss those of a missing project."""
    rig.cloud.served = {OTHER}
    assert set(rig.facts.projects()) == {PROJECT, OTHER}
    rig.cloud.lies = [("GET /v3/auth/projects", Reply(200, {"projects": listed}))]
    with pytest.raises(UnknownError, match="the token's own"):
        rig.facts.projects()


def test_names_for_orders_are_those_that_the_project_may_use(rig: Rig) -> None:
    """From the project's own lists, each name once; asked again, they come from memory."""
    flavors = [{"name": "gpu8", "id": "1"}, {"name": "gpu1", "id": "2"}]
    images = [{"name": "tiny", "status": "active"}, {"name": "tiny", "status": "active"}, {"name": None}]
    rig.cloud.lies = [
        ("GET /compute/flavors", Reply(200, {"flavors": flavors})),
        ("GET /image/images", Reply(200, {"images": images})),
    ]
    names, project = Lookups(), rig.sessions.project(PROJECT)
    assert names.names(project) == OrderNames(flavors=("gpu1", "gpu8"), images=("tiny",))
    rig.cloud.lies = []
    assert names.names(project).images == ("tiny",)
