"""Hides secrets in services' answers, which quote what they refuse (Nova: `Invalid input for field/attribute user_data.
Value: …`), keys included."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

from weft.drivers.openstack.errors import CloudAnswer

SECRET_FIELDS = frozenset({"user_data", "configdrive", "adminPass", "rescue_password", "password", "secret"})
"""Fields of requests whose values must not appear in any error, log or reason."""
_BEGINNING, _SHORTEST = 24, 4
"""Number of characters by which a quoted value is recognized, since services truncate them; shorter quotations aren't
recognized."""


def without_secrets(answer: CloudAnswer, sent: object, token: str | bytes | None) -> CloudAnswer:
    """The answer without any quotation of the request's secrets.

    Args:
        sent: the request's body.
        token: that of the request.
    """
    mine = token.decode() if isinstance(token, bytes) else token
    secrets = sorted({*_secrets(sent), mine or ""}, key=len, reverse=True)
    begins = [re.escape(secret[:_BEGINNING]) for secret in secrets if len(secret) >= _SHORTEST]
    if not begins or (answer.fine and not answer.strange):
        return answer
    quoted = re.compile(rf"(?:{'|'.join(begins)})[^\s'\"]*")
    return replace(answer, text=_hidden(answer.text, quoted), body=_hidden(answer.body, quoted))


def _secrets(sent: object) -> Iterator[str]:
    if isinstance(sent, Mapping):
        for field, value in cast(Mapping[str, object], sent).items():
            if field in SECRET_FIELDS:
                yield from _texts(value)
            else:
                yield from _secrets(value)
    elif isinstance(sent, list | tuple):
        for value in cast(list[object], sent):
            yield from _secrets(value)


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in cast(Mapping[str, object], value).values():
            yield from _texts(inner)


def _hidden(value: Any, quoted: re.Pattern[str]) -> Any:
    if isinstance(value, str):
        return quoted.sub("(secret)", value)
    if isinstance(value, Mapping):
        return {k: _hidden(v, quoted) for k, v in cast(Mapping[str, Any], value).items()}
    if isinstance(value, list):
        return [_hidden(v, quoted) for v in cast(list[Any], value)]
    return value
