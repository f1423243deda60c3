"""Pods' keys, derived from one secret in the database: none is stored, none can be lost."""

from __future__ import annotations

import base64
import secrets

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from weft.engine.store.store import Store
from weft.model.podkeys import KEY_BYTES


class DerivedKeys:
    """`PodKeys`: HKDF (RFC 5869) with SHA-256 over the site's secret, by pod and name.

    Access to the database gives the keys, as it gives the key that signs receipts; a plan, an event, a log or a backup
    of the clouds' side of weft doesn't.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._secret: bytes | None = None

    def key(self, pod_id: str, name: str) -> str:
        if self._secret is None:
            self._secret = self._store.secrets.of("pod-keys", secrets.token_bytes(32))
        info = f"weft/{pod_id}/{name}".encode()
        derived = HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=None, info=info).derive(self._secret)
        return base64.urlsafe_b64encode(derived).decode()
