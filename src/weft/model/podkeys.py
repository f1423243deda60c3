"""Keys of a pod: where they stand in texts that are stored, so that they themselves are stored nowhere."""

from __future__ import annotations


def place(name: str) -> str:
    """The place of a key in a server's user data, until the server is made."""
    return f"${{weft:{name}}}"
