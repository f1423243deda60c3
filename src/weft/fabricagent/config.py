"""The agent's own settings: a YAML file per agent, or its section of `weft.toml`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import Field, ValidationError, model_validator

from weft.config.agents import SECRET, faults_of, read_section
from weft.config.resolve import config_file
from weft.config.table import FILE, VARIABLE
from weft.config.tomltext import TomlFile
from weft.model.base import Document
from weft.model.errors import InputError, InputErrors
from weft.model.errortable import Shown
from weft.model.ids import Name


class Listen(Document):
    """Where an agent accepts connections."""

    host: str = Field(description="Address to listen on.", examples=["10.0.0.2"])
    port: int = Field(ge=1, le=65535, description="Its TCP port.", examples=[8765])


class Tls(Document):
    """Settings of mutual TLS, which is always on: clients without a certificate of the CA can't send requests."""

    ca: Path = Field(
        description="PEM file of the CA that signed weft's client certificate.", examples=["ca.pem"]
    )
    certificate: Path = Field(description="PEM file of the agent's certificate.", examples=["agent.pem"])
    key: Path = Field(description="PEM file of its private key.", examples=["agent.key"])
    clients: tuple[str, ...] = Field(
        default=("weft",), min_length=1, description="Common names of accepted client certificates."
    )


class ScrapedTls(Tls):
    """TLS settings of an agent that Prometheus reads."""

    scrapers: tuple[str, ...] = Field(
        default=(),
        description="Common names of client certificates that may read /metrics and nothing else.",
        examples=[["prometheus"]],
    )


class OpenSm(Document):
    """The subnet manager next to the agent."""

    partitions_file: Path = Field(
        description="partition_config_file of opensm.conf.", examples=["/etc/opensm/partitions.conf"]
    )
    log_file: Path = Field(
        description="log_file of opensm.conf; set force_log_flush TRUE there.",
        examples=["/var/log/opensm.log"],
    )
    options_file: Path = Field(
        default=Path("/etc/opensm/opensm.conf"),
        description="opensm's options (-F), for `weft site check --live`.",
    )
    pid_file: Path | None = Field(
        default=None, description="PID file of opensm.", examples=["/run/opensm.pid"]
    )
    pid_command: tuple[str, ...] | None = Field(
        default=None,
        description="Command that prints its PID; either this or pid_file.",
        examples=[["systemctl", "show", "-p", "MainPID", "--value", "opensm"]],
    )

    @model_validator(mode="after")
    def _one_way(self) -> OpenSm:
        if (self.pid_file is None) == (self.pid_command is None):
            raise ValueError("exactly one of pid_file and pid_command is required")
        return self


class ManagerPort(Document):
    """The port that the subnet manager runs on."""

    device: str | None = Field(
        default=None,
        description="Adapter. Default: the first active one.",
        examples=["mlx5_0"],
    )
    port: int = Field(default=0, ge=0, description="Port number; 0: the first active one.")
    m_key: int = Field(
        default=0, ge=0, json_schema_extra=SECRET, description="M_Key of the subnet, if it has one."
    )
    sa_key: int = Field(default=1, ge=0, json_schema_extra=SECRET, description="sa_key of opensm.conf.")
    timeout_ms: int = Field(default=500, ge=10, le=10_000, description="Timeout of one attempt.")
    retries: int = Field(default=2, ge=0, le=10, description="Further tries.")


class DiagnosticPrograms(Document):
    """Programs of infiniband-diags."""

    ibnetdiscover: str = Field(default="ibnetdiscover", description="Program.")
    saquery: str = Field(default="saquery", description="Program.")
    timeout_seconds: float = Field(default=60, gt=0, description="Time limit of each command.")


class AgentConfig(Document):
    """`weft fabric-agent --config FILE`. Relative paths are relative to the file."""

    name: Name = Field(description="As in the site file.", examples=["sm1"])
    site: Name = Field(
        description="Name of the site: part of the markers in partitions.conf.", examples=["north"]
    )
    listen: Listen
    tls: ScrapedTls
    opensm: OpenSm
    hca: ManagerPort = ManagerPort()
    tools: DiagnosticPrograms = DiagnosticPrograms()


D = TypeVar("D", bound=Document)


class _Reader(yaml.SafeLoader):
    """Refuses a field that occurs twice, and keeps words as texts: YAML's `yes` and `on` would become the number 1 of a
    port or a key."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key.value, str) and (key.value in seen or seen.add(key.value)):
                where = f"{self.name}:{key.start_mark.line + 1}"
                raise InputError(key.value, Shown("a second one"), "each field once", where)
        return super().construct_mapping(node, deep)


def _whole(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> Any:
    """A number; a text such as 12:34, which YAML would read as a number in base 60, stays a text."""
    return node.value if ":" in node.value else loader.construct_yaml_int(node)


_Reader.add_constructor("tag:yaml.org,2002:int", _whole)
_Reader.yaml_implicit_resolvers = {
    first: [one for one in resolvers if one[0] != "tag:yaml.org,2002:bool"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


SECTION = "fabric_agent"


def read_config(given: Path | None) -> AgentConfig:
    """Read and check the settings; see `read_settings`."""
    return anchored(*read_settings(settings_file(given), AgentConfig, SECTION))


def settings_file(given: Path | None) -> Path | TomlFile:
    """The file with an agent's settings: YAML, or `weft.toml`.

    Args:
        given: by `--config`; None: the file that every process of weft reads.

    Raises `InputError` if there is none.
    """
    if given is not None and given.suffix != ".toml":
        return given
    if (file := config_file(given, os.environ)) is not None:
        return file
    allowed = f"the agent's YAML file, or weft.toml; {VARIABLE} isn't set, and there is no {FILE}"
    raise InputError("--config", None, allowed)


def read_settings(file: Path | TomlFile, kind: type[D], section: str) -> tuple[D, Path]:
    """An agent's settings, and the folder that their paths are relative to.

    Args:
        section: of `weft.toml`.

    Raises:
        InputError: it can't be read, or a field is wrong; each names field, value and what is allowed.
    """
    if isinstance(file, TomlFile):
        return read_section(file, section, kind, os.environ), file.path.parent.resolve()
    return read_document(file, kind), file.parent.resolve()


def read_document(path: Path, kind: type[D]) -> D:
    """An agent's settings in a YAML file of their own.

    Raises:
        InputError: it can't be read, is not YAML, or a field is wrong; each names field, value and what is allowed.
    """
    try:
        with path.open(encoding="utf-8-sig") as file:
            document = yaml.load(file, Loader=_Reader)
    except OSError as error:
        raise InputError("--config", str(path), f"a file that can be read ({error.strerror})") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        # Not the parser's own words: they quote the line, which may have a secret.
        mark = error.problem_mark if isinstance(error, yaml.MarkedYAMLError) else None
        at = f" (line {mark.line + 1} is none)" if mark else ""
        raise InputError("--config", str(path), f"a YAML file in UTF-8{at}") from None
    if not isinstance(document, dict):
        needed = [name for name, field in kind.model_fields.items() if field.is_required()]
        listed = f"{', '.join(needed[:-1])} and {needed[-1]}"
        raise InputError("--config", str(path), f"a YAML file with {listed}")
    try:
        return kind.model_validate(document)
    except ValidationError as error:
        raise InputErrors(list(faults_of(error, kind, "", lambda _: str(path)))) from None


def anchored(config: AgentConfig, folder: Path) -> AgentConfig:
    """The settings with absolute paths."""

    def anchor(document: Document) -> dict[str, Path]:
        values = {name: getattr(document, name) for name in type(document).model_fields}
        return {name: folder / value for name, value in values.items() if isinstance(value, Path)}

    return config.model_copy(
        update={
            "tls": config.tls.model_copy(update=anchor(config.tls)),
            "opensm": config.opensm.model_copy(update=anchor(config.opensm)),
        }
    )
