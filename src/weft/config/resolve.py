"""The settings of a process: command line over environment over systemd's credentials over file over defaults."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weft.config.kinds import NotAllowedError, is_loopback, listen
from weft.config.secretfiles import HIDDEN, credential, readable_by_others, secret_text
from weft.config.table import FILE, PROCESS, SECTIONS, TABLE, VARIABLE, Setting, default_state
from weft.config.tomltext import TomlFile, read_toml
from weft.model.errors import InputError, InputErrors
from weft.model.errortable import Shown

_SAFE = ("serve.tls_certificate", "serve.tls_key", "serve.plain_http")


@dataclass(frozen=True, slots=True)
class SettingValue:
    """A setting's value.

    Attributes:
        value: of its kind; None: there is none.
        source: `--option`, `VARIABLE`, `credential NAME`, `FILE:LINE` or `default`.
        field, where: of an error for this value.
    """

    setting: Setting
    value: Any = field(repr=False)
    source: str
    field: str
    where: str | None = None

    @property
    def shown(self) -> str | None:
        """The value as text; `***` for a secret."""
        if self.value is None:
            return None
        if self.setting.secret:
            return "***"
        return str(self.value).lower() if isinstance(self.value, bool) else str(self.value)

    def error(self, allowed: str) -> InputError:
        """An error for this value. Args: allowed: what would be allowed, as the end of a sentence."""
        return InputError(self.field, HIDDEN if self.setting.secret else str(self.value), allowed, self.where)


@dataclass(frozen=True, slots=True)
class Configuration:
    """All settings of a process, by name; `file`: what was read, if there is one."""

    file: TomlFile | None
    values: Mapping[str, SettingValue]

    def __getitem__(self, name: str) -> Any:
        return self.values[name].value


def config_file(
    given: Path | None, environment: Mapping[str, str], option: str = "--config"
) -> TomlFile | None:
    """The file: named by an option or WEFT_CONFIG, else /etc/weft/weft.toml if it exists.

    Raises `InputError` if a named file, or the default one that exists, can't be read.
    """
    if given is not None:
        return read_toml(given, option)
    if named := environment.get(VARIABLE):
        return read_toml(Path(named), VARIABLE)
    try:
        os.stat(FILE)  # noqa: PTH116 - is_file() says no as well if the folder can't be entered
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        allowed = f"a file that can be read ({error.strerror}); {VARIABLE}=/dev/null does without it"
        raise InputError(option, str(FILE), allowed) from None
    return read_toml(FILE, option)


def resolve(
    file: TomlFile | None,
    environment: Mapping[str, str],
    given: Mapping[str, object] | None = None,
    sections: Sequence[str] = PROCESS,
) -> Configuration:
    """All settings of some sections.

    Args:
        given: name -> text or flag of the options of the command line.
        sections: of the table. In the file's other sections, only names are checked.

    Raises `InputErrors` with every fault, also those of values in the file that something else overrides.
    """
    faults = list(unknown_names(file)) if file is not None else []
    values: dict[str, SettingValue] = {}
    for one in (one for one in TABLE if one.section in sections):
        try:
            values[one.name] = _in_file(one, file) or _default(one, environment)
        except InputError as error:
            faults.append(error)
        try:
            if above := _above(one, environment, given or {}):
                values[one.name] = above
        except InputError as error:
            faults.append(error)
    faults += _unusable(values)
    if faults:
        raise InputErrors(in_order(faults))
    return Configuration(file, values)


def in_order(faults: Sequence[InputError]) -> list[InputError]:
    """The faults by line; those outside the file come last."""

    def line(fault: InputError) -> tuple[bool, int]:
        number = (fault.where or "").rpartition(":")[2]
        return fault.where is None, int(number) if number.isdigit() else 0

    return sorted(faults, key=line)


def unknown_names(file: TomlFile) -> Iterator[InputError]:
    """Faults for unknown sections and keys; the keys of agents' sections are checked by `weft.config.agents`."""
    for section, content in file.values.items():
        if section not in SECTIONS and not isinstance(content, dict | list):
            own = [f"[{one.section}]" for one in TABLE if one.key == section]
            where = (
                f"below its section, {' or '.join(own)}" if own else f"below a section: {', '.join(SECTIONS)}"
            )
            yield InputError(section[:80], Shown("a key before any section"), where, file.where(section))
        elif section not in SECTIONS:
            known = f"{', '.join(SECTIONS)}{nearest(section, SECTIONS)}"
            yield InputError(f"[{section[:80]}]", Shown("an unknown section"), known, file.where(section))
        elif not isinstance(content, dict):
            yield InputError(section, HIDDEN, f"a section, [{section}]", file.where(section))
        elif keys := [s.key for s in TABLE if s.section == section]:
            keys += [f"{s.key}_file" for s in TABLE if s.section == section and s.secret]
            for key in (k for k in content if k not in keys):
                yield unknown_key(f"{section}.{key[:80]}", key, keys, file.where(section, key))


def unknown_key(field: str, key: str, known: Sequence[str], where: str) -> InputError:
    """The fault of a key that a section doesn't have. The value isn't shown, since it may be a secret."""
    return InputError(field, Shown("an unknown key"), f"{', '.join(known)}{nearest(key, known)}", where)


def nearest(word: str, known: Sequence[str] | Mapping[str, object]) -> str:
    """`; the nearest is NAME` if a known word is similar, else empty."""
    found = difflib.get_close_matches(word[:80], list(known), n=1, cutoff=0.5)
    return f"; the nearest is {found[0]}" if found else ""


def _default(one: Setting, environment: Mapping[str, str]) -> SettingValue:
    default = default_state(environment) if one.name == "weft.state" else one.default
    return SettingValue(one, default, "default", one.name)


def _above(one: Setting, environment: Mapping[str, str], given: Mapping[str, object]) -> SettingValue | None:
    """What overrides the file. Raises `InputError`."""
    if (text := given.get(one.name)) is not None:
        option = one.option
        return _read(one, text, option, option)
    if one.variable and (text := environment.get(one.variable)):
        return _read(one, text, one.variable, one.variable)
    path = credential(one.credential, environment) if one.credential else None
    if path is None:
        return None
    source = f"credential {path.name}"
    if one.secret_file:
        return SettingValue(one, path, source, source)
    return _read(one, secret_text(path, source, None), source, source)


def _in_file(one: Setting, file: TomlFile | None) -> SettingValue | None:
    """The setting's value in the file. Raises `InputError`, also for a secret in a file that others can read."""
    table = file.values.get(one.section) if file is not None else None
    if file is None or not isinstance(table, dict):
        return None
    where, other = file.where(one.section, one.key), f"{one.key}_file" if one.secret else ""
    if one.key in table:
        if other in table:
            raise InputError(one.name, HIDDEN, f"either {one.key} or {other}, not both", where)
        found = _read(one, table[one.key], one.name, where, file)
        if one.secret and one.kind.has_secret(found.value) and (why := readable_by_others(file.path)):
            allowed = f"without a secret, or {why}; {other} names a file of its own"
            raise InputError(one.name, HIDDEN, allowed, where)
        return found
    return _from_secret_file(one, table[other], file) if other in table else None


def _from_secret_file(one: Setting, value: Any, file: TomlFile) -> SettingValue:
    field, where = f"{one.name}_file", file.where(one.section, f"{one.key}_file")
    path = secret_path(value, field, where, file)
    text = secret_text(path, field, where)
    if why := readable_by_others(path):
        raise InputError(field, str(path), why, where)
    return _read(one, text, field, where, where=where)


def secret_path(value: Any, field: str, where: str, file: TomlFile) -> Path:
    """The path that a `KEY_file` names. Raises `InputError`."""
    if not isinstance(value, str) or not value or "\0" in value:
        raise InputError(field, HIDDEN, "a path, as a string in quotes", where)
    return file.folder / value


def _read(
    one: Setting,
    value: Any,
    field: str,
    source: str,
    file: TomlFile | None = None,
    where: str | None = None,
) -> SettingValue:
    """Convert a value to its kind. Raises `InputError`.

    Args:
        file: the value is one of its TOML values; None: the value is text, or an option's flag.
        where: file and line of the setting that names the text, if one does.
    """
    where = source if file is not None else where
    try:
        if file is not None:
            read = one.kind.from_file(value, file.folder)
        else:
            read = value if isinstance(value, bool) else one.kind.from_text(str(value))
    except NotAllowedError as error:
        shown = HIDDEN if one.secret else value
        if error.shown is not None:
            shown = Shown(error.shown)
        raise InputError(field, shown, error.allowed, where) from None
    return SettingValue(one, read, source, field, where)


def _unusable(values: Mapping[str, SettingValue]) -> Iterator[InputError]:
    """Faults of valid values: missing files, a certificate without its key, plain HTTP for other machines."""
    for value in values.values():
        if value.value is not None and (allowed := value.setting.kind.missing(value.value)) is not None:
            yield value.error(allowed)
    yield from _unsafe_listen(values)
    chain, key = values.get("serve.tls_certificate"), values.get("serve.tls_key")
    if chain is None or key is None or (chain.value is None) == (key.value is None):
        return
    there, lacking = (key, chain) if chain.value is None else (chain, key)
    name = lacking.setting.option if there.where is None else lacking.setting.name
    yield InputError(str(name), None, f"required with {there.field}", there.where)


def _unsafe_listen(values: Mapping[str, SettingValue]) -> Iterator[InputError]:
    """A fault for plain HTTP on an address that other machines reach, unless it was asked for."""
    address = values.get("serve.listen")
    if address is None or any((one := values.get(n)) is None or one.value for n in _SAFE):
        return
    if not is_loopback(listen(address.value)[0]):
        yield address.error(
            "without TLS a loopback address such as 127.0.0.1:8787, since tokens cross the connection: give "
            "--tls-certificate and --tls-key (serve.tls_certificate, serve.tls_key), or --plain-http "
            "(serve.plain_http) where something else encrypts it"
        )
