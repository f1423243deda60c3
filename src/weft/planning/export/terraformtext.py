"""Terraform's JSON syntax: files, names and strings. In it every string is a template."""

from __future__ import annotations

import json
from typing import Any

from weft.planning.export.text import head


def tf_file(site: str, body: dict[str, Any]) -> str:
    """A file of blocks; `//` is Terraform's comment."""
    document = {"//": head(site, "").strip(), **body}
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def literal(text: str) -> str:
    """Text taken literally: unescaped `${` and `%{` would begin an expression."""
    return text.replace("${", "$${").replace("%{", "%%{")


def reference(expression: str) -> str:
    """A template that contains only this expression."""
    return f"${{{expression}}}"


def tf_name(key: str) -> str:
    """A Terraform name (letters, digits, `_` and `-`, no digit first) for a key of the graph.

    Different keys have different names, whatever else there is: parts of a key begin and end with letters or digits.
    """
    name = "".join({"/": "_", "_": "__", ".": "_-"}.get(c, c) for c in key)
    return name if name[:1].isalpha() else f"_{name}"
