"""YAML text into plain data, with the line of every value.

Every plain scalar stays text: its field gives it a type. YAML's own guesses would turn the PCI
address `0000:05:00.0` into a number of base 60, `0010000000000001` into an integer, the node `no` into
false.
Anchors and aliases work; tags, merge keys and several documents in one file are refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import yaml

from weft.model.errors import InputError, InputErrors

Path = tuple[str | int, ...]
"""Position of a value in a document: keys and indexes from the root."""

MOST_VALUES = 1_000_000
"""Values in one document (without CSV rows), counting each use of an alias: ten lines of aliases can't fill the memory.
"""

DEEPEST = 50
"""Nesting levels of lists and mappings."""

_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_PLAIN_TAGS = frozenset({"tag:yaml.org,2002:str", "tag:yaml.org,2002:seq", "tag:yaml.org,2002:map"})
_LOADER: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


@dataclass(slots=True)
class Positions:
    """Path -> `file:line`; what isn't listed has the position of its nearest parent."""

    by_path: dict[Path, str] = field(default_factory=dict)
    aliases: dict[Path, Path] = field(default_factory=dict)
    """Path of a value in the site -> path as written."""

    def written(self, path: Path) -> Path:
        """The path as written, for a value that was moved elsewhere."""
        for length in range(len(path), 0, -1):
            if (origin := self.aliases.get(path[:length])) is not None:
                return self.written(origin + path[length:])
        return path

    def at(self, path: Path) -> str | None:
        """`file:line` of a path as written, or of its nearest parent; None if the document is not a file."""
        for length in range(len(path), -1, -1):
            if (where := self.by_path.get(path[:length])) is not None:
                return where
        return None


def dotted(path: Path) -> str:
    """`nodes[3].hcas[0].pci`, as errors name a field."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text or "document"


def read_yaml(text: str, file: str) -> tuple[dict[str, Any], Positions]:
    """The mapping in the text, and where each value is. Raises `InputErrors`."""
    reader = _Reader(file)
    try:
        _check_depth(text, file)
        root = yaml.compose(text, Loader=_LOADER)
        reader.where.by_path[()] = f"{file}:1"
        data = reader.value(root, ()) if root is not None else None
    except yaml.MarkedYAMLError as error:
        raise InputErrors([_syntax(error, file)]) from None
    except yaml.YAMLError as error:
        raise InputErrors(
            [InputError("document", str(error).splitlines()[0], "must be YAML", file)]
        ) from None
    if reader.errors:
        raise InputErrors(reader.errors)
    if not isinstance(data, dict):
        kind = "nothing" if data is None else "a list" if isinstance(data, list) else "text"
        raise InputErrors([InputError("document", kind, "must be a mapping of fields", f"{file}:1")])
    return data, reader.where


def _check_depth(text: str, file: str) -> None:
    """Refuse deep nesting before anything recurses into it: libyaml's composer would overflow the C stack."""
    depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > DEEPEST:
                where = f"{file}:{event.start_mark.line + 1}"
                raise InputErrors([InputError("document", "…", f"at most {DEEPEST} levels deep", where)])
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def without_nulls(value: Any, depth: int = 0) -> Any:
    """The value without keys whose value is null, at any depth: an empty field is the same as a missing one."""
    if depth > DEEPEST:
        # Only a document that didn't come from YAML can be this deep; no field is, so it will be refused.
        return value
    if isinstance(value, dict):
        return {k: without_nulls(v, depth + 1) for k, v in value.items() if v is not None}
    return [without_nulls(v, depth + 1) for v in value] if isinstance(value, list) else value


def _syntax(error: yaml.MarkedYAMLError, file: str) -> InputError:
    mark = error.problem_mark or error.context_mark
    where = f"{file}:{mark.line + 1}" if mark else file
    return InputError("document", error.problem or "text", error.context or "must be YAML", where)


class _Reader:
    def __init__(self, file: str) -> None:
        self.file = file
        self.where = Positions()
        self.errors: list[InputError] = []
        self.open: set[int] = set()
        self.count = 0

    def line(self, node: yaml.Node) -> str:
        return f"{self.file}:{node.start_mark.line + 1}"

    def refuse(self, path: Path, value: object, allowed: str, node: yaml.Node) -> None:
        self.errors.append(InputError(dotted(path), value, allowed, self.line(node)))

    def value(self, node: yaml.Node, path: Path) -> Any:
        self.count += 1
        if self.count > MOST_VALUES:
            raise InputErrors(
                [
                    InputError(
                        dotted(path), "…", f"at most {MOST_VALUES} values in one document", self.line(node)
                    )
                ]
            )
        if node.tag not in _PLAIN_TAGS:
            self.refuse(path, node.tag, "tags are not used here", node)
            return None
        if isinstance(node, yaml.ScalarNode):
            # The style is None or "" for a plain scalar; a quoted "null" is text.
            return None if not node.style and node.value in _NULLS else node.value
        if id(node) in self.open:
            self.refuse(path, "…", "an alias must not contain itself", node)
            return None
        self.open.add(id(node))
        result = self.mapping(node, path) if isinstance(node, yaml.MappingNode) else self.sequence(node, path)
        self.open.discard(id(node))
        return result

    def sequence(self, node: yaml.Node, path: Path) -> list[Any]:
        items: list[Any] = []
        for index, child in enumerate(node.value):
            self.where.by_path[(*path, index)] = self.line(child)
            items.append(self.value(child, (*path, index)))
        return items

    def mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key_node, child in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                self.refuse(path, "a list or mapping", "a field's name is text", key_node)
                continue
            key = key_node.value
            inner = (*path, key)
            if key in found:
                first = self.where.by_path[inner]
                self.refuse(inner, key, f"it is given twice; first at {first}", key_node)
                continue
            self.where.by_path[inner] = self.line(key_node)
            found[key] = self.value(child, inner)
        return found
