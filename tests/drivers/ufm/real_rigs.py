"""UFM's driver, the stand-in as a program with TLS, real OpenSM over ibsim, and agents beside it."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.drivers.opensm.rigs import FABRIC, host_ports, until
from tests.drivers.ufm.rigs import Book, Booked
from weft.model.fabrictypes import Mode
from weft.model.ids import format_guid, parse_guid
from weftlab.fabric import Faults, fabric_jobs
from weftlab.layout import Layout, free_ports
from weftlab.site import make_site, settings
from weftlab.supervisor import Supervisor
from weftlab.ufm.control import UfmControl
from weftlab.ufm.service import ufm_jobs


class RealUfmRig:
    """Started once; call `clean` before each test."""

    by_manager = True
    mode = Mode.FULL

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="weft-ufm-")
        state = Path(self._folder.name)
        layout = Layout(state, state / "cache", free_ports())
        self.site = make_site(settings(nodes=8, leaves=2, hcas=1, fabric_manager="ufm"), layout)
        self._supervisor = Supervisor(layout.run)
        self._jobs = (*fabric_jobs(layout, self.site), *ufm_jobs(layout, self.site, FABRIC))
        self.faults, self.control = (
            Faults(layout, self.site, self._supervisor),
            UfmControl(layout.port("ufm-control")),
        )
        self._ends = {h.port_guid: f"{n.name}/{h.name}" for n in self.site.nodes for h in n.hcas}
        self._cut: set[int] = set()
        try:
            self._supervisor.run(self._jobs)
        except BaseException:
            self.close()
            raise
        self.driver = self._new_driver()

    def close(self) -> None:
        self._supervisor.stop()
        self._folder.cleanup()

    def clean(self) -> None:
        """Plug in every cable, plan no faults, remove every partition, and wait until the ports show it."""
        self._supervisor.run(self._jobs)
        for guid in tuple(self._cut):
            self._cut.discard(guid)
            self.faults.relink(self._ends[guid])
        self.control.lift()
        self.control.do("start")
        self.driver.close()
        self.driver = self._new_driver()
        for number in self.driver.configured().numbers:
            self.control.foreign(f"0x{number:x}", None)
        until("the fabric is clean", self._is_clean)

    def ports(self) -> list[str]:
        return [format_guid(g) for g in host_ports(self.site)]

    def members(self, number: int) -> dict[str, str]:
        one = self.driver.rest.get(f"/resources/pkeys/0x{number:x}", guids_data="true")
        return {f"0x{m['guid']}": m["membership"] for m in (one or {}).get("guids", [])}

    def add(self, port: str, number: int) -> None:
        self.control.foreign(f"0x{number:x}", {**self.members(number), port: "full"})
        until("it is there", lambda: self._has(port, number))

    def remove(self, port: str, number: int) -> None:
        mine = self.members(number)
        del mine[port]
        self.control.foreign(f"0x{number:x}", mine)
        until("it is gone", lambda: not self._has(port, number))

    def blind(self, port: str) -> None:
        guid = parse_guid(port)
        self._cut.add(guid)
        self.faults.unlink(self._ends[guid])
        until("the port is gone", lambda: bool(self.driver.snapshot().tables[guid].unreachable))

    def keys(self, port: str) -> tuple[set[int], set[int]]:
        """Keys of the port and its leaf port, read by a client that is neither UFM nor an agent nor the driver."""
        host, leaf = self.faults.read_keys(parse_guid(port))
        return set(host), set(leaf)

    def _has(self, port: str, number: int) -> bool:
        table = self.driver.snapshot().tables[parse_guid(port)]
        sides = [table.keys, table.leaf_keys or frozenset[int]()]
        return all(number | 0x8000 in keys for keys in sides)

    def _is_clean(self) -> bool:
        tables = self.driver.snapshot().tables
        hosts = [tables[g] for g in host_ports(self.site) if g in tables]
        return len(hosts) == len(self.ports()) and all(t.keys == t.leaf_keys == {0x7FFF} for t in hosts)

    def _new_driver(self) -> Booked:
        book = Book()
        return Booked(book, self.site, FABRIC, book)
