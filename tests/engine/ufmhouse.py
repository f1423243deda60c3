"""UFM's driver with the UFM stand-in, in one process, as the fabric of a house; virtual ports come with servers."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qsl

import httpx

from tests.engine.house import House
from weft.drivers.ufm import Ufm as UfmDriver
from weft.engine.rows.ledger import FabricLedger
from weft.model.resources import Kind
from weft.model.site import FabricManager, Site
from weft.planning.fabric.functions import adapter_at, guid_of
from weft.testing.fabric import FakeFabric
from weftlab.ufm import Request, Ufm
from weftlab.ufm.fabrics import CalledFabric
from weftlab.ufm.inventory import VirtualPort
from weftlab.ufm.state import State, Token, User
from weftlab.ufm.ufm import Config

_TOKEN = "a-token-of-the-house"


def managed_by_ufm(site: Site, folder: Path) -> Site:
    """The same site, with its fabric `ib0` managed by UFM."""
    credentials = folder / "ufm.yaml"
    credentials.write_text(f"token: {_TOKEN}\n")
    credentials.chmod(0o600)
    manager = FabricManager(driver="ufm", addresses=("https://ufm",), credentials=str(credentials))
    fabric = site.fabrics["ib0"].model_copy(update={"manager": manager})
    return site.model_copy(update={"fabrics": {"ib0": fabric}})


class UfmOfAHouse:
    """UFM in the place of a house's fabric.

    Attributes:
        dark: MAC addresses of functions whose host gives them no GUID.
        strays: further virtual ports.
    """

    def __init__(self, house: House, opensm: Site) -> None:
        """`opensm`: the site with its agents, which read the ports' own tables."""
        self._house = house
        self.fabric = FakeFabric(opensm, "ib0")
        self.dark, self.strays = set[str](), list[VirtualPort]()
        backend = CalledFabric(
            self.fabric.managers[0].text or "", self._write, self.fabric.managers[0].topology
        )
        self.ufm = Ufm(
            backend, Config(users={"weft": User("a-password", "fabric_admin")}, default_membership="limited")
        )
        self.ufm.set_pkeys(_give_token)

    def driver(self, site: Site) -> UfmDriver:
        ledger = FabricLedger(self._house.database, "ib0", site.fabrics["ib0"].words)
        return UfmDriver(
            site,
            "ib0",
            ledger,
            agents=self.fabric.managers,
            transport=lambda address: httpx.MockTransport(self._answer),
            takes=0.3,
            proof_seconds=0.3,
            quiet_seconds=0.0,
        )

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.ufm.inventory.virtual = [*self._booted(), *self.strays]
        headers = {k.lower(): v for k, v in request.headers.items()}
        query = dict(parse_qsl(request.url.query.decode()))
        answer = self.ufm.handle(Request(request.method, request.url.path, query, headers, request.read()))
        return httpx.Response(answer.status, headers=dict(answer.headers), content=answer.raw())

    def _booted(self) -> list[VirtualPort]:
        """A virtual port for each bound function, behind the adapter that has its slot."""
        found: list[VirtualPort] = []
        nodes = {n.nova_host: n for n in self._house.site.nodes}
        for port in self._house.cloud.things(Kind.PORT):
            known = {**port.fields, **port.facts}
            slot, mac, node = (
                known.get("pci_slot"),
                str(known.get("mac") or ""),
                nodes.get(str(known.get("bound_host"))),
            )
            if known.get("vnic_type") != "direct" or not slot or node is None or mac in self.dark:
                continue
            name = adapter_at(node, str(slot))
            hca = next(h for h in node.hcas if h.name == name)
            found.append(VirtualPort(f"{guid_of(mac):016x}", f"{hca.port_guid:016x}"))
        return found

    def _write(self, text: str) -> None:
        for manager in self.fabric.managers:
            manager.text = text
        self.fabric.wire.sweep()


def _give_token(state: State) -> None:
    state.tokens[_TOKEN] = Token("weft", 0, expires_in=1 << 40)
