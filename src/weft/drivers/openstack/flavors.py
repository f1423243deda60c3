"""Flavors that the site describes. Nova has no owner of a flavor: weft's mark is its description.

A flavor that weft created says so in an extra spec, and is deleted in the end. An adopted one keeps the
values that weft overwrote in further extra specs, and gets them back in the end. Nova ignores extra specs of
unknown scopes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from weft.drivers.openstack.base import Call, Fence, Fields, KindDriver, ListedResource, outcomes_of
from weft.drivers.openstack.nova import compute_control
from weft.drivers.openstack.properties import (
    VERSION,
    Note,
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
from weft.model.errors import PermanentError
from weft.model.mark import Mark
from weft.model.resources import Difference, Kind, Observed, Outcome, Resource
from weft.model.specs import FlavorSpec
from weft.ports.fences import unfenced

MADE, BEFORE, DESCRIPTION = "weft:made", "weft:before", "weft:description"
"""weft's own extra specs: that it created the flavor; former values, continued in `weft:before:2` and so on;
the former description."""
NOTED = "weft:note"
"""Extra spec with the version of that note."""
MOST = 255
"""Characters of an extra spec's value, in Nova's schema."""
KEYS = "extra_specs"
_PART = re.compile(f"{BEFORE}(:[1-9][0-9]{{0,3}})?")


class Flavors(KindDriver):
    """Flavors of pods and their extra specs."""

    kind = Kind.FLAVOR
    threads = "compute"
    updatable = frozenset({"mark", KEYS})
    by_own_project = True

    def rows(self, call: Call, wanted: Sequence[Resource]) -> list[ListedResource]:
        return self._listed(call.own)

    def all_rows(self, own: Project) -> list[ListedResource]:
        return [row for row in self._listed(own) if row.mark is not None]

    def one_row(self, project: Project, thing_id: str) -> ListedResource | None:
        asked = f"read flavor {thing_id}"
        raw = project.compute.item_or_absent(asked, f"/flavors/{thing_id}", "flavor", thing_id)
        return None if raw is None else _row(raw)

    def control(self, call: Call) -> str:
        return compute_control(call.own)

    def wanted(self, call: Call, resource: Resource) -> Fields:
        spec = resource.spec_as(FlavorSpec)
        return {"vcpus": spec.vcpus, "ram": spec.ram, "disk": spec.disk}

    def seen(self, call: Call, row: ListedResource) -> Fields:
        return {name: row.raw[name] for name in ("vcpus", "ram", "disk")}

    def observe(self, call: Call, resource: Resource, row: ListedResource) -> Observed:
        there, seen = _specs(row), super().observe(call, resource, row)
        if row.mark is not None and _origin(there) is None:
            # The process that created it died before recording that: it would stay in the end, as if it had
            # existed before.
            unsaid = Difference(field=KEYS, wanted=f"{MADE}=yes", observed=f"{MADE}=none")
            seen = replace(seen, differences=(*seen.differences, unsaid))
        spec = resource.spec_as(FlavorSpec)
        return with_keys(seen, KEYS, spec, there, _note(there, spec))

    def create(self, call: Call, wanted: Sequence[Resource]) -> dict[str, Outcome]:
        def one(resource: Resource) -> str:
            spec, name = resource.spec_as(FlavorSpec), resource.name
            size = {"name": name, "vcpus": spec.vcpus, "ram": spec.ram, "disk": spec.disk}
            body = {"flavor": {**size, "description": call.text(resource.key)}}
            answer = call.own.compute.ask(f"create flavor {name}", "POST", "/flavors", json=body)
            made = call.own.compute.part(f"create flavor {name}", answer, "flavor", reading=False)
            self._set(call.own, made["id"], name, {**spec.extra_specs, MADE: "yes"})
            return str(made["id"])

        return outcomes_of(call, wanted, one)

    def repair(self, call: Call, resource: Resource, row: ListedResource, fields: frozenset[str]) -> None:
        spec, there = resource.spec_as(FlavorSpec), _specs(row)
        marks: dict[str, str] = {}
        if _origin(there) == BEFORE or (row.mark is None and MADE not in there):
            if row.mark is not None and BEFORE not in there:
                raise note_lost(f"set extra specs of flavor {row.name}", "Nova", BEFORE)
            # Adopted: its former values are recorded before anything else, and more of them before a further
            # key is set.
            if added := _to_write_down(row, spec):
                self._set(call.own, row.id, row.name, added)
            there |= added
        elif MADE not in there:
            marks = {MADE: "yes"}
        if KEYS in fields or marks or row.mark is None:
            self._set(call.own, row.id, row.name, {**spec.extra_specs, **marks})
            note = _note(there, spec)
            self._restore(call.own, row, {k: note[k] for k in spec.former if k in note and k in there})
        if "mark" in fields:
            self._describe(call.own, row, call.text(resource.key))

    def let_go(self, call: Call, resource: Resource, row: ListedResource) -> None:
        self._end(call.own, row, resource.spec_as(FlavorSpec))

    def remove_left(self, project: Project, row: ListedResource) -> None:
        self._end(project, row)

    def _end(self, own: Project, row: ListedResource, spec: FlavorSpec | None = None) -> None:
        """Delete one that weft created; otherwise restore its own values, and only then remove what is
        weft's."""
        there, asked = _specs(row), f"restore flavor {row.name}"
        # A marked flavor that says neither was created, too: adoption writes its note before the mark.
        if there.get(MADE) or (row.mark is not None and _origin(there) is None):
            self.remove(own, row, unfenced)
            return
        if BEFORE not in there:
            raise note_lost(asked, "Nova", BEFORE)
        if spec is None and _is_old(there):
            raise note_incomplete(asked, "Nova", BEFORE)
        note = _note(there, spec)
        self._restore(own, row, {k: v for k, v in note.items() if there.get(k) != v})
        seen = self.one_row(own, row.id)
        if seen is None:
            return
        check_given_back(asked, "Nova", note, _specs(seen))
        if row.mark is not None or DESCRIPTION in there:
            self._describe(own, row, there.get(DESCRIPTION, "").strip() or None)
        # The note's first part goes last: while it exists, this is repeated.
        notes = [k for k in (DESCRIPTION, NOTED, *reversed(_parts(there))) if k in there]
        self._restore(own, row, dict.fromkeys(notes))

    def is_given_back(self, row: ListedResource) -> bool:
        return _origin(_specs(row)) is None

    def kept(self, call: Call, row: ListedResource) -> str:
        return "it was there before, and has the extra specs that it had"

    def remove(self, project: Project, row: ListedResource, fence: Fence) -> None:
        project.compute.ask(f"delete flavor {row.name}", "DELETE", f"/flavors/{row.id}", ok=(404,))

    def _listed(self, own: Project) -> list[ListedResource]:
        return [_row(raw) for raw in own.compute.listing("list flavors", "/flavors/detail", "flavors")]

    def _set(self, own: Project, flavor: str, name: str, specs: Mapping[str, str]) -> None:
        body, path = {"extra_specs": dict(specs)}, f"/flavors/{flavor}/os-extra_specs"
        own.compute.ask(f"set extra specs of flavor {name}", "POST", path, json=body)

    def _restore(self, own: Project, row: ListedResource, had: Note) -> None:
        """Restore the former values of keys; remove keys that had none."""
        if back := {k: v for k, v in had.items() if v is not None}:
            self._set(own, row.id, row.name, back)
        for key in (k for k, v in had.items() if v is None):
            path = f"/flavors/{row.id}/os-extra_specs/{key}"
            own.compute.ask(f"remove {key} of flavor {row.name}", "DELETE", path, ok=(404,))

    def _describe(self, own: Project, row: ListedResource, text: str | None) -> None:
        body = {"flavor": {"description": text}}
        own.compute.ask(f"describe flavor {row.name}", "PUT", f"/flavors/{row.id}", json=body)


def _row(raw: Json) -> ListedResource:
    mark = Mark.parse(raw.get("description") or "")
    return ListedResource(raw["id"], raw["name"], mark, None, "", raw)


def _specs(row: ListedResource) -> dict[str, str]:
    return {str(k): str(v) for k, v in (row.raw.get("extra_specs") or {}).items()}


def _origin(there: Mapping[str, str]) -> str | None:
    """Whether weft created or adopted a flavor, `MADE` or `BEFORE`; None if it doesn't say."""
    if MADE in there:
        return MADE
    return BEFORE if _parts(there) or there.keys() & {DESCRIPTION, NOTED} else None


def _parts(there: Mapping[str, str]) -> list[str]:
    """Extra specs that hold the note, in order."""
    return sorted((k for k in there if _PART.fullmatch(k)), key=_number)


def _number(part: str) -> int:
    return int(part.removeprefix(BEFORE).removeprefix(":") or 1)


def _note(there: Mapping[str, str], spec: FlavorSpec | None = None) -> dict[str, str | None]:
    """The values from before weft; none for a flavor that weft created. Raises `ValueError`."""
    if MADE in there:
        return dict.fromkeys((*spec.keys, *spec.former) if spec else ())
    note = {k: v for part in reversed(_parts(there)) for k, v in read_note(there[part]).items()}
    return completed(note, spec) if spec and _is_old(there) else note


def _is_old(there: Mapping[str, str]) -> bool:
    """Whether the note is of a version before 2. If weft's description is gone, everything was restored already."""
    return BEFORE in there and DESCRIPTION in there and NOTED not in there


def _to_write_down(row: ListedResource, spec: FlavorSpec) -> dict[str, str]:
    """Extra specs that record the former values of what the site sets and that aren't recorded yet; the
    note's last part is filled first. Raises `PermanentError` for a value that doesn't fit.
    """
    there = _specs(row)
    added = {} if DESCRIPTION in there else {DESCRIPTION: row.raw.get("description") or " "}
    if BEFORE not in there:
        added[BEFORE] = "{}"
    if NOTED not in there:
        added[NOTED] = VERSION
    last = (_parts(there) or [BEFORE])[-1]
    text = read_note(there.get(last, "{}"))
    noted, note = _note(there), _note(there, spec)
    news = {key: value for key, value in note.items() if key not in noted}
    for key, value in {**news, **to_note(note, spec.keys, there)}.items():
        if text and len(json.dumps({**text, key: value})) > MOST:
            last, text = f"{BEFORE}:{_number(last) + 1}", {}
        text[key] = value
        added[last] = json.dumps(text)
    for key, value in added.items():
        if len(value) > MOST:
            what = f"{key} would have {len(value)} characters, and Nova takes {MOST}"
            raise PermanentError(f"adopt flavor {row.name}", "Nova", what, "shorten what it has")
    return added
