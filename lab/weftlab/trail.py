"""Neutron's audit trail: keystonemiddleware logs each requested change as a CADF event."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from weftlab.config import Sections
from weftlab.layout import LabError, Layout

_EVENT = re.compile(r" INFO oslo\.messaging\.notification\.audit\.http\.\w+ .*?(\{.*\})$")
_BEFORE = "keystonecontext extensions"
_FILTER = """
[filter:audit]
paste.filter_factory = keystonemiddleware.audit:filter_factory
audit_map_file = {map}
# Reads are most of what Neutron is asked, and change nothing.
ignore_req_list = GET, HEAD
"""


def paste_path(layout: Layout) -> Path:
    """Neutron's pipeline with the audit filter."""
    return layout.etc / "neutron" / "api-paste.ini"


def with_trail(sections: Sections, layout: Layout) -> Sections:
    """Neutron's configuration with its audit trail."""
    default = {**sections["DEFAULT"], "api_paste_config": paste_path(layout)}
    return {**sections, "DEFAULT": default, "audit_middleware_notifications": {"driver": "log"}}


def write(layout: Layout, env: Path) -> None:
    """Neutron's pipeline with the filter. Raises `LabError` if it has another shape. Args: env: OpenStack's."""
    text = (env / "etc/neutron/api-paste.ini").read_text()
    if text.count(_BEFORE) != 1:
        raise LabError("Neutron's api-paste.ini has no place for the audit filter")
    text = text.replace(_BEFORE, _BEFORE.replace(" ", " audit "))
    paste_path(layout).write_text(text + _FILTER.format(map=env / "etc/pycadf/neutron_api_audit_map.conf"))


def events(layout: Layout) -> list[dict[str, Any]]:
    """What is in the trail, in its order: an event for each request, and one with its outcome.

    Raises OSError if there is no log, ValueError for an event that isn't JSON.
    """
    lines = layout.log("neutron").read_text(errors="replace").splitlines()
    return [json.loads(found[1])["payload"] for found in map(_EVENT.search, lines) if found]
