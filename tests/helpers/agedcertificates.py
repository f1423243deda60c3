"""Certificates of weft's authority as they are after a while."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from unittest.mock import patch

from cryptography import x509

from weft.fabricagent import tls


def aged(folder: Path, agents: Mapping[str, Sequence[str]], left: int = 20, renew: bool = False) -> None:
    """What `certs` made 40 days ago, so that `left` days are left."""
    with patch.object(tls, "CLOCKS_DIFFER", timedelta(days=40)):
        tls.make_certificates(folder, agents, days=left, renew=renew)


def certificate(path: Path) -> x509.Certificate:
    """The first of a file."""
    return x509.load_pem_x509_certificates(path.read_bytes())[0]
