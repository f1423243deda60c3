"""Values as text: YAML and INI files that are the same for the same values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import yaml

Option = tuple[str, str]
"""Name and value of an option; one name several times is an option with several values."""
Sections = Mapping[str, Sequence[Option]]


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        """Equal lists are written out: anchors in a configuration file confuse people."""
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        """Lists are indented in their key, as Ansible's linters want it."""
        return super().increase_indent(flow, False)


def head(site: str, comment: str = "#") -> str:
    """The first line of every file that has comments."""
    return f"{comment} Of `weft site export` for site {site}: change the site file, and export again.\n"


def yaml_file(site: str, value: Any) -> str:
    """A YAML document with its first lines."""
    text = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
    return f"{head(site)}---\n{text}"


def ini_file(site: str, sections: Sections) -> str:
    """An oslo.config file; sections without options are left out."""
    return head(site) + "".join(ini_section(name, options) for name, options in sections.items() if options)


def ini_section(name: str, options: Iterable[Option]) -> str:
    return f"\n[{name}]\n" + "".join(f"{option} = {value}\n" for option, value in options)


def identifier(name: str) -> str:
    """A name as a variable of Ansible's: letters, digits and underscores."""
    return "".join(c if c.isalnum() else "_" for c in name.lower())
