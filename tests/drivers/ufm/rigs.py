"""UFM's driver with a UFM in this process: the stand-in behind a transport, over a fabric in memory."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import httpx

from tests.drivers.opensm.rigs import FABRIC, host_ports, scope
from weft.drivers.ufm import Ufm as UfmDriver
from weft.model.fabric import Membership
from weft.model.fabrictypes import Mode
from weft.model.ids import format_guid, parse_guid
from weft.model.mark import Mark
from weft.model.owner import Owner
from weft.model.resources import Observed, Outcome, Resource, Status
from weft.model.site import FabricManager, Site
from weft.model.specs import SegmentSpec
from weft.ports.resources import Scope
from weft.testing.fabric import FakeFabric
from weftlab.layout import Layout
from weftlab.site import make_site, settings
from weftlab.ufm import Dialect, Request, Ufm
from weftlab.ufm.control import foreign
from weftlab.ufm.fabrics import CalledFabric
from weftlab.ufm.inventory import VirtualPort
from weftlab.ufm.messages import Silence
from weftlab.ufm.state import State, Token, User
from weftlab.ufm.ufm import Config

ADDRESSES = ("https://ufm1.lab", "https://ufm2.lab")
TOKEN, PASSWORD = "a-token-of-the-lab", "a-password-of-the-lab"
USERS = {
    "admin": User(PASSWORD),
    "weft": User(PASSWORD, "fabric_admin"),
    "reader": User(PASSWORD, "monitoring"),
}


class Book:
    """weft's records in memory, written by a test's own creates and deletes."""

    def __init__(self) -> None:
        self.rows: dict[Mark, SegmentSpec] = {}

    def wanted(self, settled: bool = False) -> Mapping[Mark, SegmentSpec]:
        return dict(self.rows)

    def known(self, marks: Collection[Mark]) -> Mapping[Mark, bool]:
        return {}

    def waiting(self) -> Sequence[str]:
        return ()

    def record_event(self, owner: Owner, message: str) -> None:
        return


class Booked(UfmDriver):
    """The driver with the engine's records: a row exists from the creation until it is to be deleted."""

    def __init__(self, book: Book, *args: Any, **kwargs: Any) -> None:
        self.book = book
        super().__init__(*args, **kwargs)

    def create(
        self, scope: Scope, wanted: Sequence[Resource], ids: Mapping[str, str]
    ) -> Mapping[str, Outcome]:
        outcomes = super().create(scope, wanted, ids)
        self.book.rows |= {scope.mark(r.key): spec(r) for r in wanted if outcomes[r.key].error is None}
        return outcomes

    def update(
        self, scope: Scope, wanted: Sequence[Resource], ids: Mapping[str, str]
    ) -> Mapping[str, Outcome]:
        self.book.rows |= {scope.mark(r.key): spec(r) for r in wanted}
        return super().update(scope, wanted, ids)

    def delete(
        self, scope: Scope, wanted: Sequence[Resource], ids: Mapping[str, str]
    ) -> Mapping[str, Outcome]:
        for resource in wanted:
            self.book.rows.pop(scope.mark(resource.key), None)
        return super().delete(scope, wanted, ids)


class Pair(httpx.BaseTransport):
    """One address of the pair; the one that isn't active refuses connections, or answers with `standby`."""

    def __init__(self, rig: UfmRig, address: str) -> None:
        self._rig, self._address = rig, address

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if self._rig.active != self._address:
            if self._rig.standby is None:
                raise httpx.ConnectError("Connection refused", request=request)
            status, text = self._rig.standby
            return httpx.Response(status, headers={"Location": "/"}, text=text, request=request)
        self._rig.sent.append(request)
        self._rig.before(request)
        try:
            answer = self._rig.ufm.handle(
                Request(
                    request.method,
                    request.url.path,
                    dict(parse_qsl(request.url.query.decode())),
                    {k.lower(): v for k, v in request.headers.items()},
                    request.read(),
                )
            )
        except Silence as error:
            raise httpx.RemoteProtocolError("Server disconnected", request=request) from error
        return httpx.Response(
            answer.status, headers=dict(answer.headers), content=answer.raw(), request=request
        )


class UfmRig:
    """Driver, stand-in and fabric.

    Args:
        folder: for the file with the credentials.
        agents: whether agents read the ports' own tables.
    """

    by_manager = True
    mode = Mode.FULL

    def __init__(
        self,
        folder: Path,
        agents: bool = True,
        dialect: Dialect | None = None,
        authentication: str = "token",
        default_membership: str = "limited",
        smconf: Mapping[str, str] | None = None,
        virtual: tuple[VirtualPort, ...] = (),
    ) -> None:
        base = make_site(
            settings(nodes=8, leaves=2, hcas=1), Layout(Path("/nowhere"), Path("/nowhere"), 23000)
        )
        self.fabric = FakeFabric(base, FABRIC)
        self.credentials = folder / "ufm.yaml"
        self.write_credentials(f"token: {TOKEN}\nusername: weft\npassword: {PASSWORD}\n")
        manager = FabricManager(
            driver="ufm",
            addresses=ADDRESSES,
            authentication=authentication,  # type: ignore[arg-type]
            credentials=None if authentication == "certificate" else str(self.credentials),
        )
        fabric = base.fabrics[FABRIC].model_copy(update={"manager": manager})
        self.site: Site = base.model_copy(update={"fabrics": {FABRIC: fabric}})
        config = Config(
            users=USERS,
            default_membership=default_membership,
            virtual=virtual,
            **({} if smconf is None else {"smconf": smconf}),
        )
        default = self.fabric.managers[0].text or ""
        if default_membership == "full":
            default = "Default=0x7fff, ipoib : ALL=full;\n"
        backend = CalledFabric(default, self._write, self.fabric.managers[0].topology)
        self.ufm = Ufm(backend, config, dialect)
        self.ufm.set_pkeys(self._give_token)
        self.before: Callable[[httpx.Request], None] = lambda _: None
        """Called before a request reaches UFM."""
        self.standby: tuple[int, str] | None = None
        """Status and text of every answer by the web server of a node without UFM; None: there is no web server."""
        self.active, self.sent, self.book = ADDRESSES[0], list[httpx.Request](), Book()
        self.agents = self.fabric.managers if agents else ()
        self.driver = self.another_driver()

    def another_driver(self, **more: Any) -> Booked:
        return Booked(
            self.book,
            self.site,
            FABRIC,
            self.book,
            agents=self.agents,
            transport=lambda address: Pair(self, address),
            takes=0.3,
            **{"proof_seconds": 0.3, "quiet_seconds": 0.0, **more},
        )

    def ports(self) -> list[str]:
        return [format_guid(g) for g in host_ports(self.site)]

    def add(self, port: str, number: int) -> None:
        self.foreign(number, {**self.members(number), port: "full"})

    def remove(self, port: str, number: int) -> None:
        mine = self.members(number)
        del mine[port]
        self.foreign(number, mine)

    def blind(self, port: str) -> None:
        self.fabric.cut(parse_guid(port))

    # -- beyond the contract -----------------------------------------------------------------------------------

    def write_credentials(self, text: str) -> None:
        self.credentials.write_text(text)
        self.credentials.chmod(0o600)

    def members(self, number: int) -> dict[str, str]:
        """Port -> membership, as UFM has it."""
        pkey = self.ufm.pkeys.get(number)
        return {f"0x{g}": m.membership for g, m in pkey.guids.items()} if pkey else {}

    def foreign(self, number: int, guids: dict[str, str] | None) -> None:
        """Set a partition past weft, or remove it."""
        self.ufm.set_pkeys(foreign(f"0x{number:x}", guids))

    def keys(self, port: str) -> set[int]:
        """The keys in the port's own table."""
        return self.fabric.wire.hosts[parse_guid(port)]

    def methods(self) -> list[str]:
        """Methods and paths of the changes that were sent."""
        return [f"{r.method} {r.url.path}" for r in self.sent if r.method != "GET"]

    def _write(self, text: str) -> None:
        for manager in self.fabric.managers:
            manager.text = text
        self.fabric.wire.sweep()

    def _give_token(self, state: State) -> None:
        state.tokens[TOKEN] = Token("weft", 0, expires_in=1 << 40)


def spec(resource: Resource) -> SegmentSpec:
    assert isinstance(resource.spec, SegmentSpec)
    return resource.spec


def segment(number: int, ports: Sequence[str]) -> Resource:
    members = tuple(Membership(port=p) for p in sorted(ports))
    return Resource(
        key="partition", name="weft-partition", where=FABRIC, spec=SegmentSpec(number=number, members=members)
    )


KEY = 0x101
"""P_Key of the segments that tests make."""


def create(rig: UfmRig, wanted: Resource, pod: int = 1) -> Outcome:
    return rig.driver.create(scope(pod), [wanted], {})[wanted.key]


def seen(rig: UfmRig, wanted: Resource, pod: int = 1) -> Observed:
    return rig.driver.find(scope(pod), [wanted], {})[wanted.key]


def made(rig: UfmRig, count: int = 2) -> Resource:
    """A segment of this many ports; `sent` is cleared."""
    wanted = segment(KEY, rig.ports()[:count])
    assert create(rig, wanted).error is None
    assert seen(rig, wanted).status is Status.SETTLED
    rig.sent.clear()
    return wanted


def at_index0(state: State, number: int, ports: Sequence[str]) -> None:
    for port in ports:
        state.pkeys[number].guids[port.removeprefix("0x")].index0 = True


def basic() -> dict[str, str]:
    """Headers of an administrator with a password."""
    return {"Authorization": "Basic " + b64encode(f"admin:{PASSWORD}".encode()).decode()}
