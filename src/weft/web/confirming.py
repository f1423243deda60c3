"""A page before each change that an operator makes: what it will do, on what, and what it breaks."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from fastapi import Response
from pydantic import BaseModel

from weft.app.verbs import Request
from weft.model.errors import ConflictError, ForbiddenError
from weft.web.visits import Visit


@dataclass(frozen=True, slots=True)
class AskedField:
    """A text that the change needs.

    Attributes:
        choices: of a select; empty: any text.
        confirms: typed to confirm the change, so it is typed again for another page.
    """

    name: str
    label: str
    longest: int
    required: bool = True
    value: str = ""
    choices: tuple[str, ...] = ()
    confirms: bool = False


@dataclass(frozen=True, slots=True)
class Confirmation:
    """What the page before a change says, and the form on it.

    Attributes:
        action: path of the form; `back`: path of the page to return to without the change; both below the console.
        does: one sentence for each thing that will happen, or stays.
        warnings: what is lost or broken.
        hidden: further fields of the form.
        possible: False if there is nothing to confirm; the page then says why.
    """

    title: str
    action: str
    back: str
    button: str
    does: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    asked: tuple[AskedField, ...] = ()
    hidden: Mapping[str, str] = field(default_factory=dict[str, str])
    possible: bool = True


def confirmation(visit: Visit, asked: Confirmation, status: int = 200) -> Response:
    """The page; after a refused form it has what was typed, and why it was refused."""
    problem = getattr(visit.http.state, "refused", None)
    if problem is not None:
        typed = visit.http.state.typed
        again = tuple(
            one if one.confirms else replace(one, value=typed.get(one.name, one.value)) for one in asked.asked
        )
        asked = replace(asked, asked=again)
    return visit.page("confirm.html", status, asked=asked, problem=problem)


def require(visit: Visit, request: Request, rule: str) -> None:
    """Raise `ForbiddenError` unless the policy lets the caller do this for the site, without a word in the audit log:
    a page only asks. The verb checks again.
    """
    if rule not in visit.allowed:
        raise ForbiddenError(
            f"{request.caller.user_name} may not do {rule}; ask an operator for the required role"
        )


def print_of(*documents: BaseModel | str) -> str:
    """Identifies what a page showed, so that a change is made only while that is still so."""
    texts = [one if isinstance(one, str) else one.model_dump_json() for one in documents]
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:32]


def check_unchanged(form: Mapping[str, str], now: str, what: str) -> None:
    """Raise `ConflictError` unless the form was made for the present state, whose print is `now`."""
    if form.get("seen") != now:
        raise ConflictError(
            f"{what} has changed since the page was loaded: look at it again. Nothing was changed"
        )
