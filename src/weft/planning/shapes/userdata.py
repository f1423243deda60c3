"""Several parts of user data as one MIME archive (cloud-init: "MIME multi-part archive")."""

from __future__ import annotations

from base64 import encodebytes
from collections.abc import Sequence

from weft.model.podkeys import grown

NOVA_LIMIT = 49_149
"""Bytes: Nova takes 65535 of base64."""
CLOUD_CONFIG = (
    "MIME-Version: 1.0",
    'Content-Type: text/cloud-config; charset="utf-8"',
    "X-Merge-Type: list(append)+dict(no_replace,recurse_list)+str()",
)
"""Cloud-config that adds to the lists of earlier parts and removes nothing ("Merging user-data sections")."""
SHELL_SCRIPT = ("MIME-Version: 1.0", 'Content-Type: text/x-shellscript; charset="utf-8"')
_PLAIN = ("MIME-Version: 1.0", 'Content-Type: text/plain; charset="utf-8"')
_BOUNDARY = "===============weft-user-data=="


def archive(own: str, ours: str, headers: Sequence[str]) -> str:
    """An archive of an order's user data, of any type, and a part of weft's with its headers.

    cloud-init determines the type of text/plain parts by their first line; a MIME archive has its own headers and
    becomes a part unchanged. It reads an archive as text: letters beyond ASCII survive only in parts with an encoding
    of their own, base64. The boundary is fixed, so that equal orders give equal plans.
    """
    boundary = _BOUNDARY
    while boundary in own:
        boundary += "="
    lines = [f'Content-Type: multipart/mixed; boundary="{boundary}"', "MIME-Version: 1.0", ""]
    if "mime-version:" in own[:4096].lower():
        first = (own,)
    elif own.isascii():
        first = (*_PLAIN, "", own)
    else:
        first = (*_PLAIN, "Content-Transfer-Encoding: base64", "", encodebytes(own.encode()).decode())
    for part in (first, (*headers, "", ours)):
        lines += [f"--{boundary}", *part]
    return "\n".join([*lines, f"--{boundary}--", ""])


def sent_size(text: str) -> int:
    """Bytes of user data once placeholders are replaced by the pod's keys."""
    return len(text.encode()) + grown(text)
