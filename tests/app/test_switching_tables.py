"""Switches, links and bundles of an Ethernet fabric from CSV files, as spreadsheets and switches export them."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import jsonschema
import pytest
import yaml

from tests.helpers.paths import EXAMPLES
from weft.app.sitefile import load_site
from weft.app.siteimport import import_site, write_import
from weft.generate.schemas import schemas
from weft.model.errors import InputErrors
from weft.model.hardware import Cell, HardwareRecord

FILES = {
    "switches": "fabric-switches.csv",
    "links": "fabric-links.csv",
    "bundles": "fabric-bundles.csv",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The RoCE example with the three lists in files of their own."""
    folder = tmp_path / "site"
    shutil.copytree(EXAMPLES / "sites" / "roce", folder)
    text = (folder / "site.yaml").read_text()
    switching = yaml.safe_load(text)["fabrics"]["roce"]["manager"]["switching"]
    lines = text.splitlines()
    for table, file in FILES.items():
        start = next(i for i, line in enumerate(lines) if line == f"        {table}:")
        end = next(i for i in range(start + 1, len(lines)) if not lines[i].startswith("          - "))
        lines[start:end] = [f"        {table}: {{csv: {file}}}"]
        rows = [
            {k: " ".join(v) if isinstance(v, list) else v for k, v in row.items()} for row in switching[table]
        ]
        columns = list(dict.fromkeys(column for row in rows for column in row))
        with (folder / file).open("w", newline="") as out:
            writer = csv.DictWriter(out, columns)
            writer.writeheader()
            writer.writerows(rows)
    (folder / "site.yaml").write_text("\n".join(lines) + "\n")
    return folder


def wrong(folder: Path) -> list[str]:
    with pytest.raises(InputErrors) as raised:
        load_site(folder / "site.yaml")
    return [str(e).replace(f"{folder}/", "") for e in raised.value.errors]


def replaced(folder: Path, file: str, before: str, after: str) -> None:
    text = (folder / file).read_text()
    assert before in text
    (folder / file).write_text(text.replace(before, after, 1))


def test_lists_of_a_fabric_may_come_from_csv_files(folder: Path) -> None:
    """The result is the same site."""
    assert load_site(folder / "site.yaml") == load_site(EXAMPLES / "sites" / "roce" / "site.yaml")


def test_rows_and_files_may_be_mixed(folder: Path) -> None:
    """As for tables: a list may have both."""
    first, *others = (folder / FILES["bundles"]).read_text().splitlines()[1:]
    listed = f"\n          - {{csv: {FILES['bundles']}}}\n          - ports: [{', '.join(first.split())}]"
    replaced(folder, "site.yaml", f" {{csv: {FILES['bundles']}}}", listed)
    (folder / FILES["bundles"]).write_text("ports\n" + "".join(f"{line}\n" for line in others))
    assert load_site(folder / "site.yaml") == load_site(EXAMPLES / "sites" / "roce" / "site.yaml")


@pytest.mark.parametrize(
    ("file", "before", "after", "sentence"),
    [
        ("fabric-switches.csv", "leaf02,eos", "leaf02,ios",
         "fabric-switches.csv:3: fabrics.roce.manager.switching.switches[1].interface: 'ios' is not allowed: 'eos', "
         "'nvue', 'sonic', 'ovs' or 'generic'"),
        ("fabric-links.csv", "leaf02/Ethernet49/1", "leaf09/Ethernet49/1",
         "fabric-links.csv:3: fabrics.roce.manager.switching.links[1].a: 'leaf09/Ethernet49/1' is not allowed: "),
        ("fabric-links.csv", "rate_gbps", "speed", "fabric-links.csv:1: csv: 'speed' is not allowed: unknown column; "
         "known here: a, b, peer, rate_gbps"),
        ("fabric-bundles.csv", "leaf02/Port-Channel7", "",
         "fabric-bundles.csv:2: fabrics.roce.manager.switching.bundles[0].ports: "),
        ("site.yaml", "{csv: fabric-links.csv}", "{csv: ../links.csv}",
         "fabrics.roce.manager.switching.links.csv: '../links.csv' is not allowed: the file must be inside the site "
         "file's directory"),
        ("site.yaml", "{csv: fabric-links.csv}", "{csv: links.csv}",
         "fabrics.roce.manager.switching.links.csv: 'links.csv' is not allowed: there is no such file in"),
    ],
)  # fmt: skip
def test_invalid_row_is_reported_with_its_line(
    folder: Path, file: str, before: str, after: str, sentence: str
) -> None:
    """With file and line of the row, not of the site file."""
    replaced(folder, file, before, after)
    assert any(sentence in one for one in wrong(folder)), wrong(folder)


def test_import_copies_included_files(folder: Path) -> None:
    cells = {"name": Cell("pdu1", "name", "list:2"), "kind": Cell("pdu", "kind", "list:2")}
    imported = import_site(str(folder / "site.yaml"), [HardwareRecord("list:2", cells)])
    assert set(FILES.values()) <= set(imported.files)
    write_import(imported, str(folder / "site.yaml"), str(folder.parent / "out"))
    assert load_site(folder.parent / "out" / "site.yaml", links_needed=False) == imported.site


def test_schema_allows_files_for_these_lists(folder: Path) -> None:
    """Editors accept what weft reads."""
    document = json.loads(json.dumps(yaml.safe_load((folder / "site.yaml").read_text())))
    jsonschema.Draft202012Validator(schemas()["site.schema.json"]).validate(document)
    document["fabrics"]["roce"]["manager"]["switching"]["links"] = {"csv": 1}
    assert not jsonschema.Draft202012Validator(schemas()["site.schema.json"]).is_valid(document)
