"""All tests of one real fabric run in one process, which starts it, so that several fabrics run at the same time.
The same holds for the tests of a file that starts a service of OpenStack or runs deployment tools."""

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
    """Group of a test: its fabric, named by its parameter or its folder; its file, if that starts a service of its
    own; its own id, if it shares nothing."""
    if named := _NAMED.search(nodeid):
        return named[1]
    if nodeid.startswith(_STORAGE):  # they share a lab with storage
        return "storage"
    if nodeid.startswith(_BY_FILE):
        return nodeid.partition("::")[0]
    return next((rig for room, rig in _ROOMS.items() if nodeid.startswith(room)), nodeid)


class ByRig(LoadScopeScheduling):
    """Replaces xdist's groups (`xdist_group`), which pytest 9 breaks: it no longer accepts changed node ids."""

    def _split_scope(self, nodeid: str) -> str:
        return rig_of(nodeid)
