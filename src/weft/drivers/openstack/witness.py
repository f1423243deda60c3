"""The record of how far weft's database had got, in the comment of a key pair of the service user.

A key pair belongs to a user, so no tenant can see or change it, and it needs no role beyond having a token.
"""

from __future__ import annotations

import time
from hashlib import sha256
from uuid import UUID

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from weft.drivers.openstack.service import CloudService
from weft.drivers.openstack.session import Sessions
from weft.ports.witness import Witness

_WORD = "weft-epoch"
RECENT = 5.0
"""Seconds for which notes are cached before a new one is written. Only the older ones that are deleted come from them;
a newer one of another process stays, and the same one isn't written twice."""


class OpenStackWitness:
    """`Witnesses`."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._notes: tuple[float, str, dict[str, Witness]] | None = None

    def witness(self, site: str) -> Witness | None:
        at = time.monotonic()
        notes = _notes(self._sessions.own().compute, site)
        self._notes = at, site, notes
        return max(notes.values(), key=lambda n: n.number, default=None)

    def testify(self, site: str, witness: Witness) -> None:
        compute = self._sessions.own().compute
        older = self._recent(site)
        self._notes = None
        name = f"{_WORD}-{sha256(site.encode()).hexdigest()[:12]}-{witness.life}-{witness.number}"
        if name not in older:
            # The private half of this key was discarded: the key only carries the comment.
            key = Ed25519PrivateKey.generate().public_key()
            text = key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
            comment = f"{_WORD}/{site}/{witness.life}/{witness.number}"
            body = {"keypair": {"name": name, "type": "ssh", "public_key": f"{text} {comment}"}}
            compute.ask("note the database's epoch", "POST", "/os-keypairs", json=body, ok=(409,))
        for old, note in older.items():
            if note.number < witness.number:
                compute.ask("delete an old epoch", "DELETE", f"/os-keypairs/{old}", ok=(404,))

    def _recent(self, site: str) -> dict[str, Witness]:
        """Name of the key pair -> note, at most `RECENT` old."""
        if (known := self._notes) is not None and known[1] == site and time.monotonic() - known[0] <= RECENT:
            return known[2]
        return _notes(self._sessions.own().compute, site)


def _notes(compute: CloudService, site: str) -> dict[str, Witness]:
    """Name of the key pair -> note."""
    found: dict[str, Witness] = {}
    for row in compute.listing("read the database's epoch", "/os-keypairs", "keypairs"):
        pair = row["keypair"]
        parts = str(pair["public_key"]).rstrip().rpartition(" ")[2].split("/")
        if len(parts) == 4 and parts[:2] == [_WORD, site]:
            found[str(pair["name"])] = Witness(UUID(parts[2]), int(parts[3]))
    return found
