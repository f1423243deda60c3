"""Messages: a code with typed values, and the sentences that operators and tenants read of it.

A message is a `str`, its text the operators' sentence, so that it can be logged and compared as any text. Formatting,
joining or cutting it makes plain text, which is shown to operators only. What a tenant reads is the second column of
the table, made from the values; a message without it, a value that isn't of its type and plain text are hidden.
oslo.i18n's `Message` is built the same way.
"""

from __future__ import annotations

import string
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self, cast

from weft.model.messages.values import Value

OPERATORS = "operators see why"


class Component(StrEnum):
    """The part of weft, or of what it drives, that a message comes from."""

    ORDER = "order"
    PLACEMENT = "placement"
    QUEUE = "queue"
    LEASE = "lease"
    POD = "pod"
    CLOUD = "cloud"
    FABRIC = "fabric"
    NETWORK = "network"
    STORAGE = "storage"
    RELEASE = "release"
    SITE = "site"
    SERVICE = "service"


class Message(str):
    """A sentence with its code and values.

    Attributes:
        code: stable name, the same in docs, API, CLI and alerts; empty: plain text.
        params: values by name, as JSON has them once they came from an API.
    """

    code: str
    params: Mapping[str, Any]
    _row: Code | None

    def __new__(cls, text: str, code: str = "", params: Mapping[str, Any] | None = None) -> Self:
        made = super().__new__(cls, text)
        made.code, made.params, made._row = code, params or {}, CODES.get(code)
        return made

    def __reduce__(self) -> tuple[type[Message], tuple[str, str, Mapping[str, Any]]]:
        return Message, (str(self), self.code, self.params)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def for_tenant(self) -> Message | None:
        """The message as a tenant may read it; None: not at all."""
        return self._row and self._row.for_tenant(self.params)

    def stored(self) -> object:
        """As the database has it: code and values, or plain text."""
        if self._row is None:
            return str(self)
        return {"code": self.code, "params": self._row.stored(self.params)}

    def fields(self) -> dict[str, Any]:
        """Values as an API gives them: nested messages with their own code, values and text."""
        return dict(self.params) if self._row is None else self._row.stored(self.params, texts=True)

    @classmethod
    def read(cls, given: object) -> Message:
        """A message from the database or an API.

        Args:
            given: plain text, or an object of `code`, `params` and, from an API, `message`: its text, which is kept.
                Of a code that this version doesn't know, the text alone is left.
        """
        if not isinstance(given, Mapping):
            return Message(str(given))
        fields = cast(Mapping[str, Any], given)
        name, text, values = str(fields.get("code") or ""), fields.get("message"), fields.get("params")
        params = cast(Mapping[str, Any], values) if isinstance(values, Mapping) else {}
        row = CODES.get(name) if values is None or isinstance(values, Mapping) else None
        try:
            if row is not None:
                known = row.read(params)
                return row(**known) if text is None else Message(str(text), name, known)
        except (TypeError, ValueError, KeyError, AttributeError):
            pass  # written by another version, with other values
        if text is not None:
            return Message(str(text))
        listed = ", ".join(f"{key}: {value}" for key, value in params.items())
        return Message(f"{name} ({listed})" if listed else name)


def message(text: str) -> Message:
    """Any text as a message; a message as it is."""
    return text if isinstance(text, Message) else Message(text)


def stored(text: str) -> object:
    """A reason or an event as the database has it."""
    return text.stored() if isinstance(text, Message) else text


def same(one: str, other: str) -> bool:
    """Whether two texts say the same, with the same code and values: what older versions wrote has neither."""
    return stored(one) == stored(other)


def for_tenant(text: str) -> Message | None:
    """What a tenant may read of a text; None: nothing."""
    return text.for_tenant() if isinstance(text, Message) else None


@dataclass(frozen=True)
class Nested(Value):
    """Another message, or plain text.

    Attributes:
        otherwise: what a tenant reads where it is hidden; empty: the sentence, or its optional part, is omitted.
    """

    otherwise: str = ""

    def valid(self, value: Any) -> bool:
        return isinstance(value, str)

    def shown(self, value: Any) -> Any | None:
        known = for_tenant(value) if isinstance(value, str) else None
        return known or (Message(self.otherwise) if self.otherwise else None)

    def stored(self, value: Any) -> Any:
        return stored(value)

    def read(self, stored: Any) -> Any:
        return Message.read(stored)


@dataclass(frozen=True)
class Several(Value):
    """Several messages, one clause each.

    Attributes:
        most: how many operators read in full; the others are counted. Tenants read all that they may.
        between: the separator.
    """

    most: int | None = None
    between: str = "; "

    def valid(self, value: Any) -> bool:
        return isinstance(value, list | tuple)

    def text(self, value: Any) -> str:
        texts = [str(one) for one in value]
        more = len(texts) - self.most if self.most is not None else 0
        return self.between.join(texts[: self.most]) + (f" (and {more} more)" if more > 0 else "")

    def shown(self, value: Any) -> Any | None:
        found = [for_tenant(one) for one in cast(Sequence[str], value)]
        known = list(dict.fromkeys(one for one in found if one is not None))
        if not known:
            return None
        return (
            (*known, Message(OPERATORS))
            if len([f for f in found if f is not None]) < len(found)
            else tuple(known)
        )

    def stored(self, value: Any) -> Any:
        return [stored(one) for one in value]

    def read(self, stored: Any) -> Any:
        return tuple(Message.read(one) for one in stored)


MESSAGE = Nested()
REASON = Nested(OPERATORS)
MESSAGES = Several()


@dataclass(frozen=True)
class _Gap:
    """A value in a sentence: `{name}`, `{name:one|many}` with its unit, `{name:=one|many}` as the word alone."""

    name: str
    forms: tuple[str, str] | None = None
    alone: bool = False


@dataclass(frozen=True)
class _Sentence:
    """A template: text, gaps, and optional parts in brackets, which are omitted if a gap in them has no value."""

    parts: tuple[str | _Gap | tuple[str | _Gap, ...], ...]

    @classmethod
    def of(cls, template: str) -> _Sentence:
        parts: list[str | _Gap | tuple[str | _Gap, ...]] = []
        for n, piece in enumerate(template.replace("]", "[").split("[")):
            (parts.append(tuple(_pieces(piece))) if n % 2 else parts.extend(_pieces(piece)))
        return cls(tuple(parts))

    @property
    def gaps(self) -> set[str]:
        flat = (p for part in self.parts for p in (part if isinstance(part, tuple) else (part,)))
        return {p.name for p in flat if isinstance(p, _Gap)}

    def filled(self, types: Mapping[str, Value], params: Mapping[str, Any]) -> str | None:
        """The text; None: a gap that isn't in an optional part has no value."""
        made: list[str] = []
        for part in self.parts:
            if not isinstance(part, tuple):
                if (text := _text(part, types, params, (None,))) is None:
                    return None
                made.append(text)
            elif None not in (texts := [_text(p, types, params, _EMPTY) for p in part]):
                made += cast(list[str], texts)
        return "".join(made)


def _pieces(template: str) -> Iterable[str | _Gap]:
    for literal, name, spec, _ in string.Formatter().parse(template):
        if literal:
            yield literal
        if name is not None:
            alone = bool(spec) and spec.startswith("=")
            one, bar, many = (spec or "").removeprefix("=").partition("|")
            yield _Gap(name, (one, many) if bar else None, alone)


_EMPTY: tuple[object, ...] = (None, "", (), [])


def _text(
    part: str | _Gap, types: Mapping[str, Value], params: Mapping[str, Any], missing: tuple[object, ...]
) -> str | None:
    if isinstance(part, str):
        return part
    value = params.get(part.name)
    if value in missing:
        return None
    if part.forms is None:
        return types[part.name].text(value)
    word = part.forms[0] if value == 1 else part.forms[1]
    return word if part.alone else f"{value} {word}"


@dataclass(frozen=True, eq=False)
class Code:
    """A row of the table; called with its values it makes a message.

    Attributes:
        name: the code.
        part: where such messages come from.
        operator: the operators' sentence.
        tenant: the tenants' sentence; True: the same; None: hidden from tenants.
        types: name of a value -> its type. Optional values may be None or empty.
        page: the page in `docs/problems/` that explains it.
    """

    name: str
    component: Component
    operator: str
    tenant: str | bool | None = None
    page: str = ""
    types: Mapping[str, Value] = field(default_factory=dict[str, Value])
    _sentences: tuple[_Sentence, _Sentence | None] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        operator = _Sentence.of(self.operator)
        tenant = operator if self.tenant is True else _Sentence.of(self.tenant) if self.tenant else None
        unknown = (operator.gaps | (tenant.gaps if tenant else set())) - set(self.types)
        if unknown or self.name in CODES:
            raise ValueError(f"{self.name}: twice, or with values that have no type: {sorted(unknown)}")
        object.__setattr__(self, "_sentences", (operator, tenant))
        CODES[self.name] = self

    def __call__(self, **params: Any) -> Message:
        """A message. Raises `TypeError` for a value that the row doesn't name; one that isn't given is None."""
        if unknown := set(params) - set(self.types):
            raise TypeError(f"{self.name} has no {', '.join(sorted(unknown))}")
        text = self._sentences[0].filled(self.types, params)
        return Message(text if text is not None else f"{self.name} {params}", self.name, params)

    def for_tenant(self, params: Mapping[str, Any]) -> Message | None:
        """As a tenant may read it; values that aren't in its sentence are left out."""
        sentence = self._sentences[1]
        if sentence is None:
            return None
        shown: dict[str, Any] = {}
        for part in sentence.parts:
            for gap in part if isinstance(part, tuple) else (part,):
                if not isinstance(gap, _Gap) or (value := params.get(gap.name)) in _EMPTY:
                    continue
                seen = self.types[gap.name].shown(value)
                if seen is not None:
                    shown[gap.name] = seen
        text = sentence.filled(self.types, shown)
        return None if text is None else Message(text, self.name, shown)

    def stored(self, params: Mapping[str, Any], texts: bool = False) -> dict[str, Any]:
        """Values as JSON; with the texts of nested messages, if asked for."""
        made: dict[str, Any] = {}
        for name, value in params.items():
            if value is None:
                continue
            kind = self.types[name]
            if texts and isinstance(kind, Nested):
                made[name] = whole(value)
            elif texts and isinstance(kind, Several):
                made[name] = [whole(one) for one in value]
            else:
                made[name] = kind.stored(value)
        return made

    def read(self, stored: Mapping[str, Any]) -> dict[str, Any]:
        """Values from JSON. Raises `KeyError`, `TypeError` or `ValueError` for others than the row's."""
        return {name: self.types[name].read(value) for name, value in stored.items()}


def whole(text: str) -> dict[str, Any]:
    """A message as an API gives it: `code`, `params`, `message`."""
    one = message(text)
    return {"code": one.code, "params": one.fields(), "message": str(one)}


CODES: dict[str, Code] = {}
"""Every code there is, by name."""
