"""Steps about storage: Manila's shares and an export of the site, used by hosts of the storage network."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from weftacceptance.cloud import NO_SERVICE, Answer, Caller, Json, LostError, SkipError, soon
from weftacceptance.inside import Files
from weftacceptance.steps import PREFIX, Run, Tests, step, weft

SHARES, VOLUMES = "shared-file-system", "block-storage"
_VERSION = {"X-OpenStack-Manila-API-Version": "2.45"}
_HOSTS = ("10.79.0.240", "10.79.0.241")
"""Addresses on the lab's storage network that no server has."""
_SMALLEST = 50 << 10
"""GiB: a file system of this size must be possible."""


def manila(caller: Caller, method: str, path: str, body: Json | None = None) -> Answer:
    """Sends a request to Manila. Raises `SkipError` if the cloud has none."""
    got = caller.ask(SHARES, method, path, body, _VERSION)
    if got.status == NO_SERVICE:
        raise SkipError("the lab has no storage: start it with --storage")
    return got


def find_share(caller: Caller, key: str) -> Json | None:
    """A share by its id, or None if Manila answers 404."""
    got = manila(caller, "GET", f"/shares/{key}")
    return None if got.status == 404 else got.get("share")


@contextmanager
def share(caller: Caller, name: str, to: str) -> Generator[tuple[str, str]]:
    """A share of 1 GiB for the block, which one address may write to: its id and export."""
    asked = {"name": PREFIX + name, "size": 1, "share_proto": "NFS", "share_type": "nas"}
    key = str(manila(caller, "POST", "/shares", {"share": asked}).get("share")["id"])
    try:
        if not soon(lambda: (find_share(caller, key) or {}).get("status") == "available", 60):
            raise LostError("the share doesn't become available")
        rule = {"access_type": "ip", "access_to": to, "access_level": "rw"}
        manila(caller, "POST", f"/shares/{key}/action", {"allow_access": rule})

        def is_in_force() -> bool:
            rows = manila(caller, "GET", f"/share-access-rules?share_id={key}").get("access_list")
            return [(one["access_to"], one["state"]) for one in rows] == [(to, "active")]

        if not soon(is_in_force, 60):
            raise LostError("the share's rule isn't in force")
        (export,) = manila(caller, "GET", f"/shares/{key}/export_locations").get("export_locations")
        yield key, str(export["path"])
    finally:
        manila(caller, "DELETE", f"/shares/{key}")
        soon(lambda: find_share(caller, key) is None, 60)


def keeps(host: Files, location: str, other: Files | None = None) -> bool:
    """Whether a host can write a file there, and it, or another one, reads the same."""
    word = f"{PREFIX}{time.time_ns()}"
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(word)
        file.flush()
        written = host.write(location, word, Path(file.name))
    return written and (other or host).read(location, word).strip() == word


@step("provision_storage", "storage")
def provision_storage(run: Run) -> Json:
    """A share of Manila has the requested size, and a host that may can write to it and read it."""
    tests, mine = Tests(), _HOSTS[0]
    with share(run.tenant, "share", mine) as (key, location), run.lab.files(mine) as host:
        rows = manila(run.tenant, "GET", "/shares").get("shares")
        tests.add("api_available", key in [one["id"] for one in rows], "Manila lists it")
        tests.add("provisioned", keeps(host, location), "a file is written there, and read")
        tests.add("capacity_matches", (find_share(run.tenant, key) or {}).get("size") == 1, "1 GiB")
    tests.add("removed", find_share(run.tenant, key) is None, "Manila no longer has it")
    return {"tests": tests}


@step("multiple_filesystems", "storage")
def multiple_filesystems(run: Run) -> Json:
    """Two shares at the same time, neither of which has the other's files."""
    tests, mine = Tests(), _HOSTS[0]
    with (
        share(run.tenant, "one", mine) as (first, one),
        share(run.tenant, "two", mine) as (second, two),
        run.lab.files(mine) as host,
    ):
        used = keeps(host, one) and keeps(host, two)
        apart = not set(host.files(one) or ()) & set(host.files(two) or ())
        tests.add("multiple_filesystems", used and apart, "each has its own files alone")
        sizes = [int((find_share(run.tenant, key) or {})["size"]) for key in (first, second)]
        pools = manila(run.operator, "GET", "/scheduler-stats/pools/detail").get("pools")
        total = sum(float(pool["capabilities"]["total_capacity_gb"]) for pool in pools)
        tests.add("within_total_capacity", 0 < sum(sizes) <= total, f"{sum(sizes)} of {total:.0f} GiB")
        tests.add("min_fs_size", max(sizes) <= _SMALLEST, f"{max(sizes)} GiB each")
    return {"tests": tests}


@step("home_directory_storage", "storage")
def home_directory_storage(run: Run) -> Json:
    """The site's export for homes: one host reads what another one wrote over NFSv4. Quotas aren't checked."""
    tests, clouds = Tests(), weft(run.operator, "/v1/site")["document"]["clouds"]
    found = [c["storage"]["exports"] for c in clouds.values() if (c.get("storage") or {}).get("exports")]
    if not found:
        raise SkipError("the site has no export for homes: start the lab with --storage")
    location = str(found[0]["home"]["location"])
    with run.lab.files(_HOSTS[0]) as host, run.lab.files(_HOSTS[1]) as other:
        mounted = host.files(location) is not None and other.files(location) is not None
        tests.add("nfsv4_mounted", mounted, "by two hosts")
        tests.add("nfs_read_write", keeps(host, location), "a file is written, and read")
        tests.add("nfs_shared_visibility", keeps(host, location, other), "by one, and read by the other")
    return {"tests": tests}
