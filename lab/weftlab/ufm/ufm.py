"""One UFM: from a request to its answer. Safe for threads; opens no socket.

ufm = Ufm(fabric, Config(users={"admin": User("secret")}), Dialect(version="6.21.0-8"))
ufm.handle(Request("GET", "/ufmRest/app/ufm_version", headers={"authorization": "Basic …"}))
ufm.faults.stale = True
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weft.model.errors import WeftError
from weftlab.ufm.access import PREFIXES, Access, tokens
from weftlab.ufm.dialect import Dialect
from weftlab.ufm.fabrics import Fabric
from weftlab.ufm.faults import Faults
from weftlab.ufm.health import Health
from weftlab.ufm.inventory import Inventory, VirtualPort, paged
from weftlab.ufm.jobs import Change, Jobs
from weftlab.ufm.messages import REAL_HEADERS, Refused, Request, Response, Silence
from weftlab.ufm.pkeys import Pkeys
from weftlab.ufm.state import Pkey, State, User

SAFE_SMCONF: Mapping[str, str] = {
    "m_key": "0x7a11c0de7a11c0de",
    "sm_key": "0x1b2c3d4e5f607182",
    "sa_key": "0x91a2b3c4d5e6f708",
    "m_key_per_port": "true",
    "no_partition_enforcement": "false",
}
"""Settings that hardening asks for; the lab's keys aren't secret."""


@dataclass(frozen=True, slots=True)
class Config:
    """How a UFM is set up.

    Attributes:
        users: name -> password and role.
        certificates: common name of a client's certificate -> user.
        default_membership: gv.cfg's; a fresh UFM has full.
        smconf: what /app/smconf answers.
        state: file that P_Keys and tokens are kept in; none: they end with the process.
    """

    users: Mapping[str, User]
    certificates: Mapping[str, str] = field(default_factory=dict[str, str])
    default_membership: str = "limited"
    smconf: Mapping[str, str] = field(default_factory=lambda: dict(SAFE_SMCONF))
    virtual: tuple[VirtualPort, ...] = ()
    state: Path | None = None


class Ufm:
    """See the module's docstring."""

    def __init__(self, fabric: Fabric, config: Config, dialect: Dialect | None = None) -> None:
        self.dialect, self.faults = dialect or Dialect(), Faults()
        self.fabric, self.config = fabric, config
        self.access = Access(config.users, config.certificates, self.dialect)
        self.inventory, self.health = Inventory(config.virtual), Health(self.dialect)
        self.jobs = Jobs(self.faults, self._change)
        self.calls: list[tuple[str, str]] = []
        """Method and path of what was asked."""
        self._pkeys = Pkeys(self.dialect, self.faults, config.default_membership)
        self._lock = threading.RLock()
        self._state = State.load(config.state) if config.state else State()
        self._stale: State | None = None
        self._replica: State | None = None
        self._apply()

    # -- what tests and the control do -------------------------------------------------------------------------

    def plant(self, wanted: dict[str, Any]) -> None:
        """Set faults; what was held back is made when `hold` is lifted."""
        with self._lock:
            self.faults.plant(wanted)
            self._stale = self._state.copy() if self.faults.stale else None
            self._apply()

    def restart(self) -> None:
        """Sessions and jobs are gone, P_Keys and tokens are not."""
        with self._lock:
            self.access.sessions.clear()
            self.jobs.forget()
            self._apply()

    def stop_replication(self) -> None:
        """Stop copying state to the standby, which keeps its present one."""
        with self._lock:
            self._replica = self._state.copy()

    def failover(self) -> None:
        """The standby takes over, with what was replicated to it."""
        with self._lock:
            if self._replica is not None:
                self._state, self._replica = self._replica, None
                self._save()
            self.restart()

    def set_pkeys(self, change: Change) -> None:
        """Apply a foreign change, past REST."""
        with self._lock:
            self._change(change)

    @property
    def pkeys(self) -> Mapping[int, Pkey]:
        """The P_Keys that it really has, whatever faults make it answer."""
        return self._state.pkeys

    # -- answering ---------------------------------------------------------------------------------------------

    def handle(self, request: Request) -> Response:
        """Answer a request. Raises `Silence` where no answer is given."""
        self.calls.append((request.method, request.path))
        try:
            self._planted()
            answer = self._answer(request)
        except Refused as error:
            answer = Response(error.status, error.text)
        except WeftError as error:
            answer = Response(500, str(error))
        if request.method in ("PUT", "POST", "DELETE") and "/resources/pkeys" in request.path:
            if self.faults.hang:
                time.sleep(self.faults.hang)
            if self.faults.lose_answers:
                self.faults.lose_answers -= 1
                raise Silence
        return Response(answer.status, answer.body, {**REAL_HEADERS, **answer.headers})

    def _planted(self) -> None:
        if self.faults.starting:
            raise Refused(502, "<html><body>502 Proxy Error</body></html>")
        if self.faults.statuses:
            status = self.faults.statuses.popleft()
            if status == 0:
                raise Silence
            raise Refused(status, f"error {status}")
        if self.faults.texts:
            raise Refused(200, self.faults.texts.popleft())

    def _answer(self, request: Request) -> Response:
        if (request.method, request.path) == ("POST", "/dologin"):
            return self.access.login(request)
        prefix = next((p for p in PREFIXES if request.path.startswith(f"{p}/")), "")
        if not prefix:
            raise Refused(404, "Not Found")
        path = re.sub("/+", "/", request.path.removeprefix(prefix)).rstrip("/")
        with self._lock:
            user = self.access.user(prefix, request, self._state)
            self.access.check_role(user, request, path)
            return self._route(user, path, request)

    def _route(self, user: str, path: str, request: Request) -> Response:
        method, query = request.method, request.query
        words = path.strip("/").split("/")
        if words[:2] == ["resources", "pkeys"]:
            return self._route_pkeys(method, words[2:], request)
        if words[0] == "resources" and len(words) == 2 and method == "GET":
            return self._listing(words[1], query)
        if words[0] == "jobs" and method == "GET":
            return Response(body=self.jobs.answer(words[1:], query))
        if words[:2] == ["app", "tokens"]:
            answer = tokens(user, method, words[2:], request, self._state)
            self._save()
            return answer
        if (method, path) == ("GET", "/app/ufm_version"):
            return Response(body={"ufm_release_version": self.dialect.version})
        if (method, path) == ("GET", "/app/smconf"):
            return Response(body=dict(self.config.smconf))
        if path.startswith("/app/"):
            return self.health.answer(method, path, request)
        raise Refused(404, "Not Found")

    def _listing(self, name: str, query: Mapping[str, str]) -> Response:
        known = {
            "systems": self.inventory.systems,
            "ports": self.inventory.ports,
            "links": self.inventory.links,
            "vports": self.inventory.vports,
        }
        if name not in known:
            raise Refused(404, "Not Found")
        self._look()
        return Response(body=paged(known[name](query), query))

    # -- P_Keys ------------------------------------------------------------------------------------------------

    def _route_pkeys(self, method: str, words: list[str], request: Request) -> Response:
        seen = self._stale or self._state
        if method == "GET":
            if words == ["last_updated"]:
                return Response(body={"last_updated": self._state.changed_at})
            body = (
                self._pkeys.single(words[0], seen, request.query)
                if words
                else self._pkeys.listing(seen, request.query)
            )
            return Response(body=body)
        return self._changed(f"{method} {'/'.join(words)}", self._change_of(method, words, request))

    def _change_of(self, method: str, words: list[str], request: Request) -> Change:
        known = self._known() if self.dialect.unknown_guid == "404" else frozenset[str]()
        match method, words:
            case "POST", []:
                return lambda state: self._pkeys.add(request, state, known)
            case "PUT", []:
                return lambda state: self._pkeys.put(request, state, known)
            case "POST", ["add"] if self.dialect.has_add:
                return lambda state: self._pkeys.add_empty(request, state)
            case "PUT", ["qos_conf"]:
                return lambda state: self._pkeys.set_qos(request, state)
            case "DELETE", [key]:
                return lambda state: self._pkeys.remove(key, state)
            case "DELETE", [key, "guids", guids]:
                return lambda state: self._pkeys.remove_guids(key, guids, state)
            case _:
                raise Refused(404, "Not Found")

    def _known(self) -> frozenset[str]:
        self._look()
        return frozenset(self.inventory.guids())

    def _changed(self, operation: str, change: Change) -> Response:
        if self.dialect.changes == "done" and not self.faults.job_polls and not self.faults.jobs:
            self._change(change)
            return Response(self.dialect.created if not operation.startswith("DELETE") else 200, {})
        change(self._state.copy())  # what can't be done fails at once
        job = self.jobs.start(operation, change)
        return Response(202, f"/jobs/{job.id}", {"Location": f"/ufmRest/jobs/{job.id}"})

    def _change(self, change: Change) -> None:
        new = self._state.copy()
        change(new)
        self._state = new
        new.changed_at = time.time()
        self._save()
        self._apply()

    def _apply(self) -> None:
        if not self.faults.hold:
            self.fabric.apply(self._state.pkeys)

    def _save(self) -> None:
        if self.config.state:
            self._state.save(self.config.state)

    def _look(self) -> None:
        self.inventory.see(self.fabric.discover())
