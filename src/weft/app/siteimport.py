"""Converts hardware lists and inventories into a site's files; everything is checked before any file is written."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from weft.app.explain import MOST_ERRORS, by_line
from weft.app.sitecompare import discovery
from weft.app.sitefile import assemble, load_site, read_site_file, read_text, switching_of
from weft.app.yamltext import Positions, dotted, read_yaml, without_nulls
from weft.generate.sitecsv import table_csv
from weft.model.errors import InputError, InputErrors
from weft.model.hardware import HardwareRecord
from weft.model.site import IpuPod, Link, Site, SiteNetwork
from weft.model.sitefile import SWITCHING_TABLES, TABLES
from weft.planning.fabric.diff import adopt_links, fabric_differences
from weft.planning.hardware.around import KnownSite, discoverable_fabrics
from weft.planning.hardware.described import on_described
from weft.planning.hardware.discovered import Discovered, chosen_fabric
from weft.planning.hardware.tables import HardwareTables, columns_in, tables_of
from weft.planning.site.check import check_site

_RECORD = "record"
"""Name under which positions have the list's rows; no site file has such a table."""
_IN_ERRORS = re.compile(rf"{_RECORD}\[\d+\]\.?")


@dataclass(frozen=True, slots=True)
class Imported:
    """A checked import, before it is written.

    Attributes:
        files: name -> text of what is to be written beside a copy of the site file.
        rows: table -> number of rows.
        given: (interface, address) that weft chose.
        uncabled: adapters without a cable in the list.
        without_rack: compute hosts and Poplar servers without one, if others have one: a merged cell of a spreadsheet
            is only in its first row.
    """

    site: Site
    files: Mapping[str, str]
    rows: Mapping[str, int]
    given: Sequence[tuple[str, str]]
    uncabled: int
    without_rack: Sequence[str] = ()


def import_site(
    site_file: str,
    records: Sequence[HardwareRecord],
    errors: Sequence[InputError] = (),
    discovered: Sequence[Discovered] = (),
) -> Imported:
    """The site with this hardware.

    Args:
        site_file: what no list has: clouds, networks, IPU-PODs; without the tables that the list fills.
        errors: problems that reading the lists had already.
        discovered: fabrics whose cables are adopted; the records have their switches and adapters already.

    Raises `InputErrors` with everything that is wrong, in the lists and in the site file.
    """
    data, where = read_site_file(site_file)
    data = without_nulls(data)
    found = list(errors)
    around = _around(data, where)
    tables = tables_of(records, around, found)
    filled = list(tables.rows)
    filled += ["links"] if discovered and "links" not in filled else []
    for table in filled:
        if table in data:
            allowed = f"nothing: {'the list' if table in tables.rows else '--fabric'} fills this table"
            found.append(InputError(table, "…", allowed, where.at((table,))))
    _merge(data, where, tables, records)
    try:
        site = assemble(data, where, links_needed=False, adopting=[one.fabric for one in discovered])
    except InputErrors as error:
        reported = {(e.where, e.field) for e in found}  # the list's own error for a cell is more precise
        found += [e for e in map(_of_list, error.errors) if (e.where, e.field) not in reported]
        raise _all(found, error.more) from None
    site = _with_cables(site, discovered, tables, found)
    if found:
        raise _all(found)
    wired = {end for link in site.links for end in (link.a, link.b)}
    by_port = {n for n, f in site.fabrics.items() if f.manager.switching is not None}
    adapters = [f"{n.name}/{h.name}" for n in site.nodes for h in n.hcas if h.fabric not in by_port]
    placed = any(n.rack for n in site.nodes)
    return Imported(
        site,
        _files(site_file, tables),
        {table: len(rows) for table, rows in tables.rows.items()},
        tables.given,
        sum(a not in wired for a in adapters),
        [n.name for n in site.nodes if placed and n.rack is None and n.role in ("compute", "poplar")],
    )


def discovered_fabric(
    site_file: str, file: str, fabric: str | None, errors: list[InputError], left_out: list[str]
) -> Discovered:
    """What ibnetdiscover saw of a fabric of the site file.

    Args:
        file: its output.
        fabric: None: the only one that can be discovered.

    Raises `InputError`, `InputErrors`.
    """
    data, _ = read_site_file(site_file)
    name = chosen_fabric(discoverable_fabrics(without_nulls(data)), fabric, site_file)
    return Discovered(name, file, discovery(read_text(Path(file)), file), errors, left_out)


def on_described_networks(
    site_file: str, records: Sequence[HardwareRecord], inventory: Collection[str], left_out: list[str]
) -> list[HardwareRecord]:
    """The records without an inventory's interfaces on networks that the site file doesn't describe.

    Args:
        inventory: places of records that are an inventory's.
        left_out: is given each of them, with why.

    Raises `InputErrors` if the site file can't be read.
    """
    data, where = read_site_file(site_file)
    networks = _around(without_nulls(data), where).networks
    return [on_described(r, networks, left_out) if r.place in inventory else r for r in records]


def write_import(imported: Imported, site_file: str, output: str) -> list[str]:
    """Write the site's directory, which must not exist or be empty; gives the files' paths.

    Atomic: it is written beside its place, read back, compared with what was checked, and renamed.
    """
    target = Path(output)
    try:
        if target.resolve() == Path.cwd():
            # The export is renamed into place: a shell in the old directory would not see it.
            raise InputError("--output", output, "a directory other than the current one")
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise InputError("--output", output, "a directory that doesn't exist or is empty")
        target.parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
    except OSError as error:
        raise InputError("--output", output, f"a writable directory: {error.strerror}") from None
    try:
        for name, text in imported.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        if load_site(folder / "site.yaml", links_needed=False) != imported.site:
            allowed = "a file in YAML's block style, to which tables can be added at the end"
            raise InputError("--site", site_file, allowed)
        folder.chmod(0o755)
        folder.replace(target)
    except OSError as error:
        raise InputError("--output", output, f"a writable directory: {error.strerror}") from None
    except InputErrors as error:
        allowed = f"a file to which tables can be added at the end ({error.errors[0].allowed})"
        raise InputError("--site", site_file, allowed) from None
    finally:
        if folder.exists():
            shutil.rmtree(folder)
    return [str(target / name) for name in imported.files]


def _around(data: Mapping[str, Any], where: Positions) -> KnownSite:
    """What the site file has already; errors in its networks or IPU-PODs are reported first."""
    clouds = data.get("clouds")
    only = next(iter(clouds)) if isinstance(clouds, dict) and len(clouds) == 1 else None

    def each(field: str, model: Any) -> dict[str, Any]:
        found = data.get(field, {})
        rows = {n: model.model_validate(v) for n, v in found.items()} if isinstance(found, dict) else {}
        return {n: v.model_copy(update={"cloud": v.cloud or only}) for n, v in rows.items()}

    try:
        networks, pods = each("networks", SiteNetwork), each("ipu_pods", IpuPod)
    except ValidationError:
        assemble(dict(data), where, links_needed=False)
        raise
    if "racks" not in data:
        return KnownSite(networks, pods, discoverable=discoverable_fabrics(data))
    named = (r.get("name") for r in data["racks"] if isinstance(r, dict))
    racks = frozenset(n for n in named if isinstance(n, str))
    return KnownSite(networks, pods, racks, discoverable_fabrics(data))


def _with_cables(
    site: Site, discovered: Sequence[Discovered], tables: HardwareTables, errors: list[InputError]
) -> Site:
    """The site with the cables that were discovered; a cable of the lists that goes elsewhere is an error."""
    for one in discovered:
        seen = one.of_ports(site)
        for difference in fabric_differences(site, one.fabric, seen):
            if difference.kind == "moved cable":
                errors.append(InputError("cable", difference.subject, difference.what, one.file))
            elif difference.kind == "missing cable":
                one.left_out.append(f"{one.file}: {difference.what}, and is left out")
        site = site.model_copy(update={"links": adopt_links(site, one.fabric, seen)})
    if not discovered:
        return site
    if site.links:
        columns = list(Link.model_fields)
        rows = ({c: getattr(link, c) for c in columns} for link in site.links)
        tables.rows["links"] = [{c: str(v) for c, v in row.items() if v is not None} for row in rows]
    files = ", ".join(one.file for one in discovered)
    errors += [
        InputError(dotted(path), str(value) if value is not None else None, allowed, files)
        for path, value, allowed in check_site(site, links_needed=False)
    ]
    return site


def _merge(
    data: dict[str, Any], where: Positions, tables: HardwareTables, records: Sequence[HardwareRecord]
) -> None:
    """Put the rows into the document, each with the place in the list that it comes from."""
    data |= tables.rows
    for number, record in enumerate(records):
        where.by_path[(_RECORD, number)] = record.place
        for cell in record.cells.values():
            where.by_path[(_RECORD, number, cell.column)] = cell.place
    for path, (number, column) in tables.origins.items():
        where.aliases[path] = (_RECORD, number, column) if column else (_RECORD, number)


def _of_list(error: InputError) -> InputError:
    """An error of a row with its column instead of its place in the site's document."""
    field = _IN_ERRORS.sub("", error.field) or "row"
    return InputError(field, error.value, error.allowed, error.where)


def _all(errors: list[InputError], more: int = 0) -> InputErrors:
    # The same cell may be wrong for several rows made of it.
    distinct = by_line(list({str(e): e for e in errors}.values()))
    return InputErrors(distinct[:MOST_ERRORS], more + max(0, len(distinct) - MOST_ERRORS))


def _files(site_file: str, tables: HardwareTables) -> dict[str, str]:
    """The site file with includes of the tables at its end, the tables, and what it included before."""
    path = Path(site_file)
    text = read_text(path)
    data, where = read_yaml(text, site_file)
    # A table that the list fills may be empty there: its field would be given twice.
    empty = [t for t in TABLES if t in data and data[t] is None and t in tables.rows]
    drop = {int((where.at((table,)) or "").rpartition(":")[2]) for table in empty}
    head = "".join(line for n, line in enumerate(text.splitlines(keepends=True), 1) if n not in drop)
    includes = "".join(f"{table}: {{csv: {table}.csv}}\n" for table in TABLES if table in tables.rows)
    files = {"site.yaml": f"{head.rstrip()}\n\n# Generated by `weft site import`:\n{includes}"}
    included = [data.get(table) for table in TABLES]
    included += [rows.get(table) for _, rows in switching_of(data) for table in SWITCHING_TABLES]
    for rows in included:
        for item in rows if isinstance(rows, list) else [rows]:
            if isinstance(item, dict) and "csv" in item:
                files[item["csv"]] = read_text(path.parent / item["csv"])
    for table in TABLES:
        if table in tables.rows:
            files[f"{table}.csv"] = table_csv(columns_in(table), tables.rows[table])
    return files
