"""When weft's certificates end, as /metrics reports it."""

from __future__ import annotations

import time
from pathlib import Path

from prometheus_client import CollectorRegistry

from tests.helpers.certificates import own_certificate
from weft.app.certificatemetrics import CertificateCollector


def test_end_of_each_certificate_follows_its_file(tmp_path: Path) -> None:
    """A file that can't be read is counted and has no end; a replaced file is read again."""
    certificate, key = own_certificate(tmp_path)
    files = {"api": str(certificate), "fabric ib": str(tmp_path / "nosuch"), "fabric ib ca": str(key)}
    registry = CollectorRegistry()
    registry.register(CertificateCollector(lambda: files))

    def end(name: str) -> float | None:
        return registry.get_sample_value(
            "weft_certificate_not_after_seconds", {"certificate": name, "fabric": "", "agent": ""}
        )

    left = (end("api") or 0) - time.time()
    assert 3000 < left <= 3600
    assert end("fabric ib") is None and end("fabric ib ca") is None
    assert registry.get_sample_value("weft_certificates_unread") == 2
    (tmp_path / "nosuch").write_bytes(certificate.read_bytes())
    certificate.write_text("cut off")
    assert end("api") is None and end("fabric ib") is not None
    assert registry.get_sample_value("weft_certificates_unread") == 2
    files.clear()
    assert registry.get_sample_value("weft_certificates_unread") == 0
