"""Properties of images that the site describes. The images belong to others, and exist before and after.
weft's mark is a property, too, and contains the image's id: Nova copies an image's properties to snapshots of
its servers, and a copy must not count as a mark. Overwritten values are kept in another property, and
restored in the end.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from weft.drivers.openstack.base import Call, Fence, KindDriver, ListedResource, outcomes_of
from weft.drivers.openstack.properties import (
    VERSION,
    check_given_back,
    completed,
    note_incomplete,
    note_lost,
    read_note,
    to_note,
    with_keys,
)
from weft.drivers.openstack.service import Json
from weft.drivers.openstack.session import Project
from weft.model.errors import PermanentError, UnknownError
from weft.model.mark import Mark
from weft.model.messages import outside
from weft.model.resources import Kind, Observed, Outcome, Resource
from weft.model.specs import ImagePropertiesSpec

MARK, BEFORE, NOTED = "weft_mark", "weft_before", "weft_note"
"""Properties of weft's: its mark; a note with the image's former values; the version of that note."""
KEYS = "properties"
PATCH = {"Content-Type": "application/openstack-images-v2.1-json-patch"}


class Images(KindDriver):
    """Properties that weft sets on images which exist already."""

    kind = Kind.IMAGE_PROPERTIES
    threads = "image"
    updatable = frozenset({"mark", KEYS})
    by_own_project = True

    def rows(self, call: Call, wanted: Sequence[Resource]) -> list[ListedResource]:
        """Images with properties of weft's; the others aren't weft's yet."""
        return [row for row in self._listed(call.own) if row.mark is not None]

    def all_rows(self, own: Project) -> list[ListedResource]:
        return [row for row in self._listed(own) if row.mark is not None]

    def one_row(self, project: Project, thing_id: str) -> ListedResource | None:
        image = image_or_absent(project, thing_id)
        return None if image is None else _row(image)

    def control(self, call: Call) -> str:
        """Any image: those of the site are never deleted by weft."""
        asked = "see an image"
        answer = call.own.image.ask(asked, "GET", "/images", params={"limit": 1})
        rows = call.own.image.rows(asked, answer, "images")
        if not rows:
            raise call.own.image.unseen("see an image", "none is listed")
        return f"image {rows[0]['id']} was seen with the same token"

    def observe(self, call: Call, resource: Resource, row: ListedResource) -> Observed:
        observed, spec = super().observe(call, resource, row), resource.spec_as(ImagePropertiesSpec)
        return with_keys(observed, KEYS, spec, _texts(row.raw), _note(row.raw, spec))

    def create(self, call: Call, wanted: Sequence[Resource]) -> dict[str, Outcome]:
        return outcomes_of(call, wanted, lambda resource: self._begin(call, resource))

    def _begin(self, call: Call, resource: Resource) -> str:
        name, own = resource.name, call.own.network.signed_in_project()
        found = [i for i in images_named(call.own, name) if i.get("owner") == own]
        if len(found) != 1:
            what = f"project {own} has {len(found) or 'no'} active image{'s' if found else ''} of that name"
            then = "upload it there, once, or correct the site"
            raise PermanentError(f"set properties of image {name}", "Glance", what, then)
        self._write(call, resource, _row(found[0]))
        return str(found[0]["id"])

    def repair(self, call: Call, resource: Resource, row: ListedResource, fields: frozenset[str]) -> None:
        self._write(call, resource, row)

    def _write(self, call: Call, resource: Resource, row: ListedResource) -> None:
        """Set all properties in one request: Glance applies a patch as a whole or not at all."""
        spec, there = resource.spec_as(ImagePropertiesSpec), _texts(row.raw)
        if row.mark is not None and BEFORE not in there:
            raise note_lost(f"set properties of image {row.name}", "Glance", BEFORE)
        note = _note(row.raw, spec)
        note |= to_note(note, spec.properties, there)
        news: dict[str, str | None] = {**{k: note[k] for k in spec.former if k in note}, **spec.properties}
        news |= {MARK: _mark_text(row.id, call.text(resource.key)), BEFORE: json.dumps(note)}
        news[NOTED] = VERSION
        self._patch(call.own, row, news)

    def let_go(self, call: Call, resource: Resource, row: ListedResource) -> None:
        self._end(call.own, row, resource.spec_as(ImagePropertiesSpec))

    def is_given_back(self, row: ListedResource) -> bool:
        return BEFORE not in _texts(row.raw)

    def kept(self, call: Call, row: ListedResource) -> str:
        return "the image is others', and has the properties that it had"

    def remove(self, project: Project, row: ListedResource, fence: Fence) -> None:
        self._end(project, row)

    def _end(self, project: Project, row: ListedResource, spec: ImagePropertiesSpec | None = None) -> None:
        """Restore all recorded values; once that is observed, remove weft's own properties."""
        asked = f"restore image {row.name}"
        if BEFORE not in _texts(row.raw):
            raise note_lost(asked, "Glance", BEFORE)
        if spec is None and _is_old(row.raw):
            raise note_incomplete(asked, "Glance", BEFORE)
        note = _note(row.raw, spec)
        self._patch(project, row, note)
        seen = image_or_absent(project, row.id)
        if seen is None:
            return
        check_given_back(asked, "Glance", note, _texts(seen))
        self._patch(project, _row(seen), {MARK: None, BEFORE: None, NOTED: None})

    def _patch(self, own: Project, row: ListedResource, news: Mapping[str, str | None]) -> None:
        there, body = _texts(row.raw), list[dict[str, Any]]()
        for key, value in news.items():
            if value is None and key in there:
                body.append({"op": "remove", "path": f"/{key}"})
            elif value is not None and there.get(key) != value:
                body.append({"op": "replace" if key in there else "add", "path": f"/{key}", "value": value})
        if body:
            asked = f"set properties of image {row.name}"
            own.image.ask(asked, "PATCH", f"/images/{row.id}", json=body, headers=PATCH)

    def _listed(self, own: Project) -> list[ListedResource]:
        return [_row(raw) for raw in own.image.listing("list images", "/images", "images")]


def image_or_absent(project: Project, image: str) -> Json | None:
    """An image by its id; None if the project can't read it, or it is gone. Raises `UnknownError`."""
    asked = f"read image {image}"
    answer = project.image.ask(asked, "GET", f"/images/{image}", ok=(404,))
    if answer.status == 404:
        if image in answer.text and answer.request_id:
            return None
        raise project.image.error(asked, answer, reading=True)
    if answer.body.get("id") != image:
        raise UnknownError(
            asked, "Glance", outside.ODD_ANSWER(what="an answer without this image", answer=answer.sentence())
        )
    return dict(answer.body)


def images_named(own: Project, name: str) -> list[Json]:
    """Active images with exactly this name that weft's user sees."""
    rows = own.image.listing(f"find image {name}", "/images", "images", {"name": name, "status": "active"})
    return [row for row in rows if row["name"] == name]


def _mark_text(image: str, mark: str) -> str:
    return f"{image} {mark}"


def _row(raw: Json) -> ListedResource:
    image, _, text = str(raw.get(MARK) or "").partition(" ")
    mark = Mark.parse(text) if image == raw["id"] else None
    return ListedResource(
        raw["id"], raw.get("name") or "", mark, raw.get("owner"), raw.get("created_at") or "", raw
    )


def _texts(raw: Json) -> dict[str, str]:
    """An image's properties; fields of Glance that aren't strings are left out."""
    return {k: v for k, v in raw.items() if isinstance(v, str)}


def _note(raw: Json, spec: ImagePropertiesSpec | None = None) -> dict[str, str | None]:
    """The image's values from before weft; a note that was copied from another image doesn't count. Raises
    `ValueError`."""
    image, _, _ = str(raw.get(MARK) or "").partition(" ")
    if image not in ("", raw["id"]):
        return {}
    note = read_note(str(raw.get(BEFORE) or "{}"))
    return completed(note, spec) if spec and _is_old(raw) else note


def _is_old(raw: Json) -> bool:
    """Whether the note is of a version before 2."""
    return BEFORE in raw and NOTED not in raw
