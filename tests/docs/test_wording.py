"""Texts of the tree keep to the plain English of docs/words.md."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.helpers.paths import ROOT

GONE = (
    "told",
    "tells of",
    "whoever",
    "somebody",
    "anew",
    "for ever",
    "that are none",
    "lets go of",
    "let go of",
    "other hands",
    "hears of",
)
_GONE = re.compile(rf"(?<![\w-])({'|'.join(GONE)})(?![\w-])", re.IGNORECASE)
_NOBODY = re.compile(r"(?<!['\"`])\bnobody\b")
UNIX_USER = {
    "tests/helpers/neutronagent.py",  # the user of dnsmasq
    "tests/planning/site/test_deployment.py",  # a node that the site doesn't have
    "tests/planning/export/test_terraform.py",
}
"""Files in which `nobody` is a name."""
_TEST = re.compile(r"def test_(?:of|what|who|whose|where|nobody|nothing|it|so|that)_\w+")
QUOTING = {"docs/words.md", "tests/docs/test_wording.py"}
TEXT = {".py", ".md", ".sh", ".sql", ".toml", ".yaml", ".j2", ".txt", ".ini", ".html", ".js", ".css", ""}


def tracked() -> Iterator[tuple[str, str]]:
    """Path from the root and contents of each text file that is written by hand."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in listed.stdout.rstrip("\0").split("\0"):
        path = ROOT / name
        if name in QUOTING or path.suffix not in TEXT or path.is_symlink() or not path.is_file():
            continue
        try:
            yield name, path.read_text()
        except UnicodeDecodeError:
            continue


def test_phrases_that_hide_the_actor_are_used_nowhere() -> None:
    """Instead, say what reports, notifies or does it; docs/words.md has the verbs."""
    found = list[str]()
    for name, text in tracked():
        matches = [*_GONE.finditer(text), *(() if name in UNIX_USER else _NOBODY.finditer(text))]
        found += (f"{name}:{text.count(chr(10), 0, match.start()) + 1}: {match[0]}" for match in matches)
    assert found == []


def test_names_of_tests_begin_with_their_subject() -> None:
    """`test_unknown_pod_is_reported`, not `test_of_a_pod_that_...`."""
    found = [
        f"{name}: {test}"
        for name, text in tracked()
        if Path(name).name.startswith("test_")
        for test in _TEST.findall(text)
    ]
    assert found == []
