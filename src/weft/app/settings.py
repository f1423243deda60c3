"""Settings of `weft serve` and `weft worker`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from weft.engine.settings import LoopSettings


@dataclass(frozen=True, slots=True)
class Settings:
    """What the operator says at the start.

    Attributes:
        state: folder for the embedded database, the log and the pid file.
        database: `postgresql://…`; None: an embedded server in `state`.
        listen: address and port of the HTTP API.
        cloud_profile: name in clouds.yaml of the service user; None: the cloud's `profile` or name in the site.
        identity_profile: the profile whose Keystone checks tokens.
        site: site file that is applied at the first start, when the database has none.
        policy: oslo.policy file with the operator's own rules.
        workers: how many workers run inside `weft serve`; 0 with `--no-worker`.
        public_url: how clients reach the API, if a proxy in front changes it.
    """

    state: Path
    database: str | None = None
    listen: tuple[str, int] = ("127.0.0.1", 8787)
    cloud_profile: str | None = None
    identity_profile: str = "weft"
    site: Path | None = None
    policy: Path | None = None
    workers: int = 1
    public_url: str | None = None
    loop: LoopSettings = field(default_factory=LoopSettings)
