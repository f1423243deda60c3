"""The code blocks of the documentation, and the shell commands in them."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.helpers.paths import DOCS, ROOT

_OPENING = re.compile(r"^(\s*)```(\S*)\s*$")
_HERE_DOCUMENT = re.compile(r"^(.*>\s*(\S+)\s*)<<(\w+)\n(.*?)^\3$\n?", re.MULTILINE | re.DOTALL)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_KEYWORDS = ("do", "done", "while", "for", "then", "else", "fi", "if", "{", "}")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block.

    Attributes:
        place: file and line of its opening fence, such as `docs/cli.md:11`.
        language: what stands behind the fence; empty if nothing does.
        text: its lines, without the indentation that they share.
    """

    place: str
    language: str
    text: str


def blocks() -> list[Block]:
    """All of README and docs, in order."""
    pages = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
    return [block for page in pages for block in _of(str(page.relative_to(ROOT)), page.read_text())]


def _of(page: str, text: str) -> Iterator[Block]:
    lines = iter(enumerate(text.splitlines(), 1))
    for number, line in lines:
        if found := _OPENING.match(line):
            inside: list[str] = []
            for _, row in lines:
                if row.strip() == "```":
                    break
                inside.append(row)
            yield Block(f"{page}:{number}", found[2], textwrap.dedent("\n".join(inside)) + "\n")


def here_documents(script: str) -> dict[str, str]:
    """File name -> text, for each `cat > FILE <<END` of a script."""
    return {found[2]: found[4] for found in _HERE_DOCUMENT.finditer(script)}


def commands(script: str) -> list[list[str]]:
    """The simple commands of a shell script, each split into words without comments, assignments, redirections
    and keywords."""
    joined = _HERE_DOCUMENT.sub(r"\1\n", script).replace("\\\n", " ")
    return [words for line in joined.splitlines() for words in _simple(line) if words]


def _simple(line: str) -> Iterator[list[str]]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>()")
    lexer.whitespace_split = True
    words: list[str] = []
    skip = False
    for token in lexer:
        if set(token) <= set("<>"):
            skip = True  # a redirection: the next word is a file
        elif set(token) <= set("|&;()"):
            yield _bare(words)
            words = []
        elif skip:
            skip = False
        else:
            words.append(token)
    yield _bare(words)


def _bare(words: Sequence[str]) -> list[str]:
    rest = list(words)
    while rest and (rest[0] in _KEYWORDS or _ASSIGNMENT.match(rest[0])):
        rest.pop(0)
    return rest
