"""The key that signs receipts and certificates: created at the first start, in the database, for all workers."""

from __future__ import annotations

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from weft.engine.store.store import Store
from weft.generate.receipts import public_key_text, sign, sign_certificate
from weft.model.bandwidth import BandwidthCertificate, SignedCertificate
from weft.model.receipt import Receipt, ReceiptKey, SignedReceipt


class Signer:
    """Signs with the site's one Ed25519 key."""

    def __init__(self, store: Store) -> None:
        fresh = Ed25519PrivateKey.generate().private_bytes_raw()
        self._key = Ed25519PrivateKey.from_private_bytes(store.secrets.of("receipt-ed25519", fresh))

    def key(self) -> ReceiptKey:
        """The public half."""
        return ReceiptKey(public_key=public_key_text(self._key))

    def __call__(self, receipt: Receipt) -> SignedReceipt:
        return sign(receipt, self._key)

    def certificate(self, certificate: BandwidthCertificate) -> SignedCertificate:
        """A signed certificate of a bandwidth test."""
        return sign_certificate(certificate, self._key)
