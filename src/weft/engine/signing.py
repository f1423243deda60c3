"""The key that signs receipts: created at the first start and stored in the database, so that all workers share it."""

from __future__ import annotations

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from weft.engine.store import Store
from weft.generate.receipts import public_key_text, sign
from weft.model.receipt import Receipt, ReceiptKey, SignedReceipt


class Signer:
    """Signs with the site's one Ed25519 key."""

    def __init__(self, store: Store) -> None:
        fresh = Ed25519PrivateKey.generate().private_bytes_raw()
        self._key = Ed25519PrivateKey.from_private_bytes(store.secret("receipt-ed25519", fresh))

    def key(self) -> ReceiptKey:
        """The public half."""
        return ReceiptKey(public_key=public_key_text(self._key))

    def __call__(self, receipt: Receipt) -> SignedReceipt:
        return sign(receipt, self._key)
