"""Engine and app speak of segments, port ids and shapes, not in the words of one kind of fabric."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import weft

WORDS = re.compile(r"infiniband|p_?key|guid|v-?ipu|omni-?path|opensm|(?<![a-z])ufm", re.IGNORECASE)
ROOT = Path(weft.__file__).parent
ALLOWED: Mapping[str, tuple[str, ...]] = {
    # The only place that picks drivers: the tables of those of fabrics, and of accelerators outside of hosts.
    "app/drivers.py": (
        *("opensm", "OPENSM", "OpenSm", "ufm", "UFM", "Ufm", "OMNIPATH"),
        *("_vipu", "VipuDriver", "V-IPU"),
    ),
    "engine/hold/lane.py": ("`weft.drivers.opensm.change`",),
    # Steps from documents of an earlier version.
    "engine/base/documents.py": ('"vipu_agent"',),
    # Formats of other tools' files.
    "app/placefiles.py": ("UFM", "from_ufm"),
    "app/explain.py": ("https://ufm.example",),
    "app/portclash.py": ("(UFM)",),
    # A page's name.
    "app/doctor/findings.py": ('"fabric-opensm.md"',),
}
"""File -> texts: a line of it that has one of them may have such a word."""


def found() -> list[tuple[str, str]]:
    """Each line that has such a word, with its file."""
    files = [
        p
        for room in ("engine", "app")
        for p in sorted((ROOT / room).rglob("*"))
        if p.suffix in (".py", ".sql")
    ]
    return [
        (path.relative_to(ROOT).as_posix(), line.strip())
        for path in files
        if path.parent.name != "migrations"  # what a database was, in the words of its time
        for line in path.read_text(encoding="utf-8").splitlines()
        if WORDS.search(line)
    ]


KINDS: Mapping[str, frozenset[str]] = {
    # The site's own networks, their ports, its flavors, and its security groups that others may have ports in;
    # the addresses that others' ports let in.
    "adoption.py": frozenset({"PORT", "SECURITY_GROUP"}),
    "auditaddresses.py": frozenset({"PORT"}),
    "auditsite.py": frozenset({"PORT"}),
    "othersports.py": frozenset({"NETWORK", "PORT", "SUBNET"}),
    "siteplan.py": frozenset({"FLAVOR", "SECURITY_GROUP"}),
}
"""Module of the engine -> kinds that it names besides segments; of others it reads the row in the table of kinds."""


def test_engine_names_only_segments_among_kinds() -> None:
    named = {
        path.name: frozenset(re.findall(r"\bKind\.([A-Z_]+)", path.read_text(encoding="utf-8")))
        for path in sorted((ROOT / "engine").rglob("*.py"))
    }
    assert {name: kinds for name, found in named.items() if (kinds := found - {"SEGMENT"})} == KINDS


def test_only_the_engine_runs_statements() -> None:
    """The app decides what users may do, and asks the engine for it."""
    named = re.compile(r"\b(tx|connection|cursor)\.(run|row|rows|execute)\(")
    files = [p for room in ("app", "api", "cli") for p in sorted((ROOT / room).rglob("*.py"))]
    assert [p.name for p in files if named.search(p.read_text(encoding="utf-8"))] == []


def test_engine_and_app_use_no_fabric_specific_words() -> None:
    wrong = [f"{f}: {line}" for f, line in found() if not any(x in line for x in ALLOWED.get(f, ()))]
    assert wrong == []


def test_exceptions_have_no_obsolete_entries() -> None:
    lines = found()
    over = [
        x
        for f, fragments in ALLOWED.items()
        for x in fragments
        if not any(x in t for g, t in lines if g == f)
    ]
    assert over == []
