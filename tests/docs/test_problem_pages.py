"""The pages in docs/problems explain every code, and how to leave every state that can last."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.docs.commandreaders import is_known
from tests.helpers.paths import DOCS
from weft.model.messages import CODES
from weft.model.pod import PodState

FOLDER = DOCS / "problems"
PAGES = {path.stem: path.read_text() for path in sorted(FOLDER.glob("*.md")) if path.name != "README.md"}
LASTING = {
    **{
        state: ("pod-states", state) for state in PodState if state not in (PodState.READY, PodState.RELEASED)
    },
    "waiting order": ("queue", "A waiting order"),
    "quarantined node": ("release", "A quarantined node"),
    "held node": ("maintenance", "A held node"),
    "drained node": ("maintenance", "A drained node"),
    "closed gate": ("health", "A closed gate"),
    "parked row": ("unknown", "A parked row"),
}
"""State that can last -> its page and section."""
LABELS = ("**Known**:", "**Not known**:", "**Tenants**:", "**Operators**:")
_SECTION = re.compile(r"^### (\S+)\n+(.*?)(?=^#|\Z)", re.MULTILINE | re.DOTALL)
_EVENT = re.compile(r'^\| <a id="(\w+)"></a>`([A-Z_]+)` \| (.+) \|$', re.MULTILINE)
_COMMAND = re.compile(r"`((?:weft|openstack) [^`]+)`")
_PROGRAM = re.compile(r"weft (?:serve|worker|pod|audit)$")
_LINK = re.compile(r"\]\(([^)#]*)(?:#([^)]*))?\)")


def explained(page: str) -> Iterator[tuple[str, str]]:
    """Each code of a page with its text, from sections and from the rows of its table of events."""
    yield from ((code, text.strip()) for code, text in _SECTION.findall(page))
    yield from ((code, text) for _, code, text in _EVENT.findall(page))


def section(page: str, title: str) -> str:
    """Text of the section with this second-level heading."""
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^#|\Z)", PAGES[page], re.MULTILINE | re.DOTALL)
    assert found, f"{page}.md has no section '{title}'"
    return found[1]


def words(text: str) -> list[list[str]]:
    """The commands in a text, split into words; a program's name alone isn't a command."""
    return [shlex.split(one) for one in _COMMAND.findall(text) if not _PROGRAM.match(one)]


def anchors(page: str) -> set[str]:
    """Targets that a link into the page can have."""
    titles = re.findall(r"^#+ (.+)$", page, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles} | {
        anchor for anchor, _, _ in _EVENT.findall(page)
    }


def test_each_code_is_explained_once_on_its_page() -> None:
    """Reported are codes without a section, sections without a code, and codes on another code's page."""
    written = sorted((stem, code) for stem, page in PAGES.items() for code, _ in explained(page))
    assert written == sorted((code.page, name) for name, code in CODES.items())


def test_each_page_has_a_code_and_no_explanation_is_empty() -> None:
    assert set(PAGES) == {code.page for code in CODES.values()}
    short = [code for page in PAGES.values() for code, text in explained(page) if len(text) < 12]
    assert short == []


@pytest.mark.parametrize("stem", PAGES)
def test_problem_page_says_what_is_known_and_what_to_do(stem: str) -> None:
    assert [label for label in LABELS if label not in PAGES[stem]] == []
    assert "**How to get out**" in PAGES[stem] or words(PAGES[stem])


@pytest.mark.parametrize("lasting", LASTING)
def test_each_lasting_state_has_a_way_out_by_an_existing_command(lasting: str, tmp_path: Path) -> None:
    """States of pods, orders, nodes, the gate, and rows."""
    _, mark, way = section(*LASTING[lasting]).partition("**How to get out**:")
    ways = [command for command in words(way) if command[0] == "weft"]
    assert mark and ways
    assert [command for command in ways if not is_known(command, tmp_path)] == []


def test_each_command_on_the_pages_exists(tmp_path: Path) -> None:
    """According to the parsers of weft and of OpenStack's client."""
    every: Sequence[tuple[str, ...]] = sorted({tuple(one) for page in PAGES.values() for one in words(page)})
    assert len(every) > 30
    assert [" ".join(one) for one in every if not is_known(one, tmp_path)] == []


@pytest.mark.parametrize("stem", ["README", *PAGES])
def test_each_link_of_the_pages_has_a_target(stem: str) -> None:
    """Files, and sections of pages in the folder."""
    broken: list[str] = []
    for target, anchor in _LINK.findall((FOLDER / f"{stem}.md").read_text()):
        path = (FOLDER / target).resolve() if target else FOLDER / f"{stem}.md"
        if not path.is_file() or (anchor and anchor not in anchors(path.read_text())):
            broken.append(f"{target}#{anchor}")
    assert broken == []
