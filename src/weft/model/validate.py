"""From a document of a pydantic model to the value, or to one clear `InputError` for each wrong field."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from weft.model.errors import InputError, InputErrors

Location = tuple[int | str, ...]
_M = TypeVar("_M", bound=BaseModel)

_ABSENT = "give it, it is required"
_UNKNOWN = "there is no such field"


def parse(
    model: type[_M], data: object, name: str = "body", where: Callable[[Location], str | None] | None = None
) -> _M:
    """Validate `data`.

    Args:
        name: what the whole document is called when it isn't even an object.
        where: file and line of a location (path of keys and indexes), if it came from a file.

    Raises `InputErrors` with the errors in the order that pydantic found them.
    """
    refuse_nul(data, where)
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise input_errors(error.errors(include_url=False), name, where) from None


def input_errors(
    errors: Iterable[Mapping[str, Any]],
    name: str = "body",
    where: Callable[[Location], str | None] | None = None,
) -> InputErrors:
    """pydantic's `errors()` as `InputErrors`: field, value, and what is allowed as the end of a sentence."""
    return InputErrors([_one(error, name, where) for error in errors])


def dotted(location: Location) -> str:
    """`('hcas', 3, 'guid')` as `hcas[3].guid`."""
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def refuse_nul(data: object, where: Callable[[Location], str | None] | None = None) -> None:
    """Raise `InputError` for a NUL character in any text: neither the database nor the cloud can hold one."""
    todo: list[tuple[Location, object]] = [((), data)]
    while todo:
        location, value = todo.pop()
        if isinstance(value, str) and "\0" in value:
            place = where(location) if where else None
            raise InputError(dotted(location) or "body", value, "leave out the NUL character", place)
        if isinstance(value, dict):
            todo += [((*location, str(key)), key) for key in value if isinstance(key, str) and "\0" in key]
            todo += [((*location, str(key)), item) for key, item in value.items()]
        elif isinstance(value, list):
            todo += [((*location, index), item) for index, item in enumerate(value)]


def _one(
    error: Mapping[str, Any], name: str, where: Callable[[Location], str | None] | None
) -> InputError:
    location: Location = tuple(error["loc"])
    kind = str(error["type"])
    value = error.get("input")
    if kind == "missing":
        value, allowed = None, _ABSENT
    elif kind == "extra_forbidden":
        allowed = _UNKNOWN
    else:
        allowed = str(error["msg"]).removeprefix("Value error, ")
        allowed = allowed[:1].lower() + allowed[1:] if not allowed[:2].isupper() else allowed
    return InputError(dotted(location) or name, value, allowed, where(location) if where else None)
