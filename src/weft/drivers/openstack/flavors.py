"""Flavors that the site describes. Nova has no owner of a flavor: weft's mark is its description.

One that weft has made says so in an extra spec, and is deleted in the end. One that was adopted keeps in another the
values that weft has overwritten, and has them again in the end. Nova ignores extra specs of scopes unknown to it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from weft.drivers.openstack.base import Call, Fence, Fields, KindDriver, Row, outcomes_of
from weft.drivers.openstack.nova import compute_control
from weft.drivers.openstack.properties import with_keys
from weft.drivers.openstack.service import Json
from weft.drivers.openstack.session import Project
from weft.model.errors import PermanentError
from weft.model.mark import Mark
from weft.model.resources import Difference, Kind, Observed, Outcome, Resource, Status
from weft.model.specs import FlavorSpec

MADE, BEFORE, DESCRIPTION = "weft:made", "weft:before", "weft:description"
"""Extra specs of weft's own: it made the flavor; values that were there before; the description that was."""
MOST = 255
"""Characters of an extra spec's value, in Nova's schema."""
KEYS = "extra_specs"


class Flavors(KindDriver):
    kind = Kind.FLAVOR
    threads = "compute"
    updatable = frozenset({"mark", KEYS})

    def project(self, call: Call) -> Project:
        return call.own

    def rows(self, call: Call, wanted: Sequence[Resource]) -> list[Row]:
        return self._listed(call.own)

    def all_rows(self, own: Project) -> list[Row]:
        return [row for row in self._listed(own) if row.mark is not None]

    def one_row(self, project: Project, thing_id: str) -> Row | None:
        asked = f"read flavor {thing_id}"
        raw = project.compute.item_or_absent(asked, f"/flavors/{thing_id}", "flavor", thing_id)
        return None if raw is None else _row(raw)

    def control(self, call: Call) -> str:
        return compute_control(call.own)

    def wanted(self, call: Call, resource: Resource) -> Fields:
        spec = _spec(resource)
        return {"vcpus": spec.vcpus, "ram": spec.ram, "disk": spec.disk}

    def seen(self, call: Call, row: Row) -> Fields:
        return {name: row.raw[name] for name in ("vcpus", "ram", "disk")}

    def observe(self, call: Call, resource: Resource, row: Row) -> Observed:
        there, seen = _specs(row), super().observe(call, resource, row)
        if row.mark is not None and not there.keys() & {MADE, BEFORE}:
            # Whoever made it died before saying so: it would stay in the end, as if it had been there before.
            unsaid = Difference(field=KEYS, wanted=f"{MADE}=yes", observed=f"{MADE}=none")
            seen = replace(seen, differences=(*seen.differences, unsaid))
        return with_keys(seen, KEYS, _spec(resource), there, _had(there))

    def status(self, row: Row) -> tuple[Status, str]:
        return Status.SETTLED, ""

    def facts(self, row: Row) -> dict[str, object]:
        return {}

    def create(self, call: Call, wanted: Sequence[Resource]) -> dict[str, Outcome]:
        def one(resource: Resource) -> str:
            spec, name = _spec(resource), resource.name
            size = {"name": name, "vcpus": spec.vcpus, "ram": spec.ram, "disk": spec.disk}
            body = {"flavor": {**size, "description": call.text(resource.key)}}
            answer = call.own.compute.ask(f"create flavor {name}", "POST", "/flavors", json=body)
            made = call.own.compute.part(f"create flavor {name}", answer, "flavor", reading=False)
            self._set(call.own, made["id"], name, {**spec.extra_specs, MADE: "yes"})
            return str(made["id"])

        return outcomes_of(call, wanted, one)

    def repair(self, call: Call, resource: Resource, row: Row, fields: frozenset[str]) -> None:
        spec, there = _spec(resource), _specs(row)
        marks: dict[str, str] = {}
        if row.mark is None:  # adopted: what it had is written down before anything else
            had = {k: there[k] for k in spec.extra_specs if k in there and there[k] != spec.extra_specs[k]}
            marks = {BEFORE: json.dumps(had), DESCRIPTION: row.raw.get("description") or " "}
            for key, value in marks.items():
                if len(value) > MOST:
                    what = f"{key} would have {len(value)} characters, and Nova takes {MOST}"
                    raise PermanentError(f"adopt flavor {row.name}", "Nova", what, "shorten what it has")
            self._set(call.own, row.id, row.name, marks)
        elif BEFORE not in there:
            marks = {MADE: "yes"}
        if KEYS in fields or marks:
            self._set(call.own, row.id, row.name, {**spec.extra_specs, **marks})
            self._unset(call.own, row, [k for k in spec.former if k in there], _had(there))
        if "mark" in fields:
            self._describe(call.own, row, call.text(resource.key))

    def let_go(self, call: Call, resource: Resource, row: Row) -> None:
        """Deletes one that weft has made; another has its own values again."""
        spec, there = _spec(resource), _specs(row)
        if there.get(MADE):
            self.remove(call.own, row, call.scope.fence)
            return
        # Without a record of what it had, by somebody's hand, it stays as it is.
        keys = [k for k in (*spec.extra_specs, *spec.former) if k in there and BEFORE in there]
        self._unset(call.own, row, keys, _had(there))
        self._describe(call.own, row, there.get(DESCRIPTION, "").strip() or None)
        self._unset(call.own, row, [k for k in (BEFORE, DESCRIPTION) if k in there], {})

    def kept(self, call: Call, row: Row) -> str:
        return "it was there before, and has the extra specs that it had"

    def remove(self, project: Project, row: Row, fence: Fence) -> None:
        project.compute.ask(f"delete flavor {row.name}", "DELETE", f"/flavors/{row.id}", ok=(404,))

    def _listed(self, own: Project) -> list[Row]:
        return [_row(raw) for raw in own.compute.listing("list flavors", "/flavors/detail", "flavors")]

    def _set(self, own: Project, flavor: str, name: str, specs: Mapping[str, str]) -> None:
        body, path = {"extra_specs": dict(specs)}, f"/flavors/{flavor}/os-extra_specs"
        own.compute.ask(f"set extra specs of flavor {name}", "POST", path, json=body)

    def _unset(self, own: Project, row: Row, keys: Sequence[str], had: Mapping[str, str]) -> None:
        """Keys have the values that they had, or are gone."""
        if back := {k: had[k] for k in keys if k in had}:
            self._set(own, row.id, row.name, back)
        for key in (k for k in keys if k not in had):
            path = f"/flavors/{row.id}/os-extra_specs/{key}"
            own.compute.ask(f"remove {key} of flavor {row.name}", "DELETE", path, ok=(404,))

    def _describe(self, own: Project, row: Row, text: str | None) -> None:
        body = {"flavor": {"description": text}}
        own.compute.ask(f"describe flavor {row.name}", "PUT", f"/flavors/{row.id}", json=body)


def _row(raw: Json) -> Row:
    mark = Mark.parse(raw.get("description") or "")
    return Row(raw["id"], raw["name"], mark, None, "", raw)


def _spec(resource: Resource) -> FlavorSpec:
    assert isinstance(resource.spec, FlavorSpec)
    return resource.spec


def _specs(row: Row) -> dict[str, str]:
    return {str(k): str(v) for k, v in (row.raw.get("extra_specs") or {}).items()}


def _had(there: Mapping[str, str]) -> dict[str, str]:
    return dict(json.loads(there.get(BEFORE) or "{}"))
