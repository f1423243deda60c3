"""An order as a form: fields for what most orders have, over the YAML of the whole order, which stays the truth."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

import yaml
from yaml.emitter import Emitter
from yaml.representer import SafeRepresenter
from yaml.resolver import BaseResolver
from yaml.serializer import Serializer

from weft.app.yamltext import read_yaml
from weft.model.errors import InputError
from weft.model.offer import FieldsOffer, LeaseOffer, NeighboursOffer, Offer
from weft.model.order import Order
from weft.model.storageorder import MOST_ENTRIES

MOST_PARTS = 5_000
_LOADER: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
NAME = "order"
"""Name of the text in errors."""


@dataclass(frozen=True, slots=True)
class FormField:
    """A field of the form.

    Attributes:
        path: in the order, with dots.
        choices: of a select; empty: a text.
        longest: characters of the text.
        many: it is a list of texts, separated by commas or spaces.
        offered: by which of the cloud's lists; empty: none.
    """

    path: str
    label: str
    hint: str = ""
    choices: tuple[str, ...] = ()
    longest: int = 255
    many: bool = False
    offered: str = ""

    @property
    def key(self) -> str:
        """The field's id in the page."""
        return self.path.replace(".", "-")


FIELDS = (
    FormField("name", "Name", "unique in the project"),
    FormField("nodes.count", "Nodes", "a number"),
    FormField("nodes.flavor", "Flavor", "of Nova", offered="flavors"),
    FormField("nodes.image", "Image", "of Glance", offered="images"),
    FormField("access.key_pair", "Key pair", "of Nova, yours"),
    FormField("access.ssh_key", "or SSH key", "instead of a key pair: its public line", longest=4000),
    FormField("access.floating_ip", "Floating IPs", "", ("", "first", "each", "none")),
    FormField("access.ssh_from", "SSH from", "networks such as 192.0.2.0/24", longest=4000, many=True),
    FormField("locality.required", "All within one", "", ("", "leaf", "block", "hall", "building", "site")),
    FormField("lease.duration", "Lease", "such as 12h; empty: no end"),
    FormField("queue", "Wait if there is no capacity", "", ("", "true")),
    FormField("verify", "Test of its bandwidth", "which you run", ("", "bandwidth", "nothing")),
    FormField("on_failure", "When a node fails", "", ("", "report", "replace")),
    FormField("on_drain", "At a drain's time", "", ("", "release")),
)
STORAGE_KINDS = ("share", "volume", "export", "scratch")
STORAGE = (
    FormField("kind", "Kind", "", ("", *STORAGE_KINDS)),
    FormField("name", "Name", "in the pod; of an export: in the site; scratch: nvme"),
    FormField("mount", "Mount", "a directory such as /data"),
    FormField("size", "Size", "of new ones, such as 500GiB"),
    FormField("type", "Type", "of Manila or Cinder; empty: the site's"),
    FormField("existing", "Existing", "instead of a size: ids or names, separated by commas"),
    FormField("keep", "Keep after the release", "", ("", "true")),
    FormField("read_only", "Read only", "", ("", "true")),
)
"""Fields of one entry of `storage`; in the form their names begin with `storage.N.`."""
EXAMPLE = "name: train\nnodes:\n  count: 2\n  flavor: ''\n  image: ''\n"


class _PlainDumper(Emitter, Serializer, SafeRepresenter, BaseResolver):
    """Writes text plain, as weft reads it: every plain scalar is text (`weft.app.yamltext`)."""

    def __init__(self, stream: Any, **given: Any) -> None:
        Emitter.__init__(self, stream, width=110, allow_unicode=True)
        Serializer.__init__(self)
        SafeRepresenter.__init__(self, default_flow_style=False, sort_keys=False)
        BaseResolver.__init__(self)

    def ignore_aliases(self, data: object) -> bool:
        return True


def _text(dumper: SafeRepresenter, data: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", data, style="|" if "\n" in data else None)


_PlainDumper.add_representer(str, _text)


def written(document: Mapping[str, Any]) -> str:
    """YAML of an order."""
    return str(yaml.dump(dict(document), Dumper=cast(Any, _PlainDumper)))


def read(text: str) -> dict[str, Any]:
    """The document in a text. Raises `InputErrors`."""
    _check_size(text)
    return read_yaml(text, NAME)[0]


def _check_size(text: str) -> None:
    """Raise `InputError` for more values than the API takes, and for aliases, which multiply them."""
    with suppress(yaml.YAMLError):  # reported when it is read
        for number, event in enumerate(yaml.parse(text, Loader=_LOADER)):
            if number > MOST_PARTS:
                raise InputError(NAME, "…", f"YAML with at most {MOST_PARTS} parts")
            if isinstance(event, yaml.AliasEvent):
                raise InputError(NAME, f"*{event.anchor}", "YAML without aliases, in the console")


def values(document: Mapping[str, Any]) -> dict[str, str]:
    """The form's fields of a document; empty for a value that the form can't show."""
    return {field.path: _shown(document, field) or "" for field in FIELDS}


def _shown(document: Mapping[str, Any], field: FormField) -> str | None:
    """The text of a field; None: its value is left to the YAML."""
    value: object = document
    for part in field.path.split("."):
        if value is not None and not isinstance(value, Mapping):
            return None
        value = cast(Mapping[str, object], value or {}).get(part)
    if field.many and isinstance(value, list):
        texts = cast(list[object], value)
        return ", ".join(map(str, texts)) if all(isinstance(one, str) for one in texts) else None
    return value if isinstance(value, str) else "" if value is None else None


def document_of(order: Order) -> dict[str, Any]:
    """What an order has that isn't a default, as weft's YAML has it: all values are text."""
    return cast(dict[str, Any], _texts(order.model_dump(mode="json", exclude_defaults=True)))


def storage_rows(document: Mapping[str, Any]) -> list[dict[str, str]]:
    """The form's fields of each entry of `storage`, and of a further one that is empty, if one may be added.

    Empty if the text has anything else there than a list of such entries: it is left to the YAML then.
    """
    entries: object = document.get("storage") or []
    if not isinstance(entries, list):
        return []
    rows: list[dict[str, str]] = []
    for entry in cast(list[object], entries):
        row = _storage_row(cast(dict[str, object], entry)) if isinstance(entry, dict) else None
        if row is None:
            return []
        rows.append(row)
    return [*rows, dict.fromkeys((one.path for one in STORAGE), "")][:MOST_ENTRIES]


def _storage_row(entry: Mapping[str, object]) -> dict[str, str] | None:
    """The form's fields of one entry; None if the form can't show it."""
    kinds = [kind for kind in STORAGE_KINDS if kind in entry]
    rest = dict(entry)
    if len(kinds) > 1:
        return None
    row = {"kind": "".join(kinds), "name": rest.pop(kinds[0] if kinds else "name", "")}
    existing = rest.pop("existing", "")
    if isinstance(existing, list):
        names = cast(list[object], existing)
        if not all(isinstance(one, str) and "," not in one for one in names):
            return None
        existing = ", ".join(cast(list[str], names))
    row["existing"] = existing
    row |= {one.path: rest.pop(one.path, "") for one in STORAGE if one.path not in row}
    if rest or not all(isinstance(value, str) for value in row.values()):
        return None
    return cast(dict[str, str], row)


def _storage_of(form: Mapping[str, str], before: list[dict[str, str]]) -> list[dict[str, Any]]:
    """The entries of the form's rows. One whose kind was removed is left out; one that has no kind yet is kept, so that
    the order's check refuses it.

    Args:
        before: the rows that the form was made of.
    """
    entries: list[dict[str, Any]] = []
    for number in range(MOST_ENTRIES):
        row = {one.path: form.get(f"storage.{number}.{one.path}", "").strip() for one in STORAGE}
        if not any(row.values()) or (not row["kind"] and number < len(before) and before[number]["kind"]):
            continue
        kind, name, existing = row.pop("kind"), row.pop("name"), row.pop("existing")
        named = {kind: name} if kind else {"name": name} if name else {}
        entry: dict[str, Any] = named | {key: value for key, value in row.items() if value}
        if names := [one.strip() for one in existing.split(",") if one.strip()]:
            entry["existing"] = names
        entries.append(entry)
    return entries


def filled(document: Mapping[str, Any], form: Mapping[str, str]) -> dict[str, Any]:
    """The document with the form's fields; those that are empty go, those that the form doesn't have, or can't show,
    stay.
    """
    made = cast(dict[str, Any], _copy(document))
    for field in FIELDS:
        text = form.get(field.path, "").strip()
        if text or (field.path in form and _shown(document, field) is not None):
            _put(made, field.path, (text.replace(",", " ").split() if field.many else text) or None)
    if "storage.0.kind" in form:
        _put(made, "storage", _storage_of(form, storage_rows(document)) or None)
    return made


def applicable(offer: Offer) -> bool:
    """Whether an offer is a change of the order's own fields."""
    return isinstance(offer, FieldsOffer | NeighboursOffer | LeaseOffer)


def applied(document: Mapping[str, Any], offer: Offer) -> str:
    """The YAML of the order with an offer's changes."""
    made = cast(dict[str, Any], _copy(document))
    for change in offer.changes if isinstance(offer, FieldsOffer | NeighboursOffer | LeaseOffer) else ():
        value: Any = change.becomes
        if isinstance(value, datetime):
            value = value.isoformat()
        _put(made, change.field, _texts(value))
    return written(made)


def _texts(value: Any) -> Any:
    """Numbers and truth as weft's YAML has them: text."""
    match value:
        case None | str():
            return value
        case bool():
            return "true" if value else "false"
        case Mapping():
            return {str(k): _texts(v) for k, v in cast(Mapping[object, Any], value).items()}
        case list() | tuple():
            return [_texts(one) for one in cast(list[Any], value)]
        case _:
            return str(value)


def _put(document: dict[str, Any], path: str, value: object) -> None:
    *above, last = path.split(".")
    inner = document
    for part in above:
        if not isinstance(inner.get(part), dict):
            if value is None:
                return
            inner[part] = {}
        inner = inner[part]
    if value is None:
        inner.pop(last, None)
    else:
        inner[last] = value
    if not inner and above:
        _put(document, ".".join(above), None)


def _copy(value: object) -> object:
    if isinstance(value, dict):
        return {key: _copy(one) for key, one in cast(dict[str, object], value).items()}
    return [_copy(one) for one in cast(list[object], value)] if isinstance(value, list) else value
