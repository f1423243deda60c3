"""Frozen dataclasses to plain JSON values and back, with errors that say where and what was expected."""

from __future__ import annotations

import dataclasses
import enum
import functools
import types
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

from openvipu.model.errors import StateError

T = TypeVar("T")


def encode(value: Any) -> Any:
    """``value`` as dicts, lists, strings, numbers and booleans."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: encode(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, tuple | list):
        return [encode(entry) for entry in value]
    return value


def decode(kind: type[T], value: Any, where: str) -> T:
    """``value`` as an instance of the dataclass ``kind``; StateError names ``where`` when it doesn't fit.

    Unknown and missing fields are errors, except that a field with a default may be missing: so a newer
    program reads an older file.
    """
    if not isinstance(value, Mapping):
        raise StateError(f"{where}: expected an object, found {_name(value)}")
    given = typing.cast("Mapping[str, Any]", value)
    hints = _hints(kind)
    unknown = sorted(set(given) - set(hints), key=str)
    if unknown:
        raise StateError(f"{where}: unknown field {str(unknown[0])!r}")
    arguments: dict[str, Any] = {}
    for field in dataclasses.fields(typing.cast("Any", kind)):
        if field.name in given:
            arguments[field.name] = _decode(hints[field.name], given[field.name], f"{where}.{field.name}")
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise StateError(f"{where}: field {field.name!r} is missing")
    return kind(**arguments)


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _decode(hint: Any, value: Any, where: str) -> Any:
    origin = typing.get_origin(hint)
    if origin is tuple:
        return _decode_tuple(typing.get_args(hint), value, where)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return decode(hint, value, where)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        try:
            return hint(value)
        except ValueError:
            allowed = ", ".join(str(entry.value) for entry in hint)
            raise StateError(f"{where}: {str(value)[:40]!r} is not one of {allowed}") from None
    expected = (int, float) if hint is float else (hint,)
    if isinstance(value, bool) is not (hint is bool) or not isinstance(value, expected):
        raise StateError(f"{where}: expected {_kind_name(hint)}, found {_name(value)}")
    return value


def _decode_tuple(arguments: tuple[Any, ...], value: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise StateError(f"{where}: expected a list, found {_name(value)}")
    entries = typing.cast("list[Any]", value)
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return tuple(_decode(arguments[0], entry, f"{where}[{i}]") for i, entry in enumerate(entries))
    if len(entries) != len(arguments):
        raise StateError(f"{where}: expected {len(arguments)} entries, found {len(entries)}")
    pairs = zip(arguments, entries, strict=True)
    return tuple(_decode(hint, entry, f"{where}[{i}]") for i, (hint, entry) in enumerate(pairs))


def _kind_name(hint: Any) -> str:
    names = {str: "a string", int: "a whole number", float: "a number", bool: "true or false"}
    return names.get(hint, str(hint))


def _name(value: Any) -> str:
    if value is None or isinstance(value, types.NoneType):
        return "null"
    return f"{type(value).__name__} {str(value)[:40]!r}"
