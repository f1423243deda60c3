"""pydantic's errors as weft's own: file and line, field, value, and what is allowed, in plain words."""

from __future__ import annotations

import difflib
import types
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Annotated, Any, TypeVar, Union, cast, get_args, get_origin

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from weft.app.yamltext import Path, Positions, dotted, without_nulls
from weft.model import hostchecks, ids, nodetests, storageorder
from weft.model.errors import InputError, InputErrors
from weft.model.ids import A_TIME
from weft.model.messages.message import Message
from weft.model.site import DNS_NAMES, deployment, monitoring, storage
from weft.model.site.ipus import PORT

D = TypeVar("D", bound=BaseModel)

MOST_ERRORS = 200
"""Maximum reported per document; the others are counted."""
_PATTERNS = {
    r"^[a-zA-Z0-9]([a-zA-Z0-9._-]*[a-zA-Z0-9])?$": ids.NAMES,
    r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$": "a-z, 0-9 and '-', starting and ending with a letter or digit, at most 40 "
    "characters",
    ids.DURATION: "a whole number with a unit s, m, h or d, such as 90m, 12h or 7d",
    r"^[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?$": DNS_NAMES,
    PORT: "a port's name without spaces, at most 64 characters, or its number",
    r"^[0-9a-zA-Z_-]{1,64}$": "the id of a project",
    r"^https://": "a URL that begins with https://",
    r"^https://[^\s/?#@]+$": "https:// with a host, and a port if it isn't 443, without anything after, such as https://ufm.example",
    r"^https?://[^\s/@]+$": "http:// or https:// with a host, without a path or a user",
    r"^((https|ssh)://[^\s/@]+/?|unix:/\S+)$": "https:// or ssh:// with a host, or unix: with the path of a socket",
    r"^[^\s/]+/[!-~]+$": "a switch and its port in ASCII, such as leaf01/swp7",
    r"^[!-.0-~][!-~]*$": "a port's name without spaces, or a switch and its port, in ASCII, such as leaf01/swp7",
    **ids.SAID,
    r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$": "a UUID in lower case",
    r"^(all|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})$": "all, or a pod's id",
    r"^0x[0-9a-f]{16}$": "0x and 16 hexadecimal digits in lower case",
    r"^[0-9a-f]{16}$": "a finding's key, 16 hexadecimal digits in lower case",
    r"^[0-9a-f]{64}$": "a SHA-256 of 64 hexadecimal digits in lower case",
    r"^[a-z]+\.[a-z][a-z0-9_]*$": "interface.step, such as deploy.erase_devices",
    r"^netmiko_[a-z0-9_]+$": "a device type of networking-generic-switch that begins with netmiko_",
    r"^(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(256|384|521)) [A-Za-z0-9+/]+={0,3}( [^\r\n]*)?$": "a public key in one"
    " line as OpenSSH writes it: ssh-ed25519, ssh-rsa or ecdsa-sha2-nistp…, the key, and a comment",
    r"^[A-Za-z0-9@._ -]*[A-Za-z0-9@_ -][A-Za-z0-9@._ -]*$": "letters, digits, spaces and @ . _ -, not dots alone",
    r"^[^\x00]*$": "text without zero bytes",
    r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$": "letters, digits and . _ -, beginning with a letter or digit, at most 63",
    r"^[a-z]{1,20}$": "lower-case letters, at most 20",
    r"^[A-Za-z_]{1,64}$": "letters and _, at most 64",
    r"^https://[\x21-\x7e]+$": "a URL that begins with https://, in ASCII without spaces",
    nodetests.TEST: "a-z, 0-9, '.', '_' and '-', at most 40 characters, the first a letter or digit",
    r"^[^\x00-\x1f\x7f-\x9f]*$": "text of one line, without control characters",
    r"^[^\x00-\x1f\x7f-\x9f]+$": "text of one line, without control characters",
    storageorder.SIZE: "a whole number of GiB or TiB, such as 500GiB or 1TiB",
    storageorder.MOUNT: "the full path of a directory such as /data: letters, digits and . _ -, no name beginning with "
    "a dot, no slash at the end",
    storageorder.EXISTING: "an id or name: letters, digits, spaces and . _ -",
    storageorder.TYPE: "a type's name: letters, digits, spaces and . _ -",
    storage.EXPORT: "a server and a path, such as nas1.example:/home",
    storage.MOUNT_OPTIONS: "mount options separated by commas, such as vers=4.2,nconnect=8",
    deployment.HOST_NAME: "a host name or domain: letters, digits and '-' in parts separated by dots; or an address",
    deployment.INTERFACE_NAME: "an interface of Linux, such as eno1 or bond0.12: at most 15 characters",
    deployment.ROLE_NAME: "letters and digits, beginning with a letter, at most 40 characters",
    deployment.PCI_ID: "four hexadecimal digits, such as 10de",
    deployment.DISTINGUISHED_NAME: "a distinguished name such as cn=weft,dc=example, without { } % and $",
    deployment.ATTRIBUTE_NAME: "the name of an attribute or object class in LDAP: letters, digits and '-'",
    deployment.LDAP_URLS: "ldaps:// or ldap:// with a host, and more of them after commas",
    deployment.PEM_PATH: "the full path of a file, without spaces",
    deployment.SDN_URL: "http:// or https:// with a host, and a path",
    deployment.API_URL: "http:// or https:// with a host, and a port, without a path",
    deployment.USER_NAME: "a user of Linux: a-z, 0-9, _ and -, at most 32 characters",
    monitoring.JOB_NAME: "a-z, 0-9, '_' and '-', starting with a letter, at most 31 characters",
    monitoring.HOST_PORT: "a host or address and a port, such as alerts.example:9093",
    monitoring.METRICS_PATH: "a path such as /metrics",
    monitoring.HOOK_URL: "http:// or https:// with a host, and a path if need be, without user or query",
    monitoring.FOLDER: "the full path of a folder: letters, digits and . _ - /",
    hostchecks.CODE: "A-Z, 0-9 and '_', starting with a letter, at most 40 characters",
    hostchecks.DIGEST: "sha256: and 64 hex digits",
}
"""`pattern` of a model of input files -> what it allows, in words."""
_SENTENCES = {
    "greater_than_equal": "{ge} or more",
    "less_than_equal": "{le} or less",
    "literal_error": "{expected}",
    "string_too_long": "at most {max_length} characters",
    "string_too_short": "at least {min_length} characters",
    "too_short": "at least {min_length}",
    "too_long": "at most {max_length}",
    "greater_than": "more than {gt}",
    "less_than": "less than {lt}",
    "finite_number": "a finite number",
    "enum": "{expected}",
    "int_parsing": "a whole number",
    "int_parsing_size": "a whole number with fewer digits",
    "int_from_float": "a whole number",
    "int_type": "a whole number",
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "string_type": "text",
    "string_unicode": "text whose characters are all in Unicode, without half of a surrogate pair",
    "string_not_ascii": "text in ASCII",
    "model_type": "a mapping of fields",
    "model_attributes_type": "a mapping of fields",
    "dict_type": "a mapping of names",
    "tuple_type": "a list",
    "datetime_parsing": A_TIME,
    "datetime_type": A_TIME,
    "datetime_object_invalid": A_TIME,
    "datetime_from_date_parsing": A_TIME,
    "timezone_aware": A_TIME,
    "list_type": "a list",
    "set_type": "a list",
    "mapping_type": "a mapping of names",
    "float_type": "a number",
    "float_parsing": "a number",
    "ip_v4_address": "an IPv4 address such as 10.1.0.5",
    "ip_v4_network": "an IPv4 network such as 10.1.0.0/24, without host bits",
}


def validate(model: type[D], data: Mapping[str, Any], where: Positions, under: Path = ()) -> D:
    """The document, or `InputErrors` with one error per problem, in line order.

    Args:
        under: path of the document in the given one.
    """
    try:
        found = model.model_validate(data)
    except ValidationError as error:
        errors, more = _errors(model, error, where, under)
        raise InputErrors(errors, more) from None
    errors, more = _no_numbers(data, found, where, under)
    if errors:
        raise InputErrors(errors, more)
    return found


def validate_written(model: type[D], data: Mapping[str, Any], where: Positions) -> D:
    """`validate` for a document that people write: a known field without a value counts as missing."""
    check_nulls(model, data, where)
    return validate(model, without_nulls(data), where)


def check_nulls(model: type[BaseModel], data: Mapping[str, Any], where: Positions) -> None:
    """Raise `InputErrors` for empty fields that the document doesn't have."""
    unknown = [
        InputError(dotted(path), "null", _unknown(str(path[-1]), parent), where.at(path))
        for path, parent in _unknown_nulls(model, data)
    ]
    if unknown:
        raise InputErrors(by_line(unknown[:MOST_ERRORS]), len(unknown[MOST_ERRORS:]))


def _unknown_nulls(
    annotation: Any, data: object, path: Path = ()
) -> Iterator[tuple[Path, type[BaseModel] | None]]:
    """Paths of nulls under names that no field has, with the model that lacks it. Values that may be of several
    models are left out."""
    kind = _plain(annotation)
    if isinstance(data, Mapping) and isinstance(kind, type) and issubclass(kind, BaseModel):
        known, below = _names(kind), _below(kind)
        for key, value in cast(Mapping[str, object], data).items():
            if value is None and key not in known:
                yield (*path, key), kind
            elif type(value) in _DEEPER and (of_value := below.get(key)) is not None:
                yield from _unknown_nulls(of_value, value, (*path, key))
        return
    of = get_args(kind)
    if isinstance(data, list) and of:
        for index, one in enumerate(cast(list[object], data)):
            yield from _unknown_nulls(of[0], one, (*path, index))
    elif isinstance(data, Mapping) and len(of) == 2:
        for key, value in cast(Mapping[str, object], data).items():
            yield from _unknown_nulls(of[1], value, (*path, key))


@cache
def _below(model: type[BaseModel]) -> Mapping[str, Any]:
    """Name of a field in documents -> its type, without fields that may have several models."""
    fields = {field.alias or name: field.annotation for name, field in model.model_fields.items()}
    return {name: _plain(of) for name, of in fields.items() if not _is_of_several(of)}


def _is_of_several(annotation: Any) -> bool:
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    kinds = get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else ()
    return len([kind for kind in kinds if kind is not types.NoneType]) > 1


def _no_numbers(
    data: object, found: object, where: Positions, under: Path, first: int = 0
) -> tuple[list[InputError], int]:
    """Errors of booleans that were read as numbers, and the number of further ones.

    Args:
        first: see `validate_rows`.
    """
    wrong = list(_booleans_as_numbers(data, found))
    errors: list[InputError] = []
    for path, value in wrong[:MOST_ERRORS]:
        inside = (first + path[0], *path[1:]) if isinstance(path[0], int) else path
        at = where.written((*under, *inside))
        errors.append(InputError(dotted(at), value, "a number, not true or false", where.at(at)))
    return by_line(errors), len(wrong) - len(errors)


_DEEPER = frozenset({bool, dict, list})


@cache
def _names(model: type[BaseModel]) -> Mapping[str, str]:
    """Name of a field in documents -> its name in the model."""
    return {field.alias or name: name for name, field in model.model_fields.items()}


def _booleans_as_numbers(data: object, found: object, path: Path = ()) -> Iterator[tuple[Path, bool]]:
    """Booleans that pydantic has read as the numbers 0 and 1. Args: found: what the data was read as."""
    if isinstance(data, bool):
        if isinstance(found, int | float) and not isinstance(found, bool):
            yield path, data
    elif isinstance(data, Mapping) and isinstance(found, BaseModel):
        for key, value in cast(Mapping[str, object], data).items():
            # A site of 100,000 nodes has millions of values, of which hardly any is looked at here.
            if type(value) in _DEEPER and (name := _names(type(found)).get(key)) is not None:
                yield from _booleans_as_numbers(value, getattr(found, name), (*path, key))
    elif isinstance(data, Mapping) and isinstance(found, Mapping):
        read_as = cast(Mapping[str, object], found)
        for key, value in cast(Mapping[str, object], data).items():
            yield from _booleans_as_numbers(value, read_as.get(key), (*path, key))
    elif isinstance(data, list) and isinstance(found, tuple | list) and len(data) == len(found):  # pyright: ignore[reportUnknownArgumentType]
        rows = zip(cast(list[object], data), cast(Sequence[object], found), strict=True)
        for index, (one, read) in enumerate(rows):
            yield from _booleans_as_numbers(one, read, (*path, index))


def validate_rows(
    model: type[D], table: str, rows: Any, first: int
) -> tuple[tuple[D, ...], list[InputError], int]:
    """The rows of a table; if any are invalid, no rows, but the errors and the number of further errors.

    Args:
        first: index in the table of the first of these rows.
    """
    try:
        found: tuple[D, ...] = _rows_of(model).validate_python(rows)
    except ValidationError as error:
        return (), *_errors(model, error, Positions(), (table,), first)
    errors, more = _no_numbers(rows, found, Positions(), (table,), first)
    return ((), errors, more) if errors else (found, [], 0)


@cache
def _rows_of(model: type[D]) -> TypeAdapter[Any]:
    rows: Any = tuple[model, ...]  # pyright: ignore[reportInvalidTypeForm]
    return TypeAdapter(rows)


def _errors(
    model: type[BaseModel], error: ValidationError, where: Positions, under: Path, first: int | None = None
) -> tuple[list[InputError], int]:
    found = error.errors(include_url=False)
    errors = by_line([_error(model, e, where, under, first) for e in found[:MOST_ERRORS]])
    return errors, len(found) - len(errors)


def by_line(errors: list[InputError]) -> list[InputError]:
    """The errors sorted by file, in order of first appearance, and line."""
    files: dict[str, int] = {}

    def place(error: InputError) -> tuple[int, int]:
        file, _, line = (error.where or "").rpartition(":")
        return files.setdefault(file, len(files)), int(line) if line.isdigit() else 0

    return sorted(errors, key=place)


def shown(value: object) -> object:
    """A value shortened for an error message."""
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, str) and len(value) > 80:
        return value[:77] + "..."
    return value


def _error(
    model: type[BaseModel], error: ErrorDetails, where: Positions, under: Path, first: int | None
) -> InputError:
    """One error; `first` is the index of the first row if the model is that of a row."""
    path: Path = tuple(p for p in error["loc"] if p != "[key]")
    if first is not None and path:
        under, path = (*under, first + int(path[0])), path[1:]
    parent, info = _find(model, path)
    value: object = shown(error["input"])
    kind = error["type"]
    if kind == "missing":
        value, allowed = None, (info.description or "").rstrip(".") if info is not None else ""
        allowed = allowed or "required"
    elif kind == "extra_forbidden":
        value, allowed = "null" if value is None else value, _unknown(str(path[-1]), parent)
    else:
        allowed = in_words(kind, error.get("ctx", {}), error["msg"])
    path = where.written((*under, *path))
    return InputError(dotted(path), value, allowed, where.at(path))


def in_words(kind: str, details: Mapping[str, Any], message: str) -> str:
    """What is allowed, from pydantic's error type, `ctx` and message."""
    if kind == "string_pattern_mismatch":
        pattern = details.get("pattern", "")
        return _PATTERNS.get(pattern, f"text of the form {pattern}")
    if kind == "value_error":
        error = details.get("error", message)
        said = error.args[0] if isinstance(error, ValueError) and error.args else error
        return said if isinstance(said, Message) else str(error)  # str() of the error would lose its code
    if kind in _SENTENCES:
        return _SENTENCES[kind].format(**details)
    return message[:1].lower() + message[1:]


def _unknown(name: str, parent: type[BaseModel] | None) -> str:
    known = sorted(parent.model_fields) if parent is not None else []
    near = difflib.get_close_matches(name, known, 1)
    hint = f"did you mean {near[0]}? " if near else ""
    return f"unknown field; {hint}known here: {', '.join(known)}"


def _find(model: type[BaseModel], path: Path) -> tuple[type[BaseModel] | None, FieldInfo | None]:
    """The model and the field that the last part of the path refers to, if they exist."""
    current: Any = model
    parent: type[BaseModel] | None = None
    info: FieldInfo | None = None
    for part in path:
        current = _plain(current)
        if isinstance(current, type) and issubclass(current, BaseModel):
            parent, info = current, current.model_fields.get(str(part))
            current = info.annotation if info is not None else None
        else:
            arguments = get_args(current)
            # tuple[X, ...] and dict[Name, X]: the element's type.
            current = arguments[0] if get_origin(current) is tuple else arguments[-1] if arguments else None
    return parent, info


def _plain(annotation: Any) -> Any:
    """The type without Annotated and None."""
    while True:
        if get_origin(annotation) is Annotated:
            annotation = get_args(annotation)[0]
        elif get_origin(annotation) in (Union, types.UnionType):
            annotation = next((a for a in get_args(annotation) if a is not types.NoneType), None)
        else:
            return annotation
