"""One pod as weft's own database has it, and as the cloud has it: for tests in which neither weft nor its API can be
believed, since Keystone, too, may be lied about."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import openstack
import psycopg
from psycopg.rows import dict_row

from tests.e2e.people import servers_of
from weftlab.lab import Lab

LONGEST_PAUSE = 400.0
"""Seconds: no answer from outside may put a pod off for longer."""


class PodWatch:
    """Reads weft's embedded PostgreSQL and asks the real services; what weft thinks of either is not asked."""

    def __init__(self, lab: Lab, pod_id: str) -> None:
        self.pod_id = pod_id
        folder = lab.layout.data / "weft" / "postgres"
        self._database = psycopg.connect(
            f"postgresql://postgres@/postgres?host={folder}", autocommit=True, row_factory=dict_row
        )
        config = openstack.config.OpenStackConfig(config_files=[str(lab.clouds_yaml)])
        self._cloud: Any = openstack.connection.Connection(config=config.get_one("operator"))
        self._ids = {(r["kind"], r["outside_id"]) for r in self._resources() if r["outside_id"]}

    def close(self) -> None:
        self._database.close()

    @property
    def state(self) -> str:
        return str(self._pod()["state"])

    @property
    def reason(self) -> str:
        return str(self._pod()["reason"])

    @property
    def signed(self) -> bool:
        """Whether there is a receipt."""
        sql = "SELECT count(*) AS n FROM receipt WHERE owner_id = %s"
        return bool(self._row(sql)["n"])

    def ids(self) -> set[tuple[str, str]]:
        """Kind and id of everything in the cloud that the pod's rows name."""
        return {(r["kind"], r["outside_id"]) for r in self._resources() if r["outside_id"]}

    def wake(self) -> None:
        """Make the pod due now, whatever it waits for."""
        self._database.execute(
            "UPDATE pod SET woken = woken + 1, next_at = now(), failures = 0 WHERE id = %s", [self.pod_id]
        )
        self._database.execute("SELECT pg_notify('weft_work', '')")

    def repair(self) -> None:
        """Request a repair as `weft audit --repair` does, which waits for its end."""
        self._database.execute("UPDATE pod SET repair = true WHERE id = %s", [self.pod_id])
        self.wake()

    def visited(self, seconds: float = 90.0) -> None:
        """Wake the loop and wait until a visit that began after this has ended."""
        token = int(self._pod()["token"])
        self.wake()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            pod = self._pod()
            if pod["state"] == "RELEASED":
                return
            if pod["token"] > token and pod["worker"] is None:
                pause = float(pod["pause"])
                assert pause < LONGEST_PAUSE, f"put off for {pause:.0f} s: {pod['reason']}"
                return
            time.sleep(0.1)
        raise AssertionError(f"no visit ended within {seconds:.0f} s: {self.state}: {self.reason}")

    def until(self, state: str, seconds: float = 120.0) -> None:
        """Wake it until it is in that state."""
        end = time.monotonic() + seconds
        while self.state != state:
            assert time.monotonic() < end, f"{self.state}, not {state}, after {seconds:.0f} s: {self.reason}"
            self.visited(seconds)

    def visits_until(self, seen: Callable[[], bool], what: str, seconds: float = 150.0) -> None:
        """Wake it, visit by visit, until something is seen; by itself a pod at rest is visited once a minute."""
        end = time.monotonic() + seconds
        while not seen():
            assert time.monotonic() < end, f"not within {seconds:.0f} s: {what}: {self.state}: {self.reason}"
            self.visited(seconds)

    def really_there(self) -> set[str]:
        """Kinds and ids of the pod's servers, ports, networks and so on that the real services still have."""
        return {f"{kind} {thing}" for kind, thing in self._ids if self._is_there(kind, thing)}

    def named(self) -> list[str]:
        """Names of all the pod's servers, and of ports and networks in the whole cloud that begin as the pod's."""
        mark = f"weft-{self.pod_id[:8]}-"
        network = self._cloud.network
        things = [*network.ports(), *network.networks(), *network.security_groups()]
        named = [t for t in things if t.name.startswith(mark)]
        return sorted(t.name for t in (*servers_of(self._cloud, self.pod_id), *named))

    def _is_there(self, kind: str, thing: str) -> bool:
        paths = {
            "server": (self._cloud.compute, "/servers"),
            "port": (self._cloud.network, "/ports"),
            "subnet": (self._cloud.network, "/subnets"),
            "network": (self._cloud.network, "/networks"),
            "router": (self._cloud.network, "/routers"),
            "security_group": (self._cloud.network, "/security-groups"),
        }
        if kind not in paths:
            return False
        service, path = paths[kind]
        status = service.get(f"{path}/{thing}").status_code
        assert status in (200, 404), f"{kind} {thing}: HTTP {status}"
        return status == 200

    def _pod(self) -> dict[str, Any]:
        sql = "SELECT *, extract(epoch FROM next_at - now()) AS pause FROM pod WHERE id = %s"
        return self._row(sql)

    def _resources(self) -> list[dict[str, Any]]:
        sql = "SELECT kind, outside_id FROM resource WHERE owner_id = %s"
        return self._database.execute(sql, [self.pod_id]).fetchall()

    def _row(self, sql: Any) -> dict[str, Any]:
        found = self._database.execute(sql, [self.pod_id]).fetchone()
        assert found is not None
        return found
