"""docs/problems as pages: a code's section, with the introduction of its group."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

_HEADING = re.compile(r"^(#{1,3}) (.+)$", re.MULTILINE)
_VERB = re.compile(r"`weft ([a-z-]+ [a-z-]+)")
_CODE = re.compile(r"[A-Z][A-Z0-9_]{1,80}")


@dataclass(frozen=True, slots=True)
class ProblemPage:
    """What docs/problems says of one code, as HTML made here from the project's own text.

    Attributes:
        title: title of its page.
            group: title of its group on that page.
    """

    code: str
    title: str
    group: str
    own: str
    group_text: str


def codes() -> tuple[str, ...]:
    """All codes that have a section of their own."""
    return tuple(_sections())


def has_page(code: str) -> bool:
    """Whether a code is explained."""
    return code in _sections()


def verbs_of(code: str) -> tuple[str, ...]:
    """Commands of weft that the code's section names, such as `pod retry`, in its order; none for an unknown code."""
    found = _sections().get(code)
    return tuple(dict.fromkeys(_VERB.findall(found[3]))) if found else ()


def problem_page(code: str) -> ProblemPage | None:
    """The page of a code; None: there is none."""
    found = _sections().get(code)
    if found is None:
        return None
    title, group, group_text, own = found
    return ProblemPage(code, title, group, _html(own), _html(group_text))


def _folder() -> Traversable:
    """The folder of the pages: beside this module in a wheel, in docs in a working tree."""
    inside = files("weft.web") / "problems"
    return inside if inside.is_dir() else Path(__file__).parents[3] / "docs" / "problems"


@cache
def _sections() -> Mapping[str, tuple[str, str, str, str]]:
    """Code -> title of its page, title and text of its group, its own text; all Markdown."""
    found: dict[str, tuple[str, str, str, str]] = {}
    for file in sorted(_folder().iterdir(), key=lambda one: one.name):
        if not file.name.endswith(".md"):
            continue
        text = file.read_text(encoding="utf-8")
        title = group = group_text = ""
        headings = list(_HEADING.finditer(text))
        for heading, following in zip(headings, [*headings[1:], None], strict=True):
            level, name = len(heading[1]), heading[2].strip()
            body = text[heading.end() : following.start() if following else len(text)].strip()
            if level == 1:
                title, group, group_text = name, "", ""
            elif level == 2:
                group, group_text = name, body
            elif _CODE.fullmatch(name):
                found[name] = (title, group, group_text, body)
    return found


@cache
def _html(markdown: str) -> str:
    reader = MarkdownIt("commonmark", {"html": False})
    reader.enable("table")
    tokens = reader.parse(markdown)
    for token in tokens:
        token.children = _without_links(token.children or []) if token.children is not None else None
    return reader.renderer.render(tokens, reader.options, {})


def _without_links(tokens: list[Token]) -> list[Token]:
    """Replace links by their text: they lead to files of the documentation that aren't served here."""
    return [token for token in tokens if token.type not in ("link_open", "link_close")]
