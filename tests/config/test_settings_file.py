"""`weft.toml`: precedence of its values, errors, and secrets that others could read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from weft.app.settings import settings_of
from weft.config import resolve as resolving
from weft.config.resolve import Configuration, config_file, resolve
from weft.config.table import PROCESS, TABLE
from weft.config.tomltext import read_toml
from weft.model.errors import InputError, InputErrors

CANARY = "canary7"


def file(folder: Path, text: str, mode: int = 0o600) -> Path:
    path = folder / "weft.toml"
    path.write_text(text)
    path.chmod(mode)
    return path


def read(
    path: Path,
    environment: dict[str, str] | None = None,
    given: dict[str, object] | None = None,
    sections: tuple[str, ...] = PROCESS,
) -> Configuration:
    return resolve(read_toml(path, "--config"), environment or {}, given, sections)


def faults(
    path: Path, environment: dict[str, str] | None = None, given: dict[str, object] | None = None
) -> list[str]:
    with pytest.raises(InputErrors) as caught:
        read(path, environment, given)
    return [str(one).replace(f"{path.parent}/", "") for one in caught.value.errors]


def test_option_beats_variable_beats_credential_beats_file_beats_default(tmp_path: Path) -> None:
    """The source of each value is known."""
    path = file(tmp_path, '\n[weft]\ndatabase = "postgresql://file/weft"\nstate = "s"\n')
    (tmp_path / "database").write_text("postgresql://credential/weft\n")
    folder = {"CREDENTIALS_DIRECTORY": str(tmp_path)}
    variable = {**folder, "WEFT_DATABASE": "postgresql://variable/weft"}
    option: dict[str, object] = {"weft.database": "postgresql://option/weft"}
    found = [
        read(path, variable, option),
        read(path, variable),
        read(path, folder),
        read(path),
        read(file(tmp_path, "")),
    ]
    values = [one.values["weft.database"] for one in found]
    assert [one.value and one.value.split("/")[2] for one in values] == [
        "option",
        "variable",
        "credential",
        "file",
        None,
    ]
    assert [one.source for one in values] == [
        "--database",
        "WEFT_DATABASE",
        "credential database",
        f"{path}:3",
        "default",
    ]
    assert found[0]["weft.state"] == tmp_path / "s", "relative to the file"


def test_settings_of_the_file_reach_the_process(tmp_path: Path) -> None:
    """Every key of the sections of `weft serve`, each different from its default."""
    for name in ("site.yaml", "policy.yaml", "token", "tls.pem", "tls.key", "secrets.key", "ca.key"):
        (tmp_path / name).touch()
    text = (
        '[weft]\ndatabase = "postgresql://db/weft"\nstate = "/s"\ncloud_profile = "c"\nsite = "site.yaml"\n'
        'secrets_key = "secrets.key"\nauthority_key = "ca.key"\n'
        'workers = 3\nsweep_every = 60\n[serve]\nlisten = "[::]:1"\nplain_http = true\ntls_certificate = "tls.pem"\n'
        'tls_key = "tls.key"\npublic_url = "https://weft.example"\npolicy = "policy.yaml"\n'
        'websso_url = "https://k.example/v3/auth/OS-FEDERATION/websso/openid"\n'
        'neutron_token_file = "token"\nmonitoring_token_file = "token"\n'
        'worker = false\n[logs]\nlevel = "DEBUG"\nformat = "json"\n'
    )
    found = read(file(tmp_path, text))
    assert [one.source for one in found.values.values() if one.source == "default"] == []
    made = settings_of(found)
    assert (made.secrets_key, made.authority_key) == (tmp_path / "secrets.key", tmp_path / "ca.key")
    assert (made.database, made.state, made.cloud_profile) == ("postgresql://db/weft", Path("/s"), "c")
    assert (made.site, made.workers, made.sweep_every) == (tmp_path / "site.yaml", 3, 60.0)
    assert (made.host, made.port, made.public_url) == ("::", 1, "https://weft.example")
    assert made.websso_url == "https://k.example/v3/auth/OS-FEDERATION/websso/openid"
    assert made.certificate == (tmp_path / "tls.pem", tmp_path / "tls.key")
    assert (made.policy, made.neutron_token) == (tmp_path / "policy.yaml", tmp_path / "token")
    assert (made.worker, made.log_level, made.log_format) == (False, "DEBUG", "json")


def test_all_errors_are_reported_by_line(tmp_path: Path) -> None:
    """Unknown keys with the nearest known one and without their values, wrong types, numbers out of range."""
    path = file(
        tmp_path,
        f'[weft]\nwokers = "{CANARY}"\nworkers = "8"\nsweep_every = 5\nstate = 3\n\n[serv]\nlisten = 1\n'
        '[serve]\nlisten = "no port"\nworker = "no"\n[logs]\nlevel = "LOUD"\nformat = ["json"]\n',
    )
    found = faults(path)
    assert [one.partition(": ")[0] for one in found] == [
        f"weft.toml:{n}" for n in (2, 3, 4, 5, 7, 10, 11, 13, 14)
    ]
    assert found[0].endswith("sweep_every, database_file; the nearest is workers") and CANARY not in str(
        found
    )
    assert (
        found[1] == "weft.toml:3: weft.workers: '8' is not allowed: a whole number, 1 to 64, without quotes"
    )
    assert found[2] == "weft.toml:4: weft.sweep_every: 5 is not allowed: 10 to 86400 seconds"
    assert found[4].startswith("weft.toml:7: [serv]: an unknown section is not allowed: weft, serve, logs,")
    assert found[4].endswith("; the nearest is serve")
    assert found[7] == "weft.toml:13: logs.level: 'LOUD' is not allowed: DEBUG, INFO, WARNING, ERROR"


def test_key_before_any_section_is_reported_with_its_section(tmp_path: Path) -> None:
    """Files often begin with keys and no section."""
    found = faults(file(tmp_path, f'workers = 8\ndatabase = "{CANARY}"\nspeed = 1\n[weft]\n'))
    assert (
        found[0] == "weft.toml:1: workers: a key before any section is not allowed: below its section, [weft]"
    )
    assert found[1].endswith("below its section, [weft]") and CANARY not in found[1]
    assert found[2].startswith(
        "weft.toml:3: speed: a key before any section is not allowed: below a section: weft,"
    )


def test_public_url_with_a_password_is_refused_without_showing_it(tmp_path: Path) -> None:
    """Keystone's catalog and `weft config show` would show it to everyone."""
    (fault,) = faults(file(tmp_path, f'[serve]\npublic_url = "https://weft:{CANARY}@weft.example"\n'))
    assert fault.startswith(
        "weft.toml:2: serve.public_url: what is there is not allowed: a URL without user and"
    )


@pytest.mark.parametrize("value", ["true", "1.0", "0", "65", "-1", "[8]", "{}", "1979-05-27"])
def test_value_of_another_type_or_range_is_refused(tmp_path: Path, value: str) -> None:
    """Other types of TOML, and booleans, which Python takes for numbers."""
    (fault,) = faults(file(tmp_path, f"[weft]\nworkers = {value}\n"))
    assert fault.startswith("weft.toml:2: weft.workers: ") and "1 to 64" in fault


def test_invalid_value_is_an_error_even_if_overridden(tmp_path: Path) -> None:
    """So that `config check` and the start agree; an invalid option is a second error, with its own name."""
    found = faults(file(tmp_path, "[weft]\nworkers = 0\n"), given={"weft.workers": "x"})
    assert found == [
        "weft.toml:2: weft.workers: 0 is not allowed: 1 to 64",
        "--workers: 'x' is not allowed: 1 to 64",
    ]


def test_agents_section_is_not_checked_by_the_service(tmp_path: Path) -> None:
    """An error in it doesn't stop `weft serve`."""
    assert read(file(tmp_path, "[fabric_agent]\nnot_known_here = 1\n"))["weft.workers"] == 8


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f"[weft]\nstate = {CANARY}\n", "weft.toml:2: --config: this line is not allowed: TOML ("),
        (f'[weft]\nstate = "{CANARY}\n', "weft.toml:2: --config: this line is not allowed: TOML ("),
        (f'[weft]\nstate = "a"\nstate = "{CANARY}"\n', "weft.toml:3: "),
        (f'a = "{CANARY}"\n[a]\n', "weft.toml:2: "),
        ("x = 1\n" * 20_000, "a file of at most 65536 bytes"),
    ],
)
def test_text_that_is_not_toml_is_reported_without_its_content(tmp_path: Path, text: str, says: str) -> None:
    """One sentence with the line."""
    with pytest.raises(InputError) as caught:
        read_toml(file(tmp_path, text), "--config")
    assert says in str(caught.value) and CANARY not in str(caught.value)


def test_missing_and_unreadable_files_are_reported(tmp_path: Path) -> None:
    """By what named the file; also for a directory, and for bytes that aren't UTF-8."""
    with pytest.raises(InputError, match=r"--config: '.*nix.toml' is not allowed: a file that can be read"):
        config_file(tmp_path / "nix.toml", {})
    with pytest.raises(InputError, match=r"WEFT_CONFIG: .* \(Is a directory\)"):
        config_file(None, {"WEFT_CONFIG": str(tmp_path)})
    path = tmp_path / "weft.toml"
    path.write_bytes(b"[weft]\n# \xff\n")
    with pytest.raises(InputError, match=r"weft.toml:2: .*UTF-8"):
        config_file(path, {})


def test_system_wide_file_is_read_if_it_exists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If none is named: /etc/weft/weft.toml; without that, no file."""
    monkeypatch.setattr(resolving, "FILE", tmp_path / "etc" / "weft.toml")
    assert config_file(None, {"WEFT_CONFIG": ""}) is None
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "weft.toml").write_text("[weft]\nworkers = 2\n")
    assert resolve(config_file(None, {}), {})["weft.workers"] == 2
    assert resolve(config_file(None, {"WEFT_CONFIG": "/dev/null"}), {})["weft.workers"] == 8


@pytest.mark.parametrize(
    ("mode", "refused"), [(0o600, False), (0o400, False), (0o640, False), (0o604, True), (0o660, True)]
)
def test_file_with_a_password_must_be_private(tmp_path: Path, mode: int, refused: bool) -> None:
    """A file of root may be readable by its group, which is that of weft's user."""
    if os.geteuid() != 0 and mode == 0o640:
        refused = True
    path = file(tmp_path, f'[weft]\ndatabase = "postgresql://weft:{CANARY}@db/weft"\n', mode)
    if not refused:
        assert CANARY in read(path)["weft.database"]
        return
    for environment in ({}, {"WEFT_DATABASE": "postgresql://other/weft"}):
        (fault,) = faults(path, environment)
        assert (
            "weft.toml:2: weft.database: this value is not allowed: without a secret, or a file that" in fault
        )
        assert f"{mode:o}" in fault and "database_file" in fault and CANARY not in fault


def test_url_without_a_password_may_be_in_a_public_file(tmp_path: Path) -> None:
    """A user and a host aren't secret; a password in the query is."""
    assert read(file(tmp_path, '[weft]\ndatabase = "postgresql://weft@db/weft"\n', 0o644))
    assert faults(file(tmp_path, f'[weft]\ndatabase = "postgresql://db/weft?password={CANARY}"\n', 0o644))


def test_secret_may_be_in_a_file_of_its_own(tmp_path: Path) -> None:
    """The path is relative to weft.toml and the line end is removed; errors: missing, not private, or given twice."""
    path = file(tmp_path, '[weft]\ndatabase_file = "url"\n', 0o644)
    assert "(No such file or directory)" in faults(path)[0]
    secret = tmp_path / "url"
    secret.write_text(f"postgresql://weft:{CANARY}@db/weft\n")
    secret.chmod(0o644)
    assert (
        "weft.toml:2: weft.database_file: 'url' is not allowed: a file that others can't read"
        in faults(path)[0]
    )
    secret.chmod(0o600)
    found = read(path).values["weft.database"]
    assert found.value.endswith("@db/weft") and found.source == f"{path}:2"
    assert found.shown == "***" and CANARY not in repr(found) + repr(settings_of(read(path)))
    secret.write_text(f"mysql:/{CANARY}")
    assert "weft.database_file: no scheme" in faults(path)[0].replace("'", "") and CANARY not in str(
        faults(path)
    )
    both = file(tmp_path, '[weft]\ndatabase_file = "url"\ndatabase = "postgresql://db/weft"\n')
    assert "either database or database_file, not both" in faults(both)[0]
    assert "a path, as a string" in faults(file(tmp_path, "[weft]\ndatabase_file = 3\n"))[0]


def test_systemd_credential_replaces_a_path(tmp_path: Path) -> None:
    """For the API's private key and the token of Neutron's driver."""
    for name in ("tls_key", "neutron_token", "tls.pem"):
        (tmp_path / name).touch()
    path = file(tmp_path, '[serve]\ntls_certificate = "tls.pem"\n')
    found = settings_of(read(path, {"CREDENTIALS_DIRECTORY": str(tmp_path)}))
    assert found.certificate == (tmp_path / "tls.pem", tmp_path / "tls_key")
    assert found.neutron_token == tmp_path / "neutron_token"


def test_unreadable_credentials_directory_is_not_taken_for_a_missing_credential(tmp_path: Path) -> None:
    """A name that is too long stands for a directory that can't be entered; without the directory, the file's
    value counts."""
    path = file(tmp_path, '[weft]\ndatabase = "postgresql://file/weft"\n')
    assert read(path, {"CREDENTIALS_DIRECTORY": str(tmp_path / "none")}).values["weft.database"].where
    (fault, *_) = faults(path, {"CREDENTIALS_DIRECTORY": str(tmp_path / ("x" * 300))})
    assert fault.startswith("CREDENTIALS_DIRECTORY: ") and "a folder that can be entered" in fault


def test_files_that_do_not_exist_are_reported(tmp_path: Path) -> None:
    """By the line that names them; a certificate needs its key."""
    found = faults(file(tmp_path, '[weft]\nsite = "nix"\n[serve]\ntls_certificate = "nix.pem"\n'))
    assert [one.partition(" is ")[0].partition(" missing")[0] for one in found] == [
        "weft.toml:2: weft.site: '" + f"{'nix'}'",
        "weft.toml:4: serve.tls_certificate: 'nix.pem'",
        "weft.toml:4: serve.tls_key:",
    ]


@pytest.mark.parametrize(
    ("listen", "safe"),
    [
        ("127.0.0.1:0", True),
        ("127.9.9.9:1", True),
        ("[::1]:1", True),
        ("localhost:1", True),
        ("0.0.0.0:1", False),
        (":1", False),
        ("[::]:1", False),
        ("10.0.0.5:8787", False),
    ],
)
def test_plain_http_is_allowed_on_loopback_only(tmp_path: Path, listen: str, safe: bool) -> None:
    """Tokens cross the connection; `plain_http` or a certificate allows other addresses."""
    given: dict[str, object] = {"serve.listen": listen}
    path = file(tmp_path, "")
    if safe:
        assert read(path, given=given)["serve.listen"] == listen
        return
    (fault,) = faults(path, given=given)
    assert fault.startswith(f"--listen: '{listen}' is not allowed: without TLS a loopback address")
    assert read(path, given={**given, "serve.plain_http": True})
    for name in ("c", "k"):
        (tmp_path / name).touch()
    tls: dict[str, object] = {f"serve.tls_{n}": str(tmp_path / n[0]) for n in ("certificate", "key")}
    assert read(path, given={**given, **tls})
    assert read(path, given=given, sections=("weft", "logs")), "a worker listens nowhere"


@pytest.mark.parametrize("text", ["", "8787", "host", "host:", "host:x", "host:70000", "h:-1", "h:²"])
def test_invalid_listen_address_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="--listen"):
        resolve(None, {}, {"serve.listen": text})


def test_each_setting_is_documented() -> None:
    """Each has a meaning, an option, and an example or a default for the example file."""
    names: list[Any] = [one.name for one in TABLE]
    assert len(set(names)) == len(names)
    assert [one.name for one in TABLE if not one.meaning or not one.option] == []
    assert [one.name for one in TABLE if not one.example and one.default is None] == []


def test_invalid_secret_in_a_file_is_reported_by_the_line_that_names_it(tmp_path: Path) -> None:
    """Its content isn't shown."""
    secret = tmp_path / "url"
    secret.write_text(f"postgresql://weft:pass:{CANARY}@db/weft")
    secret.chmod(0o600)
    path = tmp_path / "weft.toml"
    path.write_text('[weft]\nworkers = 3\ndatabase_file = "url"\n')
    with pytest.raises(InputErrors) as caught:
        resolve(read_toml(path, "--config"), {})
    assert str(caught.value).startswith(f"{path}:3: weft.database_file: what is there is not allowed: a URL")
    assert CANARY not in str(caught.value)


def test_byte_order_mark_is_ignored(tmp_path: Path) -> None:
    """Editors on Windows write it, in settings and in files with secrets."""
    path = file(tmp_path, '\ufeff[weft]\ndatabase_file = "url"\n')
    (tmp_path / "url").write_text("\ufeffpostgresql://file/weft\n")
    (tmp_path / "url").chmod(0o600)
    assert read(path).values["weft.database"].value == "postgresql://file/weft"


@pytest.mark.parametrize("state", ["~/weft", "$HOME/weft", "${STATE}"])
def test_path_that_a_shell_would_expand_is_refused(tmp_path: Path, state: str) -> None:
    """A directory called `~` is never meant."""
    [fault] = faults(file(tmp_path, f'[weft]\nstate = "{state}"\n'))
    assert fault == (
        f"weft.toml:2: weft.state: '{state}' is not allowed: a path as it is: neither ~ nor variables are replaced"
    )
