"""Sections of the agents in `weft.toml`: their keys, types and meanings are those of the agents' own models."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, Union, cast, get_args, get_origin

from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python

from weft.config.resolve import in_order, secret_path, unknown_key, unknown_names
from weft.config.secretfiles import HIDDEN, credential, readable_by_others, secret_text
from weft.config.tomltext import TomlFile
from weft.model.base import Document
from weft.model.errors import InputError, InputErrors
from weft.model.errortable import Shown

D = TypeVar("D", bound=Document)
SECRET: dict[str, Any] = {"secret": True}
"""`json_schema_extra` of a secret field, which is a whole number; `FIELD_file` or a credential may hold it instead."""
_WORDS = {str: "text", int: "whole number", float: "number", bool: "true or false", Path: "path"}


@dataclass(frozen=True, slots=True)
class AgentSetting:
    """A key of an agent's section.

    Attributes:
        path: within the section.
        what: kind of its value.
        default: None: there is none; `required`: it must be given.
        example: a value for the example file.
        secret: the value is never shown; `KEY_file` or a credential of systemd may have it.
    """

    path: tuple[str, ...]
    what: str
    meaning: str
    default: Any
    required: bool
    secret: bool
    example: Any = None

    @property
    def key(self) -> str:
        """Dotted."""
        return ".".join(self.path)


def settings_of(kind: type[Document], required: bool = True) -> Iterator[AgentSetting]:
    """The settings of a section, in the model's order."""
    for name, info in kind.model_fields.items():
        needed = required and info.is_required()
        inner = info.annotation
        if isinstance(inner, type) and issubclass(inner, Document):
            for one in settings_of(inner, needed):
                yield replace(one, path=(name, *one.path))
        else:
            default = None if info.is_required() else info.get_default(call_default_factory=True)
            meaning = (info.description or "").rstrip(".")
            example = info.examples[0] if info.examples else default
            yield AgentSetting((name,), _what(inner), meaning, default, needed, _is_secret(info), example)


def read_section(file: TomlFile, section: str, kind: type[D], environment: Mapping[str, str]) -> D:
    """An agent's settings. Raises `InputErrors` with every fault of the section, by file and line."""
    content = file.values.get(section)
    faults = list(unknown_names(file))
    if content is None:
        faults.append(
            InputError(f"[{section}]", None, "the section with the agent's settings", str(file.path))
        )
    if not isinstance(content, dict):
        raise InputErrors(in_order(faults))
    document = _copied(cast(dict[str, Any], content))
    secrets = [one for one in settings_of(kind) if one.secret]
    for one in secrets:
        try:
            _put_secret(document, one, file, section, environment)
        except InputError as error:
            faults.append(error)
    try:
        made = kind.model_validate(document)
    except ValidationError as error:
        faults += faults_of(error, kind, section, lambda path: file.where(section, *path))
        raise InputErrors(in_order(faults)) from None
    if faults:
        raise InputErrors(in_order(faults))
    return made


def shown_section(
    file: TomlFile, section: str, kind: type[Document], environment: Mapping[str, str]
) -> Iterator[tuple[str, str | None, str]]:
    """Key, value and source (`FILE:LINE`, `credential NAME` or `default`) of each setting; `***` for a secret.

    Raises `InputErrors`.
    """
    made = read_section(file, section, kind, environment)
    for one in settings_of(kind):
        value: Any = made
        for name in one.path:
            value = getattr(value, name)
        places = [one.path, (*one.path[:-1], f"{one.path[-1]}_file")]
        found = next((p for p in places if _has(file.values[section], p)), None)
        if found is not None:
            source = file.where(section, *found)
        elif one.secret and credential(one.path[-1], environment) is not None:
            source = f"credential {one.path[-1]}"
        else:
            source = "default"
        hidden = one.secret and source != "default"
        yield f"{section}.{one.key}", "***" if hidden else _text(value), source


def _has(table: Any, path: tuple[str, ...]) -> bool:
    for name in path:
        if not isinstance(table, dict) or name not in table:
            return False
        table = cast(dict[str, Any], table)[name]
    return True


def _text(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    plain = to_jsonable_python(value)
    return plain if isinstance(plain, str) else json.dumps(plain)


def _put_secret(
    document: dict[str, Any],
    one: AgentSetting,
    file: TomlFile,
    section: str,
    environment: Mapping[str, str],
) -> None:
    """Put the number from `KEY_file` or from a credential into the document. A number in `weft.toml` itself needs a
    file that only weft can read.
    """
    *outer, key = one.path
    table: Any = document
    for name in outer:
        table = table.get(name, {}) if isinstance(table, dict) else {}
    if not isinstance(table, dict):
        return  # the model's validation reports it
    table = cast(dict[str, Any], table)
    field, where = f"{section}.{one.key}", file.where(section, *one.path)
    if f"{key}_file" in table:
        field, where = f"{field}_file", file.where(section, *outer, f"{key}_file")
        named = table.pop(f"{key}_file")
        if key in table:
            raise InputError(field, HIDDEN, f"either {key} or {key}_file, not both", where)
        path = secret_path(named, field, where, file)
        text = secret_text(path, field, where)
        if why := readable_by_others(path):
            raise InputError(field, str(path), why, where)
    elif key in table:
        if table[key] != one.default and (why := readable_by_others(file.path)):
            raise InputError(
                field, HIDDEN, f"without a secret, or {why}; {key}_file names a file of its own", where
            )
        return
    elif (path := credential(key, environment)) is not None:
        text = secret_text(path, f"credential {key}", None)
    else:
        return
    for name in outer:
        document = document.setdefault(name, {})
    document[key] = _number(text, field, where)


def _number(text: str, field: str, where: str) -> int:
    try:
        if len(text) > 40:
            raise ValueError
        return int(text, 0)
    except ValueError:
        raise InputError(field, Shown("its content"), "a whole number, such as 0x1a2b", where) from None


def faults_of(
    error: ValidationError, kind: type[Document], section: str, where: Callable[[tuple[str, ...]], str]
) -> Iterator[InputError]:
    """A fault for each wrong field of an agent's settings. None shows a secret; pydantic's own messages would.

    Args:
        section: before the field's name; empty: the file is an agent's own, in YAML.
        where: path of a field -> file, and line if that is known.
    """
    hidden = {one.path for one in settings_of(kind) if one.secret}
    for one in error.errors(include_url=False):
        path = tuple(str(part) for part in one["loc"])
        field = ".".join(filter(None, (section, *path))) or "(file)"
        value: Any = one.get("input")
        if one["type"] == "missing":
            yield InputError(field, None, _meaning(kind, path), where(path))
        elif one["type"] == "extra_forbidden":
            yield unknown_key(field, path[-1], _keys(kind, path[:-1], bool(section)), where(path))
        else:
            allowed = str(one["msg"]).removeprefix("Value error, ").removeprefix("Input should be ")
            unsaid = path in hidden or isinstance(value, dict | list) or value is None
            yield InputError(field, HIDDEN if unsaid else value, allowed, where(path))


def _meaning(kind: type[Document], path: tuple[str, ...]) -> str:
    found = next((one for one in settings_of(kind) if one.path == path), None)
    return f"{found.what}: {found.meaning}" if found else f"a table with {', '.join(_keys(kind, path))}"


def _keys(kind: type[Document], path: tuple[str, ...], files: bool = False) -> list[str]:
    """Keys of a table. Args: files: whether to include the keys that name a secret's file."""
    length = len(path)
    found = [
        name
        for one in settings_of(kind)
        if one.path[:length] == path and len(one.path) > length
        for name in (one.path[length], *((f"{one.path[-1]}_file",) if one.secret and files else ()))
    ]
    return list(dict.fromkeys(found))


def _is_secret(info: FieldInfo) -> bool:
    return isinstance(info.json_schema_extra, dict) and bool(info.json_schema_extra.get("secret"))


def _copied(table: dict[str, Any]) -> dict[str, Any]:
    return {
        name: _copied(cast(dict[str, Any], value)) if isinstance(value, dict) else value
        for name, value in table.items()
    }


def _what(annotation: Any) -> str:
    """The kind of an annotation, in a word or two."""
    origin = get_origin(annotation)
    if origin in (Union, UnionType):
        return _what(next(a for a in get_args(annotation) if a is not type(None)))
    if origin is tuple:
        return "list of text"
    if origin is dict:
        return "tables"
    return _WORDS.get(annotation, "text")
