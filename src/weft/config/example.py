"""The example of `weft.toml`: every setting with its meaning, made from the table and from the agents' models."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping
from typing import cast

from pydantic_core import to_jsonable_python

from weft.config.agents import AgentSetting, settings_of
from weft.config.table import FILE, SECTIONS, TABLE, VARIABLE, Setting
from weft.model.base import Document

_HEAD = f"""\
# Settings of weft's processes: {FILE}, or the file that --config or {VARIABLE} names.
# An environment variable overrides the file, an option of the command line overrides both.
# Relative paths are relative to this file. `weft config check` checks it, `weft config show` shows what applies.
"""


def example(agents: Mapping[str, type[Document]]) -> str:
    """The file, with every setting commented out.

    Args:
        agents: section -> model of an agent's settings.
    """
    parts = [_HEAD]
    for section, meaning in SECTIONS.items():
        lines = agent_lines(section, agents[section]) if section in agents else _lines(section)
        parts.append("\n".join([*_comment(meaning), *lines]) + "\n")
    return "\n".join(parts)


def _lines(section: str) -> Iterator[str]:
    yield f"[{section}]"
    for one in (one for one in TABLE if one.section == section):
        yield ""
        yield from _comment(f"{_sentence(one.meaning)}{_note(one)}")
        yield f"#{one.key} = {one.example or toml_value(one.default)}"
        if one.secret:
            yield from _comment(f"Or the path of a file with it, or systemd's credential {one.credential}:")
            yield f'#{one.key}_file = "{one.key.replace("_", "-")}"'


def agent_lines(section: str, kind: type[Document]) -> Iterator[str]:
    """The lines of an agent's section, its header commented out too: the section means that the agent runs here."""
    table: tuple[str, ...] | None = None
    # TOML's order: a table's own keys before the tables in it.
    for one in sorted(settings_of(kind), key=lambda one: len(one.path) > 1):
        if table != one.path[:-1]:
            table = one.path[:-1]
            yield from ([""] if table else [])
            yield f"#[{'.'.join((section, *table))}]"
        yield from _comment(f"{one.meaning}. {_agent_note(one)}".rstrip())
        yield f"#{one.path[-1]} = {toml_value(one.example)}"


def _note(one: Setting) -> str:
    names = ", ".join(filter(None, (one.variable, one.option)))
    default = f" Default: {one.default_text}." if one.default_text else ""
    return f"{default} [{names}]" if names else default


def _agent_note(one: AgentSetting) -> str:
    if one.required:
        return "Required."
    return f"{one.path[-1]}_file names a file with it." if one.secret else ""


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def _comment(text: str) -> list[str]:
    return textwrap.wrap(text, 110, initial_indent="# ", subsequent_indent="# ") if text else []


def toml_value(value: object) -> str:
    """A value as TOML, of which JSON's text, numbers, lists and booleans are a part."""
    plain = to_jsonable_python(value)
    if isinstance(plain, dict):
        rows = cast(dict[str, object], plain).items()
        return f"{{{', '.join(f'{json.dumps(name)} = {toml_value(inner)}' for name, inner in rows)}}}"
    return json.dumps(plain)
