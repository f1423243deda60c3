"""`nvidia-smi -q -x`, of drivers 450 to 595.

The document has no schema that holds for two versions. A member that a version doesn't have is None, and so is one
that the board doesn't have (`N/A`, `Requested functionality has been deprecated`).
"""

from __future__ import annotations

import re
from typing import NamedTuple
from xml.etree import ElementTree

from weftcheck.host import Host, UnreadableError, shown

COMMAND = ("nvidia-smi", "-q", "-x")
TIMEOUT = 90.0
"""Seconds: without persistence mode each GPU is initialized first, some 5 s each."""
_ABSENT = re.compile(r"(\[?N/A\]?|\[?Not Supported\]?|.*deprecated.*|)$", re.IGNORECASE)
_LOST = re.compile(r"GPU is lost|Unknown Error|requires reset", re.IGNORECASE)


class Gpu:
    """One GPU of the document."""

    def __init__(self, element: ElementTree.Element) -> None:
        self.element = element
        self.address = _address(element.get("id") or element.findtext("pci/pci_bus_id") or "")

    def get(self, *paths: str) -> str | None:
        """The text at the first of these paths that has one; None: none has, or `N/A`."""
        for path in paths:
            text = (self.element.findtext(path) or "").strip()
            if not _ABSENT.match(text):
                return text
        return None

    def lost(self) -> str | None:
        """The text in place of values if the driver lost the GPU; None if it didn't."""
        for one in self.element.iter():
            if found := _LOST.search(one.text or ""):
                return found[0]
        return None

    def members(self, path: str) -> list[ElementTree.Element]:
        """Elements below a path."""
        found = self.element.find(path)
        return [] if found is None else list(found)


class Report(NamedTuple):
    """The document."""

    driver: str | None
    attached: int | None
    gpus: list[Gpu]


def _address(text: str) -> str:
    """`00000000:06:00.0` as sysfs writes it: `0000:06:00.0`."""
    domain, _, rest = text.lower().partition(":")
    return f"{int(domain, 16):04x}:{rest}" if re.fullmatch("[0-9a-f]{1,8}", domain) else text


def read(host: Host) -> Report:
    """nvidia-smi's report. Raises MissingError without it, UnreadableError if it hangs, fails or isn't understood."""
    done = host.output(*COMMAND, timeout=TIMEOUT)
    return parse(done.text, done.cut)


def parse(text: str, cut: bool = False) -> Report:
    """The document's GPUs. Raises UnreadableError."""
    source = " ".join(COMMAND)
    if cut:
        raise UnreadableError(source, "printed more than is read")
    if "<!ENTITY" in text:
        raise UnreadableError(source, "its document defines entities")
    start = text.find("<")  # warnings may come first
    try:
        root = ElementTree.fromstring(text[max(start, 0) :])
    except ElementTree.ParseError as error:
        said = shown(text.strip().partition("\n")[0]) if text.strip() else "nothing"
        raise UnreadableError(source, f"didn't print XML ({error}), but {said}") from None
    if root.tag != "nvidia_smi_log":
        raise UnreadableError(source, f"its document is a {shown(root.tag)}, not nvidia_smi_log")
    attached = (root.findtext("attached_gpus") or "").strip()
    return Report(
        (root.findtext("driver_version") or "").strip() or None,
        int(attached) if attached.isdigit() else None,
        [Gpu(one) for one in root.findall("gpu")],
    )
