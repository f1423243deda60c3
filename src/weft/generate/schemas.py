"""What is published from the models: JSON Schemas, the field tables of the two file pages, the state diagram.

`python -m weft.generate.schemas` writes them to `docs/` in the working directory; a test fails when they are out of
date.
"""

from __future__ import annotations

import json
import re
import sys
import types
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined, to_jsonable_python

from weft.model.order import Order
from weft.model.pod import DECIDES, MEANS, TRANSITIONS, Phase, PodState
from weft.model.sitefile import SWITCHING_TABLES, TABLES, CsvInclude, SiteFile, csv_columns

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_BLOCK = re.compile(r"(<!-- (?P<name>[\w:]+) -->\n).*?(<!-- end -->\n)", re.DOTALL)


def schemas() -> dict[str, dict[str, Any]]:
    """File name -> JSON Schema (draft 2020-12)."""
    found: dict[str, dict[str, Any]] = {}
    for name, model, title in (
        ("site.schema.json", SiteFile, "weft site file"),
        ("pod.schema.json", Order, "weft pod file"),
    ):
        found[name] = {"$schema": _DIALECT, **model.model_json_schema(), "title": title}
    switching = found["site.schema.json"]["$defs"]["Switching"]["properties"]
    for table in SWITCHING_TABLES:
        switching[table] = _with_includes(switching[table])
    return found


def _with_includes(rows: dict[str, Any]) -> dict[str, Any]:
    """The schema of a list that may also be in CSV files, as those of the tables are."""
    include = {"$ref": "#/$defs/CsvInclude"}
    listed = {"type": "array", "items": {"anyOf": [rows["items"], include]}}
    listed |= {k: v for k, v in rows.items() if k in ("minItems", "maxItems")}
    rest = {k: v for k, v in rows.items() if k in ("default", "description", "title")}
    return {"anyOf": [include, listed], **rest}


def models_of(root: type[BaseModel]) -> dict[str, type[BaseModel]]:
    """The model and every model inside it by name, in order of first appearance."""
    found: dict[str, type[BaseModel]] = {}
    todo = [root]
    while todo:
        model = todo.pop(0)
        if model.__name__ in found:
            continue
        found[model.__name__] = model
        todo += [inner for info in model.model_fields.values() for inner in _inside(info.annotation)]
    return found


def field_table(model: type[BaseModel]) -> str:
    """A Markdown table of a model's fields."""
    rows = ["| field | value | default | meaning |", "|---|---|---|---|"]
    hints = get_type_hints(model, include_extras=True)
    for name, info in model.model_fields.items():
        cells = (f"`{name}`", _value(info, hints[name]), _default(info), info.description or "")
        rows.append("| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |")
    return "\n".join(rows) + "\n"


def column_table() -> str:
    """A Markdown table of the columns that each CSV file may have; required ones are bold."""
    rows = ["| table | columns |", "|---|---|"]
    switching = {f"switching.{table}": model for table, model in SWITCHING_TABLES.items()}
    columns_of = {table: csv_columns(table) for table in TABLES}
    columns_of |= {name: tuple(model.model_fields) for name, model in switching.items()}
    for table, model in (TABLES | switching).items():
        columns = [f"**{c}**" if model.model_fields[c].is_required() else c for c in columns_of[table]]
        rows.append(f"| `{table}` | {', '.join(columns)} |")
    return "\n".join(rows) + "\n"


def states_diagram() -> str:
    """The phases of a pod as a Mermaid state diagram."""
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {Phase.ORDERED}: weft pod create"]
    for phase, following in TRANSITIONS.items():
        lines += [f"    {phase} --> {after}: {why}" for after, why in following.items()]
        if not following:
            lines.append(f"    {phase} --> [*]")
    return "\n".join([*lines, "```"]) + "\n"


def states_table() -> str:
    """The phases of a pod, and what leads from one to the next, as a Markdown table."""
    rows = ["| from | to | when |", "|---|---|---|"]
    for phase, following in TRANSITIONS.items():
        rows += [f"| {phase} | {after} | {why} |" for after, why in following.items()]
    return "\n".join(rows) + "\n"


def summaries_table() -> str:
    """A Markdown table of states, each with the condition whose message explains it."""
    rows = ["| state | meaning | explained by the message of |", "|---|---|---|"]
    rows += [f"| {state} | {MEANS[state]} | `{DECIDES[state]}` |" for state in PodState]
    return "\n".join(rows) + "\n"


def blocks() -> dict[str, str]:
    """Name of a block in a page -> its text."""
    models = models_of(SiteFile) | models_of(Order)
    return {
        **{f"fields:{name}": field_table(model) for name, model in models.items()},
        "csv:columns": column_table(),
        "states:picture": states_diagram(),
        "states:table": states_table(),
        "states:summaries": summaries_table(),
    }


def fill(page: str, texts: Mapping[str, str]) -> str:
    """The page with every block `<!-- name --> … <!-- end -->` replaced. Raises KeyError for an unknown name."""
    return _BLOCK.sub(lambda m: f"{m[1]}\n{texts[m['name']]}\n{m[3]}", page)


def files(docs: Path) -> dict[Path, str]:
    """Every published file under `docs` and what must be in it."""
    found = {
        docs / "schemas" / name: json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
        for name, schema in schemas().items()
    }
    texts = blocks()
    for name in ("site-file.md", "pod-file.md", "states.md"):
        found[docs / name] = fill((docs / name).read_text(), texts)
    return found


def main() -> int:
    """Write the generated documents into docs/. Exit code 2 outside the project's root directory."""
    docs = Path("docs")
    if not docs.is_dir():
        print("no docs/ here: run this in the project's root directory", file=sys.stderr)
        return 2
    for path, text in files(docs).items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        print(path)
    return 0


def _inside(annotation: Any) -> Iterator[type[BaseModel]]:
    """Models in an annotation."""
    if isinstance(annotation, type) and not get_args(annotation) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _inside(inner)


def _default(info: FieldInfo) -> str:
    if info.is_required():
        return "required"
    default = info.get_default(call_default_factory=True, validated_data={})
    if (
        default is None
        or default is PydanticUndefined
        or default in ((), {})
        or isinstance(default, BaseModel)
    ):
        return ""
    plain = to_jsonable_python(default)
    return f"`{plain if isinstance(plain, str) else json.dumps(plain)}`"


def _value(info: FieldInfo, hint: Any) -> str:
    """The type in a word or two, with its limits."""
    text = _type(hint)
    low = next((m.ge for m in info.metadata if hasattr(m, "ge")), None)
    high = next((m.le for m in info.metadata if hasattr(m, "le")), None)
    if low is not None and high is not None:
        return f"{text}, {low} to {high}"
    return f"{text}, {low} or more" if low is not None else text


def _type(annotation: Any) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _annotated(annotation)
    if origin is Literal:
        return ", ".join(f"`{a}`" for a in arguments)
    if origin in (Union, types.UnionType):
        return " or ".join(_type(a) for a in arguments if a is not types.NoneType)
    if origin is tuple:
        return f"list of {_type(arguments[0])}"
    if origin is dict:
        return f"by name: {_type(arguments[1])}"
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return ", ".join(f"`{a}`" for a in annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return (
            "`{csv: FILE}`"
            if annotation is CsvInclude
            else f"[{annotation.__name__}](#{annotation.__name__.lower()})"
        )
    return _WORDS[annotation.__name__]


def _annotated(annotation: Any) -> str:
    from weft.model import ids, order, ranges, site

    for known, word in (
        (ids.Guid, "GUID"),
        (ids.PKey, "P_Key"),
        (ids.Mac, "MAC address"),
        (ids.PciAddress, "PCI address"),
        (ids.Name, "name"),
        (order.PodName, "name"),
        (order.SshPublicKey, "public key"),
        (ids.Duration, "duration"),
        (ranges.Number, "number"),
        (site.Address, "IPv4 address"),
    ):
        if annotation == known:
            return word
    return _type(get_args(annotation)[0])


_WORDS = {
    "str": "text",
    "int": "number",
    "float": "number",
    "bool": "true or false",
    "datetime": "time with zone",
    "IPv4Network": "IPv4 network",
    "IPvAnyNetwork": "IPv4 or IPv6 network",
}

if __name__ == "__main__":
    sys.exit(main())
