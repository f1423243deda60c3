"""Flavors and images that the site adopts get their previous values back, whatever happened meanwhile."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.drivers.openstack.tinycloud import PROJECT, Reply, TinyCloud, tiny_cloud
from weft.drivers.openstack import OpenStackDriver, Sessions
from weft.model.errors import PermanentError, TemporaryError
from weft.model.owner import Owner
from weft.model.resources import Resource, Status
from weft.model.specs import FlavorSpec, ImagePropertiesSpec
from weft.ports.resources import Scope

SCOPE = Scope("lab", Owner("site", "00000000-1111-2222-3333-444444444444"), "lab", "")
LEAVING = replace(SCOPE, leaving=True)
KEY, IMAGE = "flavor/lab/gpu8", "image/lab/tiny"
BUSY = Reply(503, {"error": {"message": "busy", "code": 503}})
Cloud = tuple[TinyCloud, OpenStackDriver]


class Keeping(TinyCloud):
    """Stores flavors' extra specs and descriptions; images accept a JSON patch."""

    def answer(self, method: str, path: str, query: dict[str, list[str]], seer: str, body: Any) -> Reply:
        _, service, collection, *rest = path.split("/")
        if method != "GET" and collection in ("flavors", "images") and rest:
            if any(pattern == f"{method} {path}" for pattern, _ in self.lies):
                return super().answer(method, path, query, seer, body)
            self.asked.append(f"{method} {path}")
            thing = next(t for t in self.things[collection] if t["id"] == rest[0])
            if method == "POST":
                thing["extra_specs"].update(body["extra_specs"])
            elif method == "DELETE" and len(rest) == 1:
                self.things[collection].remove(thing)
            elif method == "DELETE":
                thing["extra_specs"].pop(rest[-1], None)
            elif method == "PUT":
                thing["description"] = body["flavor"]["description"]
            else:
                for one in body:
                    name = one["path"].removeprefix("/")
                    if one["op"] == "remove":
                        del thing[name]
                    else:
                        thing[name] = one["value"]
            return Reply(200, thing if service == "image" else {"flavor": thing})
        if method == "GET" and service == "image" and rest:
            return Reply(200, next(t for t in self.things["images"] if t["id"] == rest[-1]))
        return super().answer(method, path, query, seer, body)


@pytest.fixture
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    with tiny_cloud(Keeping) as (tiny, text):
        file = tmp_path_factory.mktemp("tiny") / "clouds.yaml"
        file.write_text(text)
        sessions = Sessions("weft", [file])
        driver = OpenStackDriver("lab", sessions)
        yield tiny, driver
        driver.close()
        sessions.close()


def flavor(**specs: str) -> Resource:
    spec = FlavorSpec(vcpus=4, ram=4096, disk=1, extra_specs=specs)
    return Resource(key=KEY, name="gpu8", where="lab", owner="site", spec=spec)


def image(**properties: str) -> Resource:
    spec = ImagePropertiesSpec(properties=properties)
    return Resource(key=IMAGE, name="tiny", where="lab", owner="site", spec=spec)


DEDICATED = flavor(**{"hw:cpu_policy": "dedicated"})
LATER = flavor(**{"hw:cpu_policy": "dedicated", "hw:mem_page_size": "1GB", "hw:cpu_threads": "2"})


def theirs(tiny: TinyCloud, **more: str) -> dict[str, Any]:
    """A flavor that existed before weft."""
    specs = {"hw:cpu_policy": "shared", "hw:mem_page_size": "small", **more}
    row: dict[str, Any] = {
        "id": "f-1",
        "name": "gpu8",
        "vcpus": 4,
        "ram": 4096,
        "disk": 1,
        "extra_specs": specs,
    }
    row["description"] = "for the physicists"
    tiny.things["flavors"] = [row]
    return row


def updated(driver: OpenStackDriver, wanted: Resource) -> object:
    return driver.update(SCOPE, [wanted], {wanted.key: "f-1"})[wanted.key].error


def destroyed(driver: OpenStackDriver, wanted: Resource) -> object:
    return driver.delete(LEAVING, [wanted], {wanted.key: "f-1"})[wanted.key].error


def seen(driver: OpenStackDriver, wanted: Resource) -> Status:
    return driver.find(LEAVING, [wanted], {wanted.key: "f-1"})[wanted.key].status


@pytest.mark.parametrize(
    ("refused", "times"),
    [
        ("", 0),
        ("PUT /compute/flavors/f-1", 1),
        ("PUT /compute/flavors/f-1", 2),
        ("POST /compute/flavors/f-1/os-extra_specs", 1),
    ],
)
def test_flavor_values_are_restored_after_an_interrupted_adoption(
    cloud: Cloud, refused: str, times: int
) -> None:
    """Each visit starts from what the previous one set."""
    tiny, driver = cloud
    row = theirs(tiny, **{"hw:cpu_sockets": "2"})
    wanted = flavor(**{"hw:cpu_policy": "dedicated", "hw:cpu_threads": "2", "hw:cpu_sockets": "2"})
    before = json.dumps(row, sort_keys=True)
    tiny.lies = [(refused, BUSY)] if refused else []
    for _ in range(times):
        assert isinstance(updated(driver, wanted), TemporaryError)
    tiny.lies = []
    assert updated(driver, wanted) is None
    assert row["extra_specs"]["hw:cpu_policy"] == "dedicated"
    assert destroyed(driver, wanted) is None
    assert json.dumps(row, sort_keys=True) == before
    assert seen(driver, wanted) is Status.KEPT


def test_flavor_key_added_to_the_site_later_is_restored(cloud: Cloud) -> None:
    """When it is removed from the site file, and at the site's end; a key that didn't exist is removed."""
    tiny, driver = cloud
    row = theirs(tiny)
    before = dict(row["extra_specs"])
    assert updated(driver, DEDICATED) is None and updated(driver, LATER) is None
    assert row["extra_specs"]["hw:mem_page_size"] == "1GB"
    spec = DEDICATED.spec.model_copy(update={"former": ("hw:cpu_threads", "hw:mem_page_size", "never:set")})
    removed = DEDICATED.model_copy(update={"spec": spec})
    assert updated(driver, removed) is None
    assert {k: v for k, v in row["extra_specs"].items() if k.startswith("hw:")} == {
        **before,
        "hw:cpu_policy": "dedicated",
    }
    assert driver.find(SCOPE, [removed], {KEY: "f-1"})[KEY].differences == ()
    assert updated(driver, LATER) is None and destroyed(driver, LATER) is None
    assert row["extra_specs"] == before


def test_long_note_spans_several_extra_specs(cloud: Cloud) -> None:
    """Nova allows 255 characters each; what is noted already stays where it is."""
    tiny, driver = cloud
    row = theirs(tiny, **{f"hw:key{n}": "x" * 60 for n in range(9)})
    before = dict(row["extra_specs"])
    assert updated(driver, DEDICATED) is None
    first = json.loads(row["extra_specs"]["weft:before"])
    many = flavor(**dict.fromkeys(before, "set"))
    assert updated(driver, many) is None
    notes = {k: v for k, v in row["extra_specs"].items() if k.startswith("weft:before")}
    assert len(notes) > 2 and max(map(len, notes.values())) <= 255
    assert json.loads(notes["weft:before"]).items() >= first.items()
    assert destroyed(driver, many) is None and row["extra_specs"] == before


def test_adopted_flavor_without_its_note_is_not_reported_restored(cloud: Cloud) -> None:
    """Nor is it deleted as one that weft made."""
    tiny, driver = cloud
    row = theirs(tiny)
    assert updated(driver, DEDICATED) is None
    del row["extra_specs"]["weft:before"]
    assert isinstance(updated(driver, LATER), PermanentError)
    assert isinstance(destroyed(driver, DEDICATED), PermanentError)
    assert tiny.things["flavors"] == [row] and seen(driver, DEDICATED) is not Status.KEPT


@pytest.mark.parametrize(
    "refused", ["PUT /compute/flavors/f-1", "DELETE /compute/flavors/f-1/os-extra_specs/weft:before"]
)
def test_partly_restored_flavor_is_finished(cloud: Cloud, refused: str) -> None:
    """The receipt names it only when nothing of weft's is left on it."""
    tiny, driver = cloud
    row = theirs(tiny)
    before = json.dumps(row, sort_keys=True)
    assert updated(driver, DEDICATED) is None
    tiny.lies = [(refused, BUSY)]
    assert isinstance(destroyed(driver, DEDICATED), TemporaryError)
    assert seen(driver, DEDICATED) is not Status.KEPT
    tiny.lies = []
    assert destroyed(driver, DEDICATED) is None
    assert json.dumps(row, sort_keys=True) == before and seen(driver, DEDICATED) is Status.KEPT


def test_values_the_cloud_does_not_restore_are_not_signed(cloud: Cloud) -> None:
    """Nova answers 200 and doesn't change the flavor, so the note stays."""
    tiny, driver = cloud
    row = theirs(tiny)
    assert updated(driver, DEDICATED) is None
    tiny.lies = [("POST /compute/flavors/f-1/os-extra_specs", Reply(200, {"extra_specs": {}}))]
    assert isinstance(destroyed(driver, DEDICATED), TemporaryError)
    assert "weft:before" in row["extra_specs"] and seen(driver, DEDICATED) is not Status.KEPT


def test_audit_restores_adopted_flavor_and_image(cloud: Cloud) -> None:
    """Their owner isn't in the database any more; the notes have the previous values."""
    tiny, driver = cloud
    row, golden = theirs(tiny), golden_image(tiny)
    before = dict(row["extra_specs"]), dict(golden)
    assert updated(driver, DEDICATED) is None
    assert driver.create(SCOPE, [image(hw_disk_bus="virtio")], {})[IMAGE].error is None
    things = [t for t in driver.marked("lab", []) if t.owner == SCOPE.owner]
    outcomes = driver.remove_marked(things)
    assert len(outcomes) == 2 and all(o.error is None for o in outcomes.values())
    assert (row["extra_specs"], golden) == before and tiny.things["flavors"] == [row]


def golden_image(tiny: TinyCloud) -> dict[str, Any]:
    row: dict[str, Any] = {
        "id": "11111111-2222-3333-4444-555555555555",
        "name": "tiny",
        "owner": PROJECT,
        "status": "active",
        "hw_disk_bus": "scsi",
        "hw_machine_type": "pc",
    }
    tiny.things["images"] = [row]
    return row


def test_image_key_added_to_the_site_later_is_restored(cloud: Cloud) -> None:
    """Removing only the mark from outside doesn't make weft's values the image's own."""
    tiny, driver = cloud
    row = golden_image(tiny)
    before, ids = dict(row), {IMAGE: row["id"]}
    assert driver.create(SCOPE, [image(hw_disk_bus="virtio")], {})[IMAGE].error is None
    later = image(hw_disk_bus="virtio", hw_machine_type="q35", hw_new="1")
    assert driver.update(SCOPE, [later], ids)[IMAGE].error is None
    del row["weft_mark"]
    assert driver.update(SCOPE, [later], ids)[IMAGE].error is None
    assert json.loads(row["weft_before"]) == {"hw_disk_bus": "scsi", "hw_machine_type": "pc", "hw_new": None}
    assert driver.delete(LEAVING, [later], ids)[IMAGE].error is None
    assert row == before and driver.find(LEAVING, [later], ids)[IMAGE].status is Status.KEPT


def test_image_without_its_note_is_not_reported_restored(cloud: Cloud) -> None:
    """weft's own values must not be noted as the previous ones."""
    tiny, driver = cloud
    row = golden_image(tiny)
    wanted, ids = image(hw_disk_bus="virtio"), {IMAGE: row["id"]}
    assert driver.create(SCOPE, [wanted], {})[IMAGE].error is None
    del row["weft_before"]
    assert isinstance(driver.update(SCOPE, [image(hw_disk_bus="ide")], ids)[IMAGE].error, PermanentError)
    assert isinstance(driver.delete(LEAVING, [wanted], ids)[IMAGE].error, PermanentError)


def older(row: dict[str, Any], note: dict[str, str], name: str, version: str) -> None:
    """Change the row to what a weft before version 2 of notes left: only keys that had another value."""
    row[name] = json.dumps(note)
    row.pop(version)


@pytest.mark.parametrize("repaired", [False, True])
def test_flavor_with_an_older_wefts_note_keeps_none_of_wefts_keys(cloud: Cloud, repaired: bool) -> None:
    """At the site's end, and when the site no longer names them; with and without a repair in between."""
    tiny, driver = cloud
    row = theirs(tiny)
    before = dict(row["extra_specs"])
    assert updated(driver, LATER) is None
    noted = {"hw:cpu_policy": "shared", "hw:mem_page_size": "small"}
    older(row["extra_specs"], noted, "weft:before", "weft:note")
    spec = DEDICATED.spec.model_copy(update={"former": ("hw:cpu_threads", "hw:mem_page_size")})
    wanted = DEDICATED.model_copy(update={"spec": spec})
    assert driver.find(SCOPE, [wanted], {KEY: "f-1"})[KEY].differences
    if repaired:
        assert updated(driver, wanted) is None
        assert "hw:cpu_threads" not in row["extra_specs"]
        assert driver.find(SCOPE, [wanted], {KEY: "f-1"})[KEY].differences == ()
        row["extra_specs"]["hw:new"] = "theirs"
        assert updated(driver, flavor(**{"hw:cpu_policy": "dedicated", "hw:new": "ours"})) is None
        assert destroyed(driver, wanted) is None and row["extra_specs"].pop("hw:new") == "theirs"
    else:
        assert destroyed(driver, wanted) is None
    assert row["extra_specs"] == before and seen(driver, wanted) is Status.KEPT


@pytest.mark.parametrize("repaired", [False, True])
def test_image_with_an_older_wefts_note_keeps_none_of_wefts_keys(cloud: Cloud, repaired: bool) -> None:
    """At the site's end, with and without a repair in between."""
    tiny, driver = cloud
    row = golden_image(tiny)
    before, ids = dict(row), {IMAGE: row["id"]}
    wanted = image(hw_disk_bus="virtio", hw_new="1")
    assert driver.create(SCOPE, [wanted], {})[IMAGE].error is None
    older(row, {"hw_disk_bus": "scsi"}, "weft_before", "weft_note")
    if repaired:
        row["hw_new"] = "2"
        assert driver.update(SCOPE, [wanted], ids)[IMAGE].error is None and row["hw_new"] == "1"
    assert driver.delete(LEAVING, [wanted], ids)[IMAGE].error is None
    assert row == before and driver.find(LEAVING, [wanted], ids)[IMAGE].status is Status.KEPT


def test_audit_does_not_report_older_notes_as_restored(cloud: Cloud) -> None:
    """Only the site file had the keys that weft set."""
    tiny, driver = cloud
    row, golden = theirs(tiny), golden_image(tiny)
    assert updated(driver, LATER) is None
    assert driver.create(SCOPE, [image(hw_new="1")], {})[IMAGE].error is None
    older(row["extra_specs"], {"hw:cpu_policy": "shared"}, "weft:before", "weft:note")
    older(golden, {}, "weft_before", "weft_note")
    things = [t for t in driver.marked("lab", []) if t.owner == SCOPE.owner]
    outcomes = driver.remove_marked(things)
    assert len(outcomes) == 2 and all(isinstance(o.error, PermanentError) for o in outcomes.values())
    assert row["description"] != "for the physicists" and "weft_mark" in golden


@pytest.mark.parametrize("by_audit", [False, True])
def test_partly_created_flavor_is_deleted(cloud: Cloud, by_audit: bool) -> None:
    """weft was killed between its description and its extra specs. With any part of a note it stays."""
    tiny, driver = cloud
    row = theirs(tiny)
    assert updated(driver, DEDICATED) is None
    del row["extra_specs"]["weft:before"], row["extra_specs"]["weft:description"]
    assert isinstance(destroyed(driver, DEDICATED), PermanentError) and tiny.things["flavors"] == [row]
    row["extra_specs"] = {}
    if by_audit:
        things = [t for t in driver.marked("lab", []) if t.owner == SCOPE.owner]
        assert [o.error for o in driver.remove_marked(things).values()] == [None]
    else:
        assert destroyed(driver, DEDICATED) is None
    assert tiny.things["flavors"] == []
