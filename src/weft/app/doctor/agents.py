"""Checks of agents' certificates, as the agents answer with them now, and of what renews them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

from weft.app.certificatekeeper import SiteAgent, agents_of
from weft.app.doctor.findings import DoctorFinding, finding
from weft.app.settings import ServeSettings
from weft.config.secretfiles import readable_by_others
from weft.drivers.wire.agentcertificates import CertificateClient, ExpiredError
from weft.engine.store.agentcertificates import is_late
from weft.fabricagent.issuing import read_authority
from weft.model.errors import InputError, WeftError
from weft.model.site import Site

AT_ONCE = 32
URGENT = timedelta(days=7)
"""A certificate that ends within this time is an error."""


def certificates(site: Site, seconds: float) -> Iterator[DoctorFinding]:
    """One finding for each agent whose certificate ends, has ended or can't be seen; one for all others."""
    agents = list(agents_of(site))
    deadline = time.monotonic() + seconds * 0.7

    def look(agent: SiteAgent) -> DoctorFinding | None:
        of = f"{agent.sort} {agent.address.name}"
        if time.monotonic() > deadline:
            return finding("AGENT_CERTIFICATE_UNSEEN", of, "there was no time left to check it")
        with closing(CertificateClient(agent.address, agent.files, agent.sort)) as client:
            try:
                seen = client.look()
            except ExpiredError as error:
                said = f"{error.of}: its certificate has expired: it isn't reached until it has another one"
                return finding("AGENT_CERTIFICATE_EXPIRED", of, said)
            except WeftError as error:
                return finding("AGENT_CERTIFICATE_UNSEEN", of, error)
        now, end = datetime.now(UTC), seen.not_valid_after_utc
        said = f"its certificate ends at {end:%Y-%m-%d %H:%M} UTC, in {(end - now).days} days"
        if not is_late(seen.not_valid_before_utc, end, now):
            return None
        late = end - now < min(URGENT, (end - seen.not_valid_before_utc) / 8)
        return finding("AGENT_CERTIFICATE_URGENT" if late else "AGENT_CERTIFICATE_ENDS", of, said)

    if not agents:
        return
    with ThreadPoolExecutor(min(AT_ONCE, len(agents))) as pool:
        found = [one for one in pool.map(look, agents) if one is not None]
    yield from found
    if fine := len(agents) - len(found):
        yield finding("AGENT_CERTIFICATES_VALID", "agents", f"valid for a while: those of {fine} agents")


def renewal(site: Site, settings: ServeSettings) -> Iterator[DoctorFinding]:
    """Whether this host can renew agents' certificates."""
    agents, of, file = list(agents_of(site)), "agents", settings.authority_key
    if not agents:
        return
    if file is None:
        said = "agents' certificates are renewed by hand: weft.authority_key isn't set on this host"
        yield finding("RENEWAL_BY_HAND", of, said)
        return
    if why := readable_by_others(file):
        yield finding("RENEWAL_UNUSABLE", of, f"{file} must be {why}")
        return
    try:
        trusted = sorted({one.files.ca for one in agents if one.files.ca})
        others = [one for one in trusted if read_authority(file, Path(one)) is None]
    except InputError as error:
        yield finding("RENEWAL_UNUSABLE", of, error)
        return
    if others:
        said = f"{file} isn't the key of {', '.join(others)}: what those signed is renewed by hand"
        yield finding("RENEWAL_UNUSABLE", of, said)
    else:
        yield finding("RENEWAL_ON", of, f"workers of this host renew agents' certificates with {file}")
