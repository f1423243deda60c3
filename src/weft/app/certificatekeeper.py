"""Renews certificates of the site's agents, and weft's own for them, while they are valid, if weft has the authority's
key. Without the key it still looks at them, and reports in time that they end.

weft asks the agent over the mutual TLS that both have: for a request (the agent makes the key), then with the signed
certificate. What is signed has the names of the certificate that the connection showed, whatever the request says.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from weft.config.secretfiles import readable_by_others
from weft.drivers.wire.agentcertificates import CertificateClient, ExpiredError
from weft.drivers.wire.agents import Address, Certificates, NoSuchCallError
from weft.engine.base.periodic import Periodic
from weft.engine.base.pulse import Pulse
from weft.engine.store.agentcertificates import LEAST, AgentCertificates, SeenCertificate, is_late
from weft.engine.store.store import Store
from weft.fabricagent.issuing import (
    UNREADABLE,
    Authority,
    certificate_pem,
    key_pem,
    read_authority,
    renewed,
    request_for,
)
from weft.fabricagent.pairs import locked, replace_pair
from weft.model.agentcertificates import IssuedCertificate
from weft.model.errors import ConflictError, InputError, PermanentError, RefusedError, WeftError
from weft.model.messages import certificates
from weft.model.messages.message import Message
from weft.model.site import Site

log = logging.getLogger(__name__)

EVERY, LIMIT = 60.0, 900.0
BATCH, THREADS = 256, 16
LOOK, AGAIN = timedelta(hours=6), timedelta(minutes=15)
"""Time between two looks at a certificate, and until the next look after a renewal that failed."""
RENEWED_AT = 0.6
"""Part of its life that is left when a certificate is renewed: of 60 days, 36 are left for it to succeed in."""


@dataclass(frozen=True, slots=True)
class SiteAgent:
    """An agent of the site, and the files with which weft speaks to it."""

    fabric: str
    sort: str
    address: Address
    files: Certificates


def agents_of(site: Site) -> Iterator[SiteAgent]:
    """Agents with mutual TLS, by fabric: next to managers, and beside adapters."""
    for name, fabric in sorted(site.fabrics.items()):
        if fabric.manager.ca is not None and fabric.manager.certificate is not None:
            yield from (SiteAgent(name, "fabric agent", one, fabric.manager) for one in fabric.manager.agents)
        if fabric.traffic is not None:
            traffic = fabric.traffic
            yield from (SiteAgent(name, "probe agent", one, traffic) for one in traffic.agents)


class CertificateKeeper(Periodic):
    """The thread that renews. Any number may run: the database decides which one looks at an agent's certificate, and
    which one signs. Each process looks after its own host's client certificates.

    Args:
        authority_key: file with the authority's key; None: it is kept elsewhere.
    """

    def __init__(
        self,
        store: Store,
        site: Callable[[], Site],
        authority_key: Path | None,
        pulse: Pulse | None = None,
        every: float = EVERY,
    ) -> None:
        self._store, self._site, self._key, self._every = store, site, authority_key, every
        self._rows = AgentCertificates(store.database)
        super().__init__("certificates", self.tend, pulse, LIMIT, first=min(10.0, every))

    def tend(self) -> float:
        """Look at what is due, and renew what must be."""
        agents = {(one.fabric, one.address.name): one for one in agents_of(self._site())}
        self._rows.keep(agents)
        for fabric, files in _own_files(agents.values()):
            self._tend_own(fabric, files)
        due = self._rows.claim(BATCH)
        if due:
            with ThreadPoolExecutor(min(THREADS, len(due)), thread_name_prefix="certificates") as pool:
                tasks = [pool.submit(self._tend_agent, row, agents) for row in due]
            for task in tasks:
                task.result()
        self._rows.trim()
        return self._every if len(due) < BATCH else 0.0

    def _tend_agent(self, row: SeenCertificate, agents: dict[tuple[str, str], SiteAgent]) -> None:
        if (agent := agents.get((row.fabric, row.agent))) is None:
            return  # it left the site since
        with closing(CertificateClient(agent.address, agent.files, agent.sort)) as client:
            try:
                seen = client.look()
                message = self._renew(row, agent, client, seen)
                if message is None:
                    seen = client.look()
                    message = certificates.CERTIFICATE_VALID(until=seen.not_valid_after_utc)
                    log.info("agent %s of %s has a new certificate: %s", row.agent, row.fabric, message)
            except ExpiredError:
                self._note(row, certificates.CERTIFICATE_EXPIRED(), AGAIN)
            except WeftError as error:
                self._note(row, certificates.CERTIFICATE_UNSEEN(why=str(error)), AGAIN)
            except Exception as error:  # what one agent answers keeps no other from being looked at
                log.exception("the certificate of agent %s of %s can't be looked at", row.agent, row.fabric)
                self._note(row, certificates.CERTIFICATE_UNSEEN(why=type(error).__name__), AGAIN)
            else:
                fine = message.code == certificates.CERTIFICATE_VALID.name
                # What an older certificate shows isn't taken over: the newest one known stays the measure.
                shown = None if message.code == certificates.CERTIFICATE_SUPERSEDED.name else seen
                self._note(row, message, LOOK if fine else AGAIN, shown)

    def _renew(
        self,
        row: SeenCertificate,
        agent: SiteAgent,
        client: CertificateClient,
        seen: x509.Certificate,
    ) -> Message | None:
        """Renew a certificate if that is due. Returns its state; None: it was renewed."""
        if _superseded(row, seen):
            return certificates.CERTIFICATE_SUPERSEDED()
        now = self._rows.now()
        found = self._due(seen, agent.files, now)
        if not isinstance(found, Authority):
            return found
        until = seen.not_valid_after_utc
        try:
            if row.issued_at is not None and now < row.issued_at + LEAST:
                return _too_often(until)
            request, seen = client.request()
            if _superseded(row, seen):
                return certificates.CERTIFICATE_SUPERSEDED()
            made = renewed(request.csr, seen, found, now)
            if not self._rows.issue(row, f"{made.serial_number:x}", made.not_valid_after_utc):
                return _too_often(until)
            log.info(
                "signed certificate %x for agent %s of %s, in place of %x",
                *(made.serial_number, row.agent, row.fabric, seen.serial_number),
            )
            client.install(IssuedCertificate(certificate=certificate_pem(made).decode()))
        except RefusedError as error:
            return certificates.RENEWAL_REFUSED(until=until, why=str(error))
        except NoSuchCallError:
            return certificates.RENEWAL_UNSUPPORTED(until=until)
        except PermanentError as error:
            return certificates.RENEWAL_REFUSED(until=until, why=error.answer)
        except (ConflictError, WeftError) as error:
            return certificates.RENEWAL_FAILED(until=until, why=str(error))
        return None

    def _due(
        self, seen: x509.Certificate, files: Certificates, now: datetime, outside: bool = True
    ) -> Authority | Message:
        """The authority that must sign another one now, or the state of this one.

        Args:
            outside: it is an agent's, not weft's own.
        """
        begin, until = seen.not_valid_before_utc, seen.not_valid_after_utc
        if until - now >= (until - begin) * RENEWED_AT:
            return certificates.CERTIFICATE_VALID(until=until)
        if self._key is None:
            if not is_late(begin, until, now):
                return certificates.CERTIFICATE_VALID(until=until)
            return certificates.AUTHORITY_OFFLINE(until=until)
        if outside and self._store.database.gate.closed(()) is not None:
            return certificates.RENEWAL_STOPPED(until=until)
        try:
            if why := readable_by_others(self._key):
                raise InputError("weft.authority_key", str(self._key), why)
            authority = read_authority(self._key, Path(files.ca or ""))
        except (InputError, OSError) as error:
            return certificates.AUTHORITY_UNUSABLE(until=until, why=str(error))
        if authority is None or not authority.issued(seen):
            return certificates.AUTHORITY_OF_OTHERS(until=until)
        return authority

    def _tend_own(self, fabric: str, files: Certificates) -> None:
        """weft's own certificate on this host; only its files are looked at until it is due."""
        certificate, key = Path(files.certificate or ""), Path(files.key or "")
        name = f"{socket.gethostname()}:{certificate}"
        row: SeenCertificate | None = None
        try:
            seen = _first(certificate)
            serial = f"{seen.serial_number:x}"
            row = self._rows.own(fabric, name)
            now = self._rows.now()
            if now >= seen.not_valid_after_utc:
                self._note(row, certificates.CERTIFICATE_EXPIRED(), AGAIN, seen)
                return
            found = self._due(seen, files, now, outside=False)
            if isinstance(found, Authority):
                with locked(certificate.parent):
                    if f"{_first(certificate).serial_number:x}" != serial:
                        return  # another process of this host has renewed it
                    fresh = ec.generate_private_key(ec.SECP256R1())
                    seen = renewed(request_for(seen, fresh), seen, found, now)
                    if not self._rows.issue(row, f"{seen.serial_number:x}", seen.not_valid_after_utc):
                        return
                    replace_pair(certificate, key, certificate_pem(seen), key_pem(fresh), alone=True)
                found = certificates.CERTIFICATE_VALID(until=seen.not_valid_after_utc)
                log.info("weft's own certificate %s was renewed: %s", certificate, found)
            self._note(row, found, LOOK, seen)
        except (OSError, *UNREADABLE, RefusedError) as error:
            self._own_failed(row or self._rows.own(fabric, name), certificate, str(error))

    def _own_failed(self, row: SeenCertificate, certificate: Path, why: str) -> None:
        try:
            until = _first(certificate).not_valid_after_utc
        except (OSError, *UNREADABLE):
            self._note(row, certificates.CERTIFICATE_UNSEEN(why=why), AGAIN)
        else:
            self._note(row, certificates.RENEWAL_REFUSED(until=until, why=why), AGAIN)

    def _note(
        self, row: SeenCertificate, message: Message, pause: timedelta, seen: x509.Certificate | None = None
    ) -> None:
        quiet = message.code in (row.code, certificates.CERTIFICATE_VALID.name)
        if not quiet:
            log.warning("certificate of %s %s: %s", row.fabric, row.agent, message)
        known = (
            None
            if seen is None
            else (f"{seen.serial_number:x}", seen.not_valid_before_utc, seen.not_valid_after_utc)
        )
        self._rows.note(row, message, pause, known)


def _superseded(row: SeenCertificate, seen: x509.Certificate) -> bool:
    """Whether a certificate's validity begins before that of the one in the row: it was replaced by that one."""
    if row.serial is None or row.not_before is None or f"{seen.serial_number:x}" == row.serial:
        return False
    return seen.not_valid_before_utc < row.not_before


def _too_often(until: datetime) -> Message:
    why = "another one was issued less than an hour ago, and the agent doesn't have it"
    return certificates.RENEWAL_REFUSED(until=until, why=why)


def _own_files(agents: Iterable[SiteAgent]) -> Iterator[tuple[str, Certificates]]:
    """weft's pairs for the agents, each once, with the first fabric that names it."""
    once: set[str] = set()
    for one in agents:
        if (path := one.files.certificate) and one.files.key and path not in once:
            once.add(path)
            yield one.fabric, one.files


def _first(path: Path) -> x509.Certificate:
    """The first certificate of a PEM file. Raises OSError, and the errors in `UNREADABLE`."""
    return x509.load_pem_x509_certificates(path.read_bytes())[0]
