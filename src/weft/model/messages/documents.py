"""Messages in documents: the sentence in its own field, with `code` and `params` beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, cast

from pydantic import ValidatorFunctionWrapHandler, WrapValidator, computed_field, model_validator

from weft.model.base import Document
from weft.model.messages.message import Message, message


def _kept(value: object, validate: ValidatorFunctionWrapHandler) -> str:
    return value if isinstance(value, Message) else validate(value)


Sentence = Annotated[str, WrapValidator(_kept)]
"""The type of a field that holds a message: text that keeps its code and values."""


class Coded(Document):
    """A document with a message in the field named by `sentence`."""

    sentence: ClassVar[str]

    @model_validator(mode="before")
    @classmethod
    def _joined(cls, given: Any) -> Any:
        """Join `code`, `params` and text from an API into one message again."""
        if not isinstance(given, Mapping) or "code" not in given:
            return given
        fields = dict(cast(Mapping[str, Any], given))
        code, params = fields.pop("code"), fields.pop("params", None)
        if code and isinstance(text := fields.get(cls.sentence), str):
            fields[cls.sentence] = Message.read({"code": code, "params": params, "message": text})
        return fields

    @computed_field(description="Code of the message (docs/problems); empty if it has none.")
    @property
    def code(self) -> str:
        """Code of the message; empty for plain text."""
        return message(getattr(self, self.sentence)).code

    @computed_field(description="The message's values.")
    @property
    def params(self) -> dict[str, Any]:
        """Values of the message, as JSON."""
        return message(getattr(self, self.sentence)).fields()


def coded(field: str, text: str) -> dict[str, Any]:
    """The fields of a `Coded` document for a message, as JSON."""
    one = message(text)
    return {field: str(one), "code": one.code, "params": one.fields()}
