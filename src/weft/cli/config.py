"""`weft config`: check and show `weft.toml`, and print an example of it."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from weft.cli.common import Subparsers, group, leaf, say
from weft.cli.output import Listing, listed, write
from weft.model.errors import InputError, InputErrors

if TYPE_CHECKING:
    from weft.config.tomltext import TomlFile
    from weft.model.base import Document


def add_commands(subparsers: Subparsers) -> None:
    """Register `weft config`."""
    commands = group(subparsers, "config", "check and show the settings of weft's processes (weft.toml)")
    parser = listed(
        commands, "check", faults, "check weft.toml; exit 2 and a sentence for each fault", run=check
    )
    _file_option(parser)
    parser = listed(commands, "show", show, "show each setting, and where its value is from; secrets as ***")
    _file_option(parser)
    leaf(
        commands,
        "example",
        example,
        "print a weft.toml with every setting, its meaning and its default",
        api=False,
        json_=False,
    )


def _file_option(parser: argparse.ArgumentParser) -> None:
    from weft.config.table import FILE, VARIABLE

    parser.add_argument("--file", metavar="FILE", type=Path, help=f"default: {VARIABLE}, then {FILE}")


def check(args: argparse.Namespace) -> int:
    """`weft config check`: 0, or 2 with a sentence for each fault. With an output format the faults are rows."""
    if args.json or args.formatter != "table":
        return write(faults(args), args)
    file = _file(args)
    if found := _faults(file):
        raise InputErrors(found)
    say(f"{file.path}: valid")
    return 0


def faults(args: argparse.Namespace) -> Listing:
    """A row for each fault; code 2 if there is one."""
    rows = [
        {"place": one.where, "setting": one.field, "fault": str(one), "allowed": one.allowed}
        for one in _faults(_file(args))
    ]
    return Listing(("place", "setting", "fault"), rows, code=2 if rows else 0, more=("allowed",))


def show(args: argparse.Namespace) -> Listing:
    """A row for each setting: of `weft serve`, `weft worker`, and the agents that the file has a section for."""
    from weft.config.agents import shown_section
    from weft.config.resolve import config_file, resolve

    file = config_file(args.file, os.environ, "--file")
    if file is not None and (found := _faults(file)):
        raise InputErrors(found)
    rows = [
        {"setting": name, "value": value.shown, "source": value.source}
        for name, value in resolve(file, os.environ).values.items()
    ]
    for section, kind in agents().items():
        if file is not None and section in file.values:
            rows += [
                {"setting": name, "value": value, "source": source}
                for name, value, source in shown_section(file, section, kind, os.environ)
            ]
    return Listing(("setting", "value", "source"), rows)


def example(args: argparse.Namespace) -> int:
    """`weft config example`: print the file; returns 0."""
    from weft.config.example import example as text

    say(text(agents()).rstrip("\n"))
    return 0


def agents() -> dict[str, type[Document]]:
    """Section -> model of its settings."""
    from weft.fabricagent.config import SECTION as FABRIC
    from weft.fabricagent.config import AgentConfig
    from weft.probeagent.config import SECTION as PROBE
    from weft.probeagent.config import ProbeConfig

    return {FABRIC: AgentConfig, PROBE: ProbeConfig}


def _file(args: argparse.Namespace) -> TomlFile:
    """The settings file. Raises `InputError` if there is none."""
    from weft.config.resolve import config_file
    from weft.config.table import FILE, VARIABLE

    file = config_file(args.file, os.environ, "--file")
    if file is None:
        raise InputError("--file", None, f"a file to check; {VARIABLE} isn't set, and there is no {FILE}")
    return file


def _faults(file: TomlFile) -> list[InputError]:
    """Faults of every section, as its process would report them in this environment."""
    from weft.config.agents import read_section
    from weft.config.resolve import in_order, resolve

    found: dict[str, InputError] = {}
    try:
        resolve(file, os.environ)
    except InputErrors as error:
        found |= {str(one): one for one in error.errors}
    for section, kind in agents().items():
        try:
            if section in file.values:
                read_section(file, section, kind, os.environ)
        except InputErrors as error:
            found |= {str(one): one for one in error.errors}
    found |= {str(one): one for one in (*_policy_faults(file), *_key_faults(file))}
    return in_order(list(found.values()))


def _key_faults(file: TomlFile) -> list[InputError]:
    """The fault of the keys for the database's secrets, if their file is there."""
    section = file.values.get("weft")
    path = section.get("secrets_key") if isinstance(section, dict) else None
    if not isinstance(path, str) or not (file.folder / path).is_file():
        return []
    from weft.app.sealedsecrets import check_keys

    try:
        check_keys(file.folder / path)
    except InputError as error:
        return [InputError(error.field, error.value, error.allowed, file.where("weft", "secrets_key"))]
    return []


def _policy_faults(file: TomlFile) -> list[InputError]:
    """Faults in the policy file that `[serve]` names, if it is there."""
    section = file.values.get("serve")
    path = section.get("policy") if isinstance(section, dict) else None
    if not isinstance(path, str) or not (file.folder / path).is_file():
        return []
    from weft.app.policy import Policy

    try:
        Policy(file.folder / path)
    except InputErrors as error:
        return error.errors
    except InputError as error:
        return [error]
    return []
