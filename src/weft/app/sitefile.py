"""The site file: YAML with includes from CSV into a checked `Site`; every error with its file and line.

Includes are relative to the site file and stay inside its directory, with symlinks resolved: a site is one directory
that can be copied, versioned and reviewed as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, TypeVar

from weft.app.csvtables import read_rows
from weft.app.explain import by_line, check_nulls, validate
from weft.app.siteparts import PartedTables, PartSource
from weft.app.yamltext import Path as Path_
from weft.app.yamltext import Positions, dotted, read_yaml, without_nulls
from weft.model.errors import InputError, InputErrors
from weft.model.site import BOOTABLE, Accelerator, Hca, Node, Site
from weft.model.sitefile import SWITCHING_TABLES, TABLES, AcceleratorRow, HcaRow, SiteTables, csv_columns
from weft.planning.site.check import canonical, check_site
from weft.planning.site.lean import Shared, lean
from weft.planning.site.wrongvalues import WrongValue

D = TypeVar("D", Hca, Accelerator)

OnFile = Callable[[Path_, str, Path, bytes], None]
"""Called with the path in the document of what a file has, its name there, where it is, and its bytes."""

_WORKBOOK = "a workbook: save its sheet as CSV in UTF-8"
_OTHERS = (
    (b"PK", _WORKBOOK),
    (b"\xd0\xcf\x11\xe0", _WORKBOOK),
    (b"\xff\xfe", "UTF-16"),
    (b"\xfe\xff", "UTF-16"),
)
"""How files of spreadsheets begin that aren't UTF-8."""

MOST_BYTES = 512 << 20
"""Largest file that is accepted."""


def load_site(
    source: str | Path | Mapping[str, Any],
    links_needed: bool = True,
    parts: PartSource | None = None,
    seen: OnFile = lambda *_: None,
) -> Site:
    """The site from a file, or from an already parsed document (API), checked and in canonical order.

    Args:
        links_needed: False to read a site whose cabling is yet to be adopted from the fabric.
        parts: store of parts of tables; None: the document can't have any.
        seen: called with each file that is read.

    Raises `InputErrors` with everything that is wrong, in the order of the lines of each file.
    """
    if isinstance(source, Mapping):
        data, where = dict(source), Positions()
    else:
        data, where = read_site_file(source, seen)
    return assemble(data, where, links_needed, parts)


def read_site_file(source: str | Path, seen: OnFile = lambda *_: None) -> tuple[dict[str, Any], Positions]:
    """A site file as plain data, its includes replaced by their rows, and where each value is. Raises `InputErrors`."""
    path = Path(source)
    text = read_text(path)
    seen((), path.name, path, text.encode())
    data, where = read_yaml(text, str(path))
    errors: list[InputError] = []
    for table in TABLES:
        if table in data:
            columns = frozenset(csv_columns(table))
            data[table] = _expand((table,), columns, data[table], path, where, errors, seen)
    for fabric, switching in switching_of(data):
        for table, model in SWITCHING_TABLES.items():
            if table in switching:
                place: Path_ = ("fabrics", fabric, "manager", "switching", table)
                columns = frozenset(model.model_fields)
                rows = _expand(place, columns, switching[table], path, where, errors, seen)
                switching[table] = _split_ports(rows) if table == "bundles" else rows
    if errors:
        raise InputErrors(errors)
    return data, where


def switching_of(data: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Name of a fabric and what its manager's `switching` is, of fabrics that have one."""
    fabrics = data.get("fabrics")
    for name, fabric in fabrics.items() if isinstance(fabrics, dict) else ():
        manager = fabric.get("manager") if isinstance(fabric, dict) else None
        switching = manager.get("switching") if isinstance(manager, dict) else None
        if isinstance(switching, dict):
            yield name, switching


def _split_ports(rows: Any) -> Any:
    """Bundles whose ends, in a CSV file, are one cell."""
    if not isinstance(rows, list):
        return rows
    split = ({**r, "ports": r["ports"].split()} if isinstance(r, dict) and isinstance(r.get("ports"), str) else r
             for r in rows)  # fmt: skip
    return list(split)


def assemble(
    data: dict[str, Any],
    where: Positions,
    links_needed: bool = True,
    parts: PartSource | None = None,
    adopting: Collection[str] = (),
) -> Site:
    """The site of a document, checked and in canonical order; see `load_site` and `check_site`."""
    filled = without_nulls(data)
    if filled != data:
        check_nulls(SiteTables, data, where)
    data = filled
    parted = PartedTables(parts) if parts else None
    tables = validate(SiteTables, data, where) if parted is None else _with_parts(data, parted)
    site, unknown = _fold(tables, where)
    return checked(site, links_needed, unknown, where, adopting)


def checked(
    site: Site,
    links_needed: bool = True,
    unknown: Sequence[WrongValue] = (),
    where: Positions | None = None,
    adopting: Collection[str] = (),
) -> Site:
    """A site whose rows are valid by themselves, checked as a whole and in canonical order.

    Args:
        unknown: problems that are already known.
        where: where its values are written.
        adopting: see `check_site`.

    Raises `InputErrors`.
    """
    problems = [*unknown, *check_site(site, links_needed, adopting)]
    if problems:
        where = where or Positions()
        raise InputErrors(
            by_line([_located(path, value, allowed, where) for path, value, allowed in problems])
        )
    ordered = canonical(site)
    shared: Shared = {}
    for table in ("nodes", "links", "switches"):
        lean(getattr(ordered, table), shared)
    return ordered


def _with_parts(data: dict[str, Any], parted: PartedTables) -> SiteTables:
    """The tables of a document, some of them in parts; problems in either are reported together."""
    parted.take(data)
    try:
        tables = validate(SiteTables, data, Positions())
    except InputErrors as error:
        raise InputErrors([*error.errors, *parted.errors], error.more + parted.more) from None
    if parted.errors:
        raise InputErrors(parted.errors, parted.more)
    return tables.model_copy(update=parted.rows)


def read_text(path: Path) -> str:
    """A UTF-8 file's text. Raises `InputErrors` if it can't be read."""
    try:
        if not path.is_file() and not _is_open_already(path):
            raise InputErrors([InputError("file", str(path), "an existing file")])
        with path.open("rb") as file:
            return text_of(file, str(path))
    except OSError as error:
        raise InputErrors([InputError("file", str(path), f"can't be read: {error.strerror}")]) from None


def _is_open_already(path: Path) -> bool:
    """Whether it is a pipe that the shell has opened, as for `-f <(…)`: any other pipe might never get a writer."""
    return path.parent in (Path("/dev/fd"), Path("/proc/self/fd")) and path.is_fifo()


def text_of(file: IO[bytes], name: str) -> str:
    """The UTF-8 text of an open file, called `name` in errors. Raises `InputErrors`, `OSError`."""
    body = file.read(MOST_BYTES + 1)
    if len(body) > MOST_BYTES:
        raise InputErrors([InputError("file", name, f"at most {MOST_BYTES >> 20} MiB")])
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        saved = next((f"; this is {what}" for begin, what in _OTHERS if body.startswith(begin)), "")
        allowed = f"must be UTF-8; byte {error.start} is not{saved}"
        raise InputErrors([InputError("file", name, allowed)]) from None


def _located(path: tuple[str | int, ...], value: object, allowed: str, where: Positions) -> InputError:
    written = where.written(path)
    return InputError(dotted(written), value, allowed, where.at(written))


def _expand(
    table: Path_,
    columns: frozenset[str],
    value: Any,
    site_file: Path,
    where: Positions,
    errors: list[InputError],
    seen: OnFile,
) -> Any:
    """The rows of the table at that path with every include replaced by the rows of its file."""
    written: Any = [value] if isinstance(value, dict) and "csv" in value else value
    if not isinstance(written, list):
        return value
    places = _take_out(table, len(written), value is written, where)
    rows: list[Any] = []
    for item, inner in zip(written, places, strict=True):
        if isinstance(item, dict) and "csv" in item:
            for row, place in _include(table, columns, item, inner[()], site_file, errors, seen):
                where.by_path[(*table, len(rows))] = place
                rows.append(row)
            continue
        where.by_path.update({(*table, len(rows), *path): place for path, place in inner.items()})
        rows.append(item)
    return rows


def _take_out(table: Path_, count: int, is_list: bool, where: Positions) -> list[dict[Path_, str]]:
    """For each item of the table as written, the positions inside it, which are removed from `where`."""
    start, depth = where.by_path[table], len(table)
    places: list[dict[Path_, str]] = [{(): start} for _ in range(count)]
    for path in [p for p in where.by_path if p[:depth] == table and len(p) > depth]:
        place = where.by_path.pop(path)
        if is_list and isinstance(index := path[depth], int):
            places[index][path[depth + 1 :]] = place
    return places


def _include(
    table: Path_,
    columns: frozenset[str],
    item: dict[str, Any],
    line: str,
    site_file: Path,
    errors: list[InputError],
    seen: OnFile,
) -> list[tuple[dict[str, Any], str]]:
    """Rows of one `{csv: file}` with their positions; none if there are errors."""
    name = item["csv"]
    field = f"{dotted(table)}.csv"
    if len(item) > 1 or not isinstance(name, str):
        errors.append(
            InputError(field, ", ".join(item), "an include has one field, csv, with a file's name", line)
        )
        return []
    folder = site_file.parent
    path = folder / name
    try:
        inside = path.resolve().is_relative_to(folder.resolve())
        regular = path.is_file()
    except (OSError, ValueError, RuntimeError):  # a link to itself is a RuntimeError
        inside = regular = False
    if not inside:
        errors.append(InputError(field, name, "the file must be inside the site file's directory", line))
    elif not regular:
        errors.append(InputError(field, name, f"there is no such file in {folder}", line))
    else:
        try:
            return list(
                read_rows(path, str(path), columns, errors, lambda body: seen(table, name, path, body))
            )
        except OSError as error:
            errors.append(InputError(field, name, f"can't be read: {error.strerror}", line))
    return []


def _fold(tables: SiteTables, where: Positions) -> tuple[Site, list[WrongValue]]:
    """The site with the rows of `hcas` and `accelerators` moved into their nodes, and the rows without a known node."""
    index = {n.name: i for i, n in reversed(list(enumerate(tables.nodes)))}
    unknown: list[WrongValue] = []
    hcas = _by_node("hcas", tables.hcas, Hca, [n.hcas for n in tables.nodes], index, where, unknown)
    accelerators = _by_node(
        "accelerators",
        tables.accelerators,
        Accelerator,
        [n.accelerators for n in tables.nodes],
        index,
        where,
        unknown,
    )
    only = next(iter(tables.clouds)) if len(tables.clouds) == 1 else None
    nodes = tuple(
        _with(
            n,
            hcas=tuple(hcas[i]),
            accelerators=tuple(accelerators[i]),
            # With a single cloud, hosts and IPU-PODs need not name it.
            cloud=n.cloud or (only if n.role in BOOTABLE else None),
        )
        for i, n in enumerate(tables.nodes)
    )
    ipu_pods = {
        name: pod.model_copy(update={"cloud": pod.cloud or only}) for name, pod in tables.ipu_pods.items()
    }
    networks = {
        name: net.model_copy(update={"cloud": net.cloud or only}) for name, net in tables.networks.items()
    }
    own = ("nodes", "ipu_pods", "networks")
    values = {name: getattr(tables, name) for name in Site.model_fields if name not in own}
    return Site.model_construct(nodes=nodes, ipu_pods=ipu_pods, networks=networks, **values), unknown


def _with(node: Node, **values: object) -> Node:
    """The node with these values; itself if it already has them, which is cheaper than a copy."""
    return node if all(getattr(node, k) == v for k, v in values.items()) else node.model_copy(update=values)


def _by_node(
    table: str,
    rows: Sequence[HcaRow] | Sequence[AcceleratorRow],
    model: type[D],
    inline: Sequence[tuple[D, ...]],
    index: Mapping[str, int],
    where: Positions,
    unknown: list[WrongValue],
) -> list[list[D]]:
    """For each node what it has inline and in the table; rows without a known node go to `unknown`."""
    found = [list(items) for items in inline]
    for number, row in enumerate(rows):
        node = index.get(row.node)
        if node is None:
            if index:
                unknown.append(((table, number, "node"), row.node, "a node of the site"))
            elif not number:  # once, not for each row
                unknown.append((("nodes",), None, f"the site has no nodes, but {table} has rows for some"))
            continue
        where.aliases[("nodes", node, table, len(found[node]))] = (table, number)
        found[node].append(model.model_construct(**{name: getattr(row, name) for name in model.model_fields}))
    return found
