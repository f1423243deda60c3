"""What is wrong with a clouds.yaml or secure.yaml.

openstacksdk skips what isn't YAML, logging the bad line, and accepts YAML of any structure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

import yaml

from weft.model.errors import InputError
from weft.model.errortable import Shown


def check_clouds(files: Iterable[tuple[str, Callable[[], bytes]]]) -> None:
    """Raise `InputError` if the first of the files that can be read can't be used.

    Args:
        files: path, and what reads it.
    """
    for file, read in files:
        try:
            content = read()
        except OSError:  # as openstacksdk does: the next one
            continue
        _check(content, file)
        return


_PASSWORDS = (None, "password", "v3password")


def check_profile(profile: Mapping[str, Any]) -> None:
    """Raise `InputError` for what keystoneauth fails on only later, without a word of where it is from.

    Args:
        profile: one cloud as openstacksdk has it, with its secrets and what variables say.
    """
    auth = cast(Mapping[str, Any], profile.get("auth") or {})
    url = auth.get("auth_url")
    if url and not str(url).lower().startswith(("http://", "https://")):
        raise InputError("auth_url", url, "a URL such as https://keystone.example/v3")
    if profile.get("auth_type") in _PASSWORDS and url and not auth.get("password"):
        where = "the user's password, under `auth` in clouds.yaml or secure.yaml, or in OS_PASSWORD"
        raise InputError("auth.password", None, where)


class _Texts(yaml.SafeLoader):
    """Every value is a text as it is written; what `<<` merges is merged."""


_Texts.yaml_implicit_resolvers = {
    first: [one for one in resolvers if one[0] == "tag:yaml.org,2002:merge"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _check(content: bytes, file: str) -> None:
    try:
        document: object = yaml.safe_load(content.decode())
        written: Any = yaml.load(content.decode(), Loader=_Texts)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        # The parser's own message quotes the line, which may contain a password.
        mark = error.problem_mark if isinstance(error, yaml.MarkedYAMLError) else None
        where = f"{file}:{mark.line + 1}" if mark else file
        allowed = "a YAML file in UTF-8, with values that begin with @, %, * or ! quoted"
        raise InputError("document", Shown("the file"), allowed, where) from None
    if document is None:
        return
    found = _mapping("the document", document, "with `clouds`", file)
    given = found.get("clouds", {})
    clouds = _mapping("clouds", given, "of names to profiles", file)
    for name, profile in clouds.items():
        inner = _mapping(f"clouds.{name}", profile or {}, "with `auth`", file)
        auth = _mapping(
            f"clouds.{name}.auth", inner.get("auth") or {}, "with `auth_url` and what signs in", file
        )
        # A cloud whose name is a number to YAML is named otherwise here: openstacksdk doesn't find it either.
        texts: Any = written["clouds"].get(str(name), {}).get("auth", {}) if auth else {}
        for key, value in auth.items():
            text = texts.get(str(key))
            if isinstance(value, bool | int | float) and text is not None and str(value) != text:
                allowed = (
                    "a text in quotes: YAML reads a number, or yes or no, and another text would be sent"
                )
                raise InputError(f"clouds.{name}.auth.{key}", Shown("this value"), allowed, file)


def _mapping(field: str, value: object, what: str, file: str) -> Mapping[object, object]:
    if not isinstance(value, dict):
        # The value may be a password.
        given = "a list" if isinstance(value, list) else "nothing" if value is None else "a single value"
        raise InputError(field, None, f"a mapping {what}, not {given}", file)
    return cast(Mapping[object, object], value)
