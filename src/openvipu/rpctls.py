"""Certificates of openvipu's servers and clients, read from their files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import grpc

from openvipu.model.errors import BadRequest


@dataclass(frozen=True, slots=True)
class Tls:
    """A certificate, its key and the authority that the other side must be signed by (PEM).

    Attributes:
        certificate: None, with ``key``, for a client that shows none: it verifies the server, and shows keys.
        mutual: a server turns away clients without a certificate. Without it clients are known by their keys alone.
        files: that it was read from: the authority's, and those of certificate and key if there are any.
    """

    authority: bytes
    certificate: bytes | None = None
    key: bytes | None = None
    mutual: bool = True
    files: tuple[Path, ...] = ()

    @classmethod
    def read(cls, directory: Path, role: str, mutual: bool = True) -> Tls:
        """``ca.crt``, ``<role>.crt`` and ``<role>.key`` of a directory that ``--tls-init`` made."""
        return cls.of(tuple(directory / name for name in ("ca.crt", f"{role}.crt", f"{role}.key")), mutual)

    @classmethod
    def of(cls, files: tuple[Path, ...], mutual: bool = True) -> Tls:
        """Read from files. Args: files: as in the attribute. Raises BadRequest for one that can't be read."""
        authority, certificate, key = (*map(_read, files), None, None)[:3]
        assert authority is not None
        return cls(authority, certificate, key, mutual, files)

    def again(self) -> Tls:
        """What the files hold now. Raises BadRequest."""
        return Tls.of(self.files, self.mutual)

    @classmethod
    def trusting(cls, authority: Path) -> Tls:
        """For a client that verifies the server by this authority and shows no certificate."""
        return cls.of((authority,))

    @classmethod
    def of_client(cls, directory: Path, role: str) -> Tls:
        """A client's, with the role's certificate if the directory has one, else with the authority alone."""
        if (directory / f"{role}.crt").exists():
            return cls.read(directory, role)
        return cls.trusting(directory / "ca.crt")

    def without_pair(self) -> Tls:
        """The authority alone."""
        return Tls(self.authority, files=self.files[:1])

    def server_configuration(self) -> grpc.ServerCertificateConfiguration:
        """gRPC's certificate of a server; clients need one of the authority if `mutual`."""
        assert self.key is not None and self.certificate is not None  # a server's are read with its role
        pairs = [(self.key, self.certificate)]
        return grpc.ssl_server_certificate_configuration(pairs, self.authority if self.mutual else None)

    def client(self) -> grpc.ChannelCredentials:
        """gRPC's credentials of a client."""
        return grpc.ssl_channel_credentials(self.authority, self.key, self.certificate)

    def roles(self, *names: str) -> frozenset[str]:
        """Names of the certificates that a server accepts; empty where clients show none."""
        return frozenset(names) if self.mutual else frozenset()


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadRequest(f"TLS file {path} can't be read: {error.strerror}") from None
