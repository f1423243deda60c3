"""Published files are generated from the code, up to date, and correct."""

from __future__ import annotations

import json
import pkgutil
import re
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tests.helpers.paths import DOCS, EXAMPLES, ROOT, SMALL
from tests.helpers.sitefolder import Folder
from weft.app.explain import in_words
from weft.app.sitefile import load_site
from weft.generate.schemas import field_table, files, fill, models_of, schemas, states_diagram
from weft.model.order import Order
from weft.model.pod import TRANSITIONS
from weft.model.sitefile import TABLES, SiteFile, csv_columns

NO_MODULES = frozenset({"weft.commands", "weft.pem", "weft.toml"})
"""Names that look like modules: a group of entry points, and files."""


@cache
def validator(name: str) -> Any:
    """A validator without a check of the schema itself, which takes longer than its use."""
    schema = schemas()[name]
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def plain(path: Path) -> Any:
    """The file as another YAML reader has it, with times as text as in JSON."""
    return json.loads(json.dumps(yaml.safe_load(path.read_text()), default=lambda v: v.isoformat()))


def test_every_published_file_is_up_to_date() -> None:
    """`python -m weft.generate.schemas` would change nothing."""
    for path, text in files(DOCS).items():
        assert path.read_text() == text, f"{path.name} is out of date: run python -m weft.generate.schemas"


@pytest.mark.parametrize(("page", "model"), [("site-file.md", SiteFile), ("pod-file.md", Order)])
def test_each_field_is_on_its_page(page: str, model: Any) -> None:
    """Every model of a schema has its table on the page, and every field a meaning."""
    text = (DOCS / page).read_text()
    for name, inner in models_of(model).items():
        assert f"<!-- fields:{name} -->" in text, f"{page} has no table of {name}"
        assert re.search(rf"^#+ {name}$", text, re.MULTILINE), f"{page} has no heading {name}"
        for field, info in inner.model_fields.items():
            assert info.description, f"{name}.{field} has no description"
            assert f"| `{field}` |" in field_table(inner)


def test_each_link_inside_a_page_has_a_target() -> None:
    """Files and headings to which README, changelog and pages link."""
    root = DOCS.parent
    pages = [root / "README.md", root / "CHANGELOG.md", *DOCS.rglob("*.md")]
    anchors = {page.resolve(): _anchors(page.read_text()) for page in pages}
    for page in pages:
        for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
            if target.startswith(("http://", "https://")):
                continue
            name, _, anchor = target.partition("#")
            there = (page.parent / name).resolve() if name else page.resolve()
            assert there.exists(), f"{page.relative_to(root)}: {target}"
            assert not anchor or anchor in anchors[there], f"{page.relative_to(root)}: {target}"


def _anchors(text: str) -> set[str]:
    """GitHub's anchor for each heading, and anchors that the page has itself."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    named = re.findall(r'<a id="([^"]+)"></a>', text)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings} | {*named}


PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_code_named_on_a_page_exists(page: Path) -> None:
    """Modules and what they define, tests, and files."""
    text, tests = page.read_text(), {p.name for p in (ROOT / "tests").rglob("test_*.py")}
    for named in re.findall(r"`((?:weft|weftlab|openvipu)\.[a-z]+(?:\.\w+)*)(?:\([^`]*\))?`", text):
        assert named in NO_MODULES or pkgutil.resolve_name(named) is not None
    for named in re.findall(r"`(?:tests/)?([\w/]*test_\w+\.py)`", text):
        assert (ROOT / "tests" / named).exists() if "/" in named else named in tests, named
    for named in re.findall(r"`((?:src|lab|bench|docs|examples|images|tools)/[\w/.-]+)`", text):
        assert (ROOT / named).exists(), named


def test_unknown_generated_block_is_an_error() -> None:
    """The table of a removed model must not stay."""
    with pytest.raises(KeyError):
        fill("<!-- fields:Gone -->\n<!-- end -->\n", {})


@pytest.mark.parametrize("path", sorted((EXAMPLES / "pods").glob("*.yaml")), ids=lambda p: p.stem)
def test_pod_schema_accepts_each_example(path: Path) -> None:
    """According to an independent validator."""
    validator("pod.schema.json").validate(plain(path))


def test_site_schema_accepts_the_example() -> None:
    """With its includes, and with all rows inline."""
    check = validator("site.schema.json")
    check.validate(plain(SMALL / "site.yaml"))
    document = load_site(SMALL / "site.yaml").model_dump(mode="json")
    check.validate(document)


@pytest.mark.parametrize(
    ("schema", "spoil"),
    [
        ("pod.schema.json", {"nodes": {"count": 0, "flavor": "f", "image": "i"}}),
        ("pod.schema.json", {"colour": "red"}),
        ("pod.schema.json", {"name": "No Good"}),
        ("pod.schema.json", {"locality": {"required": "galaxy"}}),
        ("site.schema.json", {"racks": {"csv": ""}}),
        ("site.schema.json", {"clouds": {}}),
        ("site.schema.json", {"nodes": [{"name": "gpu01", "roles": "compute"}]}),
    ],
)
def test_schemas_refuse_what_the_reader_refuses(schema: str, spoil: dict[str, Any]) -> None:
    """Limits, unknown fields, patterns, enumerations, and null for required fields."""
    path = SMALL / "site.yaml" if schema.startswith("site") else EXAMPLES / "pods" / "01-smallest.yaml"
    with pytest.raises(jsonschema.ValidationError):
        validator(schema).validate(plain(path) | spoil)


def test_state_diagram_has_each_phase_and_step() -> None:
    """Every row of the table of transitions is drawn."""
    picture = states_diagram()
    for state, following in TRANSITIONS.items():
        for after, why in following.items():
            assert f"    {state} --> {after}: {why}\n" in picture
    assert picture.count("-->") == sum(len(f) for f in TRANSITIONS.values()) + 2


@pytest.mark.parametrize("table", TABLES)
def test_every_documented_column_is_read(table: str, tmp_path: Path) -> None:
    """A CSV file with all columns of its table and no rows is accepted."""
    folder = Folder(tmp_path)
    name = f"{table}-more.csv"
    (folder.path / name).write_text(",".join(csv_columns(table)) + "\n")
    written = f"{table}: {{csv: {table}.csv}}"
    if written in folder.site.read_text():
        folder.replace("site.yaml", written, f"{table}: [{{csv: {table}.csv}}, {{csv: {name}}}]")
    else:
        folder.append("site.yaml", f"{table}: {{csv: {name}}}")
    assert folder.errors() == []


def test_each_schema_pattern_is_described_in_words() -> None:
    """The description isn't a regular expression."""
    patterns: set[str] = set()

    def walk(document: Any) -> None:
        if isinstance(document, dict):
            if isinstance(document.get("pattern"), str):
                patterns.add(document["pattern"])
            document = list(document.values())
        if isinstance(document, list):
            for inner in document:
                walk(inner)

    for file in (DOCS / "schemas").glob("*.json"):
        walk(json.loads(file.read_text()))
    assert len(patterns) > 10
    worded = {p: in_words("string_pattern_mismatch", {"pattern": p}, "") for p in patterns}
    assert [p for p, words in worded.items() if p in words] == []
