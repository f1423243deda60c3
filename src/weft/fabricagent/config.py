"""The agent's own settings: one YAML file per agent."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import Field, ValidationError, model_validator

from weft.model.base import Document
from weft.model.errors import InputError, InputErrors
from weft.model.ids import Name


class Listen(Document):
    """Where an agent accepts connections."""

    host: str = Field(description="Address to listen on.")
    port: int = Field(ge=1, le=65535)


class Tls(Document):
    """Mutual TLS, always: clients without a certificate of the CA can't send requests."""

    ca: Path = Field(description="PEM file of the CA that signed weft's client certificate.")
    certificate: Path = Field(description="PEM file of the agent's certificate.")
    key: Path = Field(description="PEM file of its private key.")
    clients: tuple[str, ...] = Field(
        default=("weft",), min_length=1, description="Common names of accepted client certificates."
    )


class OpenSm(Document):
    """The subnet manager next to the agent."""

    partitions_file: Path = Field(description="partition_config_file of opensm.conf.")
    log_file: Path = Field(description="log_file of opensm.conf; set force_log_flush TRUE there.")
    options_file: Path = Field(
        default=Path("/etc/opensm/opensm.conf"),
        description="opensm's options (-F), for `weft site check --live`.",
    )
    pid_file: Path | None = Field(default=None, description="PID file of opensm.")
    pid_command: tuple[str, ...] | None = Field(
        default=None,
        description="Command that prints its PID, such as [systemctl, show, -p, MainPID, --value, opensm].",
    )

    @model_validator(mode="after")
    def _one_way(self) -> OpenSm:
        if (self.pid_file is None) == (self.pid_command is None):
            raise ValueError("exactly one of pid_file and pid_command is required")
        return self


class Hca(Document):
    """The port that the subnet manager runs on."""

    device: str | None = Field(
        default=None, description="Adapter, such as mlx5_0. Default: the first active one."
    )
    port: int = Field(default=0, ge=0, description="Port number; 0: the first active one.")
    m_key: int = Field(default=0, ge=0, description="M_Key of the subnet, if it has one.")
    sa_key: int = Field(default=1, ge=0, description="sa_key of opensm.conf.")
    timeout_ms: int = Field(default=500, ge=10, le=10_000, description="Timeout of one attempt.")
    retries: int = Field(default=2, ge=0, le=10, description="Further tries.")


class Tools(Document):
    """Programs of infiniband-diags."""

    ibnetdiscover: str = "ibnetdiscover"
    saquery: str = "saquery"
    timeout_seconds: float = Field(default=60, gt=0, description="Time limit of each command.")


class AgentConfig(Document):
    """`weft fabric-agent --config FILE`. Relative paths are relative to the file."""

    name: Name = Field(description="As in the site file.")
    site: Name = Field(description="Name of the site: part of the markers in partitions.conf.")
    listen: Listen
    tls: Tls
    opensm: OpenSm
    hca: Hca = Hca()
    tools: Tools = Tools()


D = TypeVar("D", bound=Document)


def read_config(path: Path) -> AgentConfig:
    """Read and check the file; see `read_document`."""
    return _anchored(read_document(path, AgentConfig), path.parent.resolve())


def read_document(path: Path, kind: type[D]) -> D:
    """An agent's settings.

    Raises:
        InputError: it can't be read, is not YAML, or a field is wrong; each names field, value and what is allowed.
    """
    try:
        document = yaml.safe_load(path.read_text())
    except OSError as error:
        raise InputError("--config", str(path), f"a file that can be read ({error.strerror})") from error
    except (yaml.YAMLError, ValueError) as error:
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
        raise InputErrors([_input_error(e, path) for e in error.errors()]) from error


def _input_error(error: Any, path: Path) -> InputError:
    field = ".".join(str(part) for part in error["loc"]) or "(file)"
    return InputError(field, error.get("input"), error["msg"], str(path))


def _anchored(config: AgentConfig, folder: Path) -> AgentConfig:
    def anchor(document: Document) -> dict[str, Path]:
        values = {name: getattr(document, name) for name in type(document).model_fields}
        return {name: folder / value for name, value in values.items() if isinstance(value, Path)}

    return config.model_copy(
        update={
            "tls": config.tls.model_copy(update=anchor(config.tls)),
            "opensm": config.opensm.model_copy(update=anchor(config.opensm)),
        }
    )
