"""Settings of `weft serve` and `weft worker`; `weft.app.wiring` creates the components from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from weft.config.kinds import listen
from weft.config.resolve import Configuration


@dataclass(frozen=True, slots=True)
class ServeSettings:
    """Settings of a server or worker process; what they mean is in `weft.config.table`.

    Attributes:
        database: `postgresql://…`; None: the embedded PostgreSQL in `state`.
        state: directory of the embedded database, the receipts' key and the locks.
        host, port: where the API listens; port 0: any free one, which is then printed.
        cloud_profile: name in clouds.yaml of weft's own service user; None: OS_CLOUD or OS_*.
        site: site file activated at first start, if the database has none yet.
        policy: the operator's own policy.yaml.
        worker: whether this process processes pods; `weft serve` starts a separate one for that.
        workers: threads that process pods.
        certificate: PEM files of the API's certificate, with its chain, and of its key; None: no TLS.
        sweep_every: seconds between sweeps for what reappeared after a receipt was signed.
        neutron_token: file with the token of Neutron's driver mlnx_sdn_assist; None: its notices aren't answered.
        monitoring_token: file with the token with which Prometheus reads targets; None: operators alone may.
        public_url: how clients reach the API, if a proxy stands in front.
        websso_url: Keystone's address of WebSSO, as browsers reach it; None: the console has no such way to sign in.
        secrets_key: file with the keys that encrypt the database's secrets; None: they aren't encrypted.
        authority_key: file with the key of the agents' authority; None: their certificates are renewed by hand.
        log_level: name of a level of `logging`.
        log_format: `text` or `json`.
    """

    state: Path
    database: str | None = field(default=None, repr=False)
    host: str = "127.0.0.1"
    port: int = 8787
    cloud_profile: str | None = None
    site: Path | None = None
    policy: Path | None = None
    worker: bool = True
    workers: int = 8
    sweep_every: float = 300.0
    public_url: str | None = None
    websso_url: str | None = None
    neutron_token: Path | None = None
    monitoring_token: Path | None = None
    certificate: tuple[Path, Path] | None = None
    secrets_key: Path | None = None
    authority_key: Path | None = None
    log_level: str = "INFO"
    log_format: str = "text"


def settings_of(found: Configuration) -> ServeSettings:
    """The settings of a process from its configuration; without a section `serve`, of one that only works."""
    values = {name: value.value for name, value in found.values.items()}
    host, port = listen(values.get("serve.listen", "127.0.0.1:0"))
    chain, key = values.get("serve.tls_certificate"), values.get("serve.tls_key")
    return ServeSettings(
        state=values["weft.state"],
        database=values["weft.database"],
        host=host,
        port=port,
        cloud_profile=values["weft.cloud_profile"],
        site=values["weft.site"],
        policy=values.get("serve.policy"),
        worker=values.get("serve.worker", True),
        workers=values["weft.workers"],
        sweep_every=float(values["weft.sweep_every"]),
        public_url=values.get("serve.public_url"),
        websso_url=values.get("serve.websso_url"),
        neutron_token=values.get("serve.neutron_token_file"),
        monitoring_token=values.get("serve.monitoring_token_file"),
        certificate=(chain, key) if chain and key else None,
        secrets_key=values.get("weft.secrets_key"),
        authority_key=values.get("weft.authority_key"),
        log_level=values["logs.level"],
        log_format=values["logs.format"],
    )
