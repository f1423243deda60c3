"""Base of every document that is stored or sent."""

from __future__ import annotations

from functools import cache
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field


class Document(BaseModel):
    """A frozen value with a JSON Schema; unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True)

    @classmethod
    def trusted(cls, values: dict[str, Any]) -> Self:
        """A document of values that are known to be valid, with every field given: without validation, which costs more
        than some decisions. Indistinguishable from a validated one; the document takes over the dictionary.
        """
        document = _new(cls)
        _set_values(document, values)
        # Pydantic copies the set before changing it, so that all documents of a class can share it.
        _set_given(document, _fields(cls))
        _set_extra(document, None)
        _set_private(document, None)
        return document

    def forget_given(self) -> None:
        """Treat every field as given: the set of given ones is larger than most documents."""
        _set_given(self, _fields(type(self)))


def added(default: Any, **more: Any) -> Any:
    """A field that a stored document got later: at its default it isn't written, so that the previous version, which
    refuses unknown fields, reads what this one writes.

    Args:
        default: a frozen value; more: as for pydantic's `Field`.
    """
    return Field(default=default, exclude_if=lambda value: value == default, **more)


_new = object.__new__
# A document's own four slots, written directly: by name through `object.__setattr__` takes three times as long.
_set_values, _set_given, _set_extra, _set_private = (
    vars(BaseModel)[slot].__set__
    for slot in ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")
)


@cache
def _fields(cls: type[Document]) -> set[str]:
    return set(cls.model_fields)
