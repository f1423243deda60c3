"""Tests of one real fabric go to one process, which starts it; several fabrics wait at the same time. So do those
of one file that starts a service of OpenStack, or asks the tools that an export is for.
"""

from __future__ import annotations

import re

from xdist.scheduler import LoadScopeScheduling

_NAMED = re.compile(r"\[(opensm|ufm over opensm|eos|nvue|sonic|ovs|mixed)\b")
_ROOMS = {
    "tests/drivers/opensm/": "opensm",
    "tests/drivers/ufm/": "ufm over opensm",
    "tests/drivers/switches/": "switches",
}
_STORAGE = ("tests/drivers/openstack/test_storage_contract.py", "tests/e2e/test_storage_live.py")
_BY_FILE = ("tests/drivers/openstack/", "tests/e2e/", "tests/planning/export/", "tests/lab/test_ldap.py")


def rig_of(nodeid: str) -> str:
    """The fabric of a test: named by its parameter, or its room's; its file if that has a service of its own; the test
    itself if it shares nothing.
    """
    if named := _NAMED.search(nodeid):
        return named[1]
    if nodeid.startswith(_STORAGE):  # one lab with storage
        return "storage"
    if nodeid.startswith(_BY_FILE):
        return nodeid.partition("::")[0]
    return next((rig for room, rig in _ROOMS.items() if nodeid.startswith(room)), nodeid)


class ByRig(LoadScopeScheduling):
    """xdist's own groups (`xdist_group`) are lost with pytest 9: it no longer takes another name of a test."""

    def _split_scope(self, nodeid: str) -> str:
        return rig_of(nodeid)
