"""Versions of stored documents: older ones are read in the current shape, newer ones are refused."""

from __future__ import annotations

from typing import Any

import pytest

from weft.model.base import Document, added
from weft.model.versions import NewerVersionError, Step, downcast, newest, upcast


class Leg(Document):
    name: str


class Chair(Document):
    legs: tuple[Leg, ...]
    seat: Leg | None = None


class Room(Document):
    chair: Chair


PARTS = {Room: ((("chair",), Chair),), Chair: ((("legs", "*"), Leg), (("seat",), Leg))}


def louder(leg: dict[str, Any]) -> dict[str, Any]:
    return {**leg, "name": leg["name"].upper()}


def longer(leg: dict[str, Any]) -> dict[str, Any]:
    return {**leg, "name": leg["name"] + "!"}


def split(chair: dict[str, Any]) -> dict[str, Any]:
    """An upcaster that removes items from the document it gets."""
    legs = chair.pop("leg_names")
    return {**chair, "legs": [{"name": name} for name in legs]}


STEPS = (
    Step("legs are documents", {Chair: split}),
    Step("legs are loud", {Leg: louder}),
    Step("legs are long", {Leg: longer}),
)


def test_document_passes_all_later_steps() -> None:
    """In order, nested documents too; a document without version has version 1."""
    assert upcast(Leg, {"name": "a"}, STEPS, PARTS) == {"name": "A!"}
    assert upcast(Leg, {"name": "a", "version": 3}, STEPS, PARTS) == {"name": "a!"}
    assert upcast(Leg, {"name": "a", "version": 4}, STEPS, PARTS) == {"name": "a"}
    first = {"chair": {"leg_names": ["a", "b"]}}
    assert upcast(Room, first, STEPS, PARTS) == {"chair": {"legs": [{"name": "A!"}, {"name": "B!"}]}}
    assert Room.model_validate(upcast(Room, first, STEPS, PARTS)).chair.legs[1].name == "B!"


def test_stored_document_is_not_changed() -> None:
    """Reading the same dictionary twice gives the same document."""
    stored = {"chair": {"legs": [{"name": "a"}], "seat": None}, "version": 2}
    once = upcast(Room, stored, STEPS, PARTS)
    assert stored == {"chair": {"legs": [{"name": "a"}], "seat": None}, "version": 2}
    assert upcast(Room, stored, STEPS, PARTS) == once == {"chair": {"legs": [{"name": "A!"}], "seat": None}}
    named = {"leg_names": ["a"]}
    upcast(Chair, named, STEPS, PARTS)
    assert named == {"leg_names": ["a"]}


def test_missing_part_is_skipped() -> None:
    """A part with a default gets the default."""
    assert upcast(Chair, {"legs": [], "version": 2}, STEPS, PARTS) == {"legs": []}
    assert upcast(Room, {"version": 2}, STEPS, PARTS) == {}


def test_newer_version_is_refused() -> None:
    """So is an invalid version."""
    assert newest(STEPS) == 4
    with pytest.raises(
        NewerVersionError, match="version 5 was written by a newer weft, this one reads up to 4"
    ):
        upcast(Leg, {"name": "a", "version": 5}, STEPS, PARTS)
    for wrong in (0, -1, "2", 1.0, True, None):
        with pytest.raises(ValueError, match="not a version of a document"):
            upcast(Leg, {"name": "a", "version": wrong}, STEPS, PARTS)


def joined(chair: dict[str, Any]) -> dict[str, Any]:
    """The downcaster for `split`."""
    return {**chair, "leg_names": [leg["name"] for leg in chair.pop("legs")]}


def softer(leg: dict[str, Any]) -> dict[str, Any]:
    return {**leg, "name": leg["name"].lower()}


def test_document_is_written_for_an_earlier_version_and_read_again() -> None:
    """Nested documents too, outer ones first, because the newer version defines where inner ones are."""
    steps = (Step("split", {Chair: split}, {Chair: joined}), Step("loud", {Leg: louder}, {Leg: softer}))
    now = {"chair": {"legs": [{"name": "A"}, {"name": "B"}], "seat": {"name": "C"}}}
    for version, names in ((3, None), (2, ["a", "b"]), (1, ["a", "b"])):
        document, reached = downcast(Room, now, steps, PARTS, version)
        assert reached == version and upcast(Room, {**document, "version": reached}, steps, PARTS) == now
        chair = document["chair"]
        assert names is None or (chair.get("leg_names") or [leg["name"] for leg in chair["legs"]]) == names
    assert now["chair"]["legs"][0]["name"] == "A", "the given document isn't changed"


def test_document_is_written_down_to_the_version_without_a_downcaster() -> None:
    """The previous version of weft leaves such a document alone."""
    steps = (Step("loud", {Leg: louder}, {Leg: softer}), Step("long", {Leg: longer}))
    assert downcast(Leg, {"name": "A!"}, steps, PARTS, 1) == ({"name": "A!"}, 3)


def test_added_field_is_written_only_with_a_value_of_its_own() -> None:
    class Table(Document):
        name: str
        color: str = added("", description="Of its wood.")

    assert Table(name="a").model_dump(mode="json") == {"name": "a"} == Table(name="a", color="").model_dump()
    assert Table(name="a", color="red").model_dump_json() == '{"name":"a","color":"red"}'
    assert Table.model_validate({"name": "a"}).color == ""
