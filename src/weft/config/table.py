"""The table of settings of `weft serve` and `weft worker`: a row for each."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from weft.config.kinds import (
    Choice,
    DatabaseUrl,
    File,
    Flag,
    Folder,
    HttpUrl,
    ListenAddress,
    SettingKind,
    Whole,
)

FILE = Path("/etc/weft/weft.toml")
"""Read if no file is named."""
VARIABLE = "WEFT_CONFIG"
"""Environment variable that names another file."""
SECTIONS: Mapping[str, str] = {
    "weft": "What `weft serve` and `weft worker` share.",
    "serve": "The API of `weft serve`.",
    "logs": "Logs of every process, those of the agents too.",
    "fabric_agent": "`weft fabric-agent`, next to a subnet manager (fabric-opensm.md).",
    "probe_agent": "`weft probe-agent`, on hosts of an Ethernet fabric (fabric-ethernet.md).",
}
"""Section of the file -> what it is for. Those of the agents follow from their models."""
PROCESS = ("weft", "serve", "logs")
"""Sections of the table, which `weft serve` reads."""


def default_state(environment: Mapping[str, str]) -> Path:
    """/var/lib/weft for root, else XDG's state directory."""
    if os.geteuid() == 0:
        return Path("/var/lib/weft")
    return Path(environment.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "weft"


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting.

    Attributes:
        section, key: in the file. With `secret`, the file may have `key_file` instead, the path of a file with the
            value, and systemd a credential `key`.
        meaning: one line.
        default: None: there is none. said: what happens without a value.
        option, metavar: on the command line; by default as the key. An option that begins with `--no-` sets false.
        option_meaning: of an option whose meaning is the opposite of the setting's.
        variable: of the environment, which overrides the file.
        secret: the value is never shown.
        secret_file: the value is the path of a file with a secret.
        example: what the example file shows, as TOML.
    """

    section: str
    key: str
    kind: SettingKind
    meaning: str
    default: object = None
    said: str = ""
    option: str = ""
    metavar: str | None = None
    option_meaning: str = ""
    variable: str | None = None
    secret: bool = False
    secret_file: bool = False
    example: str = ""

    def __post_init__(self) -> None:
        if not self.option:
            key = f"log-{self.key}" if self.section == "logs" else self.key.removesuffix("_file")
            object.__setattr__(self, "option", f"--{key.replace('_', '-')}")

    @property
    def name(self) -> str:
        """`section.key`."""
        return f"{self.section}.{self.key}"

    @property
    def credential(self) -> str | None:
        """Name of systemd's credential that may hold the value; None: it isn't a secret."""
        return self.key.removesuffix("_file") if self.secret or self.secret_file else None

    @property
    def default_text(self) -> str:
        """What applies without a value; empty: nothing does."""
        if self.said or self.default is None:
            return self.said
        return str(self.default).lower() if isinstance(self.default, bool) else str(self.default)

    @property
    def dest(self) -> str:
        """Attribute of the parsed command line."""
        return f"setting_{self.section}_{self.key}"


TABLE: tuple[Setting, ...] = (
    Setting(
        "weft",
        "database",
        DatabaseUrl(),
        "URL of PostgreSQL",
        said="an embedded PostgreSQL in the state directory",
        metavar="URL",
        variable="WEFT_DATABASE",
        secret=True,
        example='"postgresql://weft@db.example/weft?target_session_attrs=read-write"',
    ),
    Setting(
        "weft",
        "state",
        Folder(),
        "state directory",
        said="/var/lib/weft for root, else ~/.local/state/weft",
        metavar="DIR",
        variable="WEFT_STATE",
        example='"/var/lib/weft"',
    ),
    Setting(
        "weft",
        "secrets_key",
        File(),
        "keys that encrypt the database's secrets, one a line; the first encrypts, all decrypt",
        said="they aren't encrypted",
        metavar="FILE",
        variable="WEFT_SECRETS_KEY",
        secret_file=True,
        example='"secrets.key"',
    ),
    Setting(
        "weft",
        "authority_key",
        File(),
        "key of the authority of the agents' certificates: workers then renew them (security.md)",
        said="they are renewed by hand",
        metavar="FILE",
        variable="WEFT_AUTHORITY_KEY",
        secret_file=True,
        example='"authority.key"',
    ),
    Setting(
        "weft",
        "cloud_profile",
        SettingKind(),
        "profile of weft's service user in clouds.yaml, which validates tokens; also used for the site's cloud if "
        "there is only one, instead of its own profile or its name",
        said="OS_CLOUD, then weft",
        metavar="NAME",
        example='"weft"',
    ),
    Setting(
        "weft",
        "site",
        File(),
        "site file, activated if the database has none yet",
        metavar="FILE",
        example='"site.yaml"',
    ),
    Setting(
        "weft",
        "workers",
        Whole(1, 64),
        "pods processed concurrently",
        default=8,
        metavar="N",
    ),
    Setting(
        "weft",
        "sweep_every",
        Whole(10, 86_400, "seconds"),
        "interval of the sweep for remains of released pods",
        default=300,
        metavar="SECONDS",
    ),
    Setting(
        "serve",
        "listen",
        ListenAddress(),
        "address",
        default="127.0.0.1:8787",
        metavar="HOST:PORT",
    ),
    Setting(
        "serve",
        "plain_http",
        Flag(),
        "serve HTTP without TLS on an address that isn't loopback: tokens cross the network in clear text",
        default=False,
    ),
    Setting(
        "serve",
        "tls_certificate",
        File(),
        "PEM: serve HTTPS with this certificate and its chain",
        said="HTTP, on loopback addresses only",
        metavar="FILE",
        example='"tls.pem"',
    ),
    Setting(
        "serve",
        "tls_key",
        File(),
        "PEM: the certificate's key",
        metavar="FILE",
        secret_file=True,
        example='"tls.key"',
    ),
    Setting(
        "serve",
        "public_url",
        HttpUrl(),
        "URL for clients, if a proxy is in front",
        metavar="URL",
        example='"https://weft.example"',
    ),
    Setting(
        "serve",
        "websso_url",
        HttpUrl(),
        "Keystone's WebSSO as browsers reach it: a second way to sign in to the console (console.md)",
        said="the console has no such button",
        metavar="URL",
        example='"https://keystone.example/v3/auth/OS-FEDERATION/websso/openid"',
    ),
    Setting(
        "serve",
        "policy",
        File(),
        "policy overrides (docs/policy.yaml.sample)",
        metavar="FILE",
        example='"policy.yaml"',
    ),
    Setting(
        "serve",
        "neutron_token_file",
        File(),
        "answer notices from Neutron's driver mlnx_sdn_assist, with the token in this file",
        metavar="FILE",
        secret_file=True,
        example='"neutron-token"',
    ),
    Setting(
        "serve",
        "monitoring_token_file",
        File(),
        "answer Prometheus' requests for targets, with the token in this file (monitoring.md)",
        said="only operators may ask",
        metavar="FILE",
        secret_file=True,
        example='"monitoring-token"',
    ),
    Setting(
        "serve",
        "worker",
        Flag(),
        "also run a worker process; without it only serve requests, and `weft worker` does the work",
        default=True,
        option="--no-worker",
        option_meaning="only serve requests; `weft worker` does the work",
    ),
    Setting(
        "logs",
        "level",
        Choice(("DEBUG", "INFO", "WARNING", "ERROR")),
        "level of weft's own messages; libraries' are logged from WARNING on",
        default="INFO",
    ),
    Setting(
        "logs",
        "format",
        Choice(("text", "json")),
        "format of the log: lines of text, or a JSON object in each line",
        default="text",
    ),
)

OTHER_VARIABLES: Mapping[str, str] = {
    VARIABLE: f"the file itself, in place of {FILE}",
    "OS_CLIENT_CONFIG_FILE": "clouds.yaml with the profile of weft's service user",
    "OS_CLOUD": "the profile, where neither the file nor `--cloud-profile` names one",
    "WEFT_UFM_TOKEN": "token for a UFM whose `credentials` the site file doesn't name ([fabric-ufm.md](fabric-ufm.md))",
    "WEFT_UFM_USERNAME": "user for such a UFM",
    "WEFT_UFM_PASSWORD": "its password",
    "WEFT_SWITCH_USER": "user for switches whose `credentials` the site file doesn't name "
    "([fabric-ethernet.md](fabric-ethernet.md))",
    "WEFT_SWITCH_PASSWORD": "its password",
}
"""Variables of the processes that no setting of the file corresponds to."""
