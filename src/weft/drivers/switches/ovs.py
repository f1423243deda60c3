"""Open vSwitch through its database: a batch is one ovs-vsctl transaction, which returns once vswitchd has applied it.

A port without `tag` and `trunks` is a trunk of every VLAN, and so is one with an empty list of trunks. Unused ports are
in the parking VLAN and `protected`: they don't reach each other.
Source: ovs-vswitchd.conf.db(5), tables Port and Open_vSwitch.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from typing import Any

from weft.drivers.reading import SharedReading
from weft.drivers.switches.counters import ovs_counters
from weft.drivers.switches.limits import SwitchLimits
from weft.drivers.switches.linkstates import Links, ovs_links
from weft.drivers.switches.switch import CONFIRM_SECONDS, SwitchSession
from weft.drivers.switches.vlans import EVERY, Batch, PortVlans, SwitchState
from weft.model.errors import PermanentError, UnknownError
from weft.model.fabrictypes import Level
from weft.model.portcounters import PortCounters

READ = "read the configuration"
SECONDS = 20
FOLLOW_SECONDS, FOLLOW_PAUSE = 5.0, 0.02
"""Seconds that vswitchd may lag behind its database before that is read again; changes of other bridges count, too."""
NOTHING = 4095
"""A tag that no frame has (IEEE 802.1Q, table 9-2): the list of a trunk without VLANs contains it."""
NAME = "weft-vlan-"
"""Key of a VLAN's name among the bridge's external_ids: Open vSwitch has no table of VLANs."""
TABLES = ("bridge", "port", "open_vswitch")
COLUMNS = ("name,ports,external_ids", "_uuid,name,vlan_mode,tag,trunks,protected", "cur_cfg,next_cfg")


class OvsDatabase:
    """One Open vSwitch's database, which may have several bridges; concurrent readers share a reading.

    Args:
        address: such as `unix:/run/openvswitch/db.sock`.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self._reading = SharedReading(self._read)

    def tables(self, since: float) -> str:
        """Rows of `TABLES`, one JSON document a line, by a reading that began after `since` (monotonic). Raises
        `UnknownError`.
        """
        return self._reading.get(max(0.0, time.monotonic() - since))

    def run(self, arguments: Sequence[str], asked: str, of: str) -> str:
        """Run `ovs-vsctl`; returns its output. Raises `PermanentError` if the database refuses,
        `UnknownError` otherwise."""
        program = shutil.which("ovs-vsctl", path="/usr/bin:/usr/sbin:/usr/local/bin") or "ovs-vsctl"
        argv = [program, f"--db={self.address}", f"--timeout={SECONDS}", *arguments]
        try:
            done = subprocess.run(argv, capture_output=True, text=True, timeout=2 * SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise UnknownError(asked, of, f"ovs-vsctl: {error}") from None
        if done.returncode == 0:
            return done.stdout
        said = done.stderr.strip()[-300:]
        if "constraint violation" in said or "no row" in said:
            raise PermanentError(asked, of, said, "correct the site, or the switch")
        raise UnknownError(asked, of, said or f"ovs-vsctl ended with {done.returncode}")

    def _read(self, began: float) -> str:
        arguments = ["--format=json"]
        for table, columns in zip(TABLES, COLUMNS, strict=True):
            arguments += ["--", f"--columns={columns}", "list", table]
        return self.run(arguments, READ, f"database {self.address}")


class Ovs(SwitchSession):
    """One bridge."""

    serials_go_on = False

    def __init__(
        self, name: str, database: OvsDatabase, limits: SwitchLimits, confirm: float = CONFIRM_SECONDS
    ) -> None:
        super().__init__(name, limits, database.address, confirm)
        self._database = database
        self._lists: dict[str, frozenset[int]] = {}

    def close(self) -> None:
        """Does nothing: no connection is kept open."""

    def point_at(self, address: str) -> None:
        """Use the database at another address from now on; for tests."""
        self._database = OvsDatabase(address)

    def qos(self) -> str:
        return "Open vSwitch has neither priority flow control nor marking nor a map of DSCP values"

    def neighbours(self, ports: Sequence[str]) -> str:
        return "Open vSwitch keeps no LLDP neighbours"

    def counters(self) -> Sequence[PortCounters]:
        asked = "read the counters of ports"
        mine = frozenset(self._run(["list-ifaces", self.name], asked).split())
        text = self._run(["--format=json", "--columns=name,statistics", "list", "interface"], asked)
        with self.reading(asked):
            rows = json.loads(text)["data"]
            return [ovs_counters(name, dict(statistics[1])) for name, statistics in rows if name in mine]

    def links(self) -> Links:
        asked = "read the states of links"
        mine = frozenset(self._run(["list-ifaces", self.name], asked).split())
        columns = "--columns=name,link_state,admin_state"
        text = self._run(["--format=json", columns, "list", "interface"], asked)
        with self.reading(asked):
            return ovs_links(json.loads(text)["data"], mine)

    def _read(self) -> SwitchState:
        return self._read_since(self._monotonic())

    def _read_since(self, since: float) -> SwitchState:
        end = self._monotonic() + FOLLOW_SECONDS
        while True:
            state, followed = self._once(since)
            if followed:
                return state
            if self._monotonic() >= end:
                raise self.unknown(READ, "vswitchd doesn't follow its database")
            self._sleep(FOLLOW_PAUSE)
            since = self._monotonic()

    def _once(self, since: float) -> tuple[SwitchState, bool]:
        """A reading, and whether vswitchd has applied it: an unapplied configuration is no evidence."""
        try:
            tables = [json.loads(line) for line in self._database.tables(since).splitlines() if line]
            bridges, ports, configuration = (table["data"] for table in tables)
            mine = next((row for row in bridges if row[0] == self.name), None)
            if mine is None:
                raise PermanentError(
                    READ, f"switch {self.name}", "it has no such bridge", "correct the site, or the switch"
                )
            done, asked = configuration[0]
            ids = {pair[1] for pair in _members(mine[1])}
            rows = {row[1]: row for row in ports if row[0][1] in ids}
            lists = {name: _tags(row[4]) for name, row in rows.items()}
            found = {n: self._port(row[2], row[3], lists[n]) for n, row in rows.items() if n != self.name}
            vlans = {int(k.removeprefix(NAME)): v for k, v in mine[2][1] if k.startswith(NAME)}
        except UnknownError as error:
            raise self.unknown(READ, error.answer) from None
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise self.unknown(READ, f"its answer can't be read: {error!r}") from None
        self._lists = lists
        parked = (n for n in found if rows[n][3] == self.limits.parking and not rows[n][5])
        exposed = frozenset(n for n in parked if found[n] == PortVlans())
        state = SwitchState(vlans, found, float(done), exposed=exposed, level=Level.OPERATIONAL)
        return state, done >= asked

    def _port(self, mode: object, tag: object, listed: frozenset[int]) -> PortVlans:
        """A port from its columns; an empty optional column is an empty set."""
        number = tag if isinstance(tag, int) else None
        if not isinstance(mode, str):
            mode = "access" if number is not None else "trunk"
        untagged = None if number in (None, self.limits.parking, NOTHING) else number
        if mode == "access":
            return PortVlans(untagged)
        tagged = EVERY if not listed else frozenset(n for n in listed if n in EVERY)
        if mode == "trunk":
            return PortVlans(None, tagged, True)
        return PortVlans(untagged, tagged if tagged == EVERY else tagged - {number}, True)

    def _send(self, batch: Batch, before: SwitchState, after: SwitchState) -> float:
        commands: list[str] = []
        for number, name in batch.define.items():
            commands += ["--", "set", "bridge", self.name, f"external_ids:{NAME}{number}={name}"]
        for number in batch.forget:
            commands += ["--", "remove", "bridge", self.name, "external_ids", f"{NAME}{number}"]
        for port in batch.ports:
            commands += self._edit(port, before.ports[port], after.ports[port], batch.ports[port].remove)
        self._run(commands[1:], "change VLANs")
        return float("-inf")

    def _edit(self, port: str, now: PortVlans, then: PortVlans, away: frozenset[int]) -> Iterator[str]:
        """Commands that edit a port. Lists are changed, not replaced, so that two workers don't undo each
        other's changes. `NOTHING` is in each: two workers that remove the last two VLANs at once must not
        leave an empty list."""
        yield from ("--", "set", "port", port)
        if not then.trunk:
            tag = self.limits.parking if then.untagged is None else then.untagged
            yield from (
                "vlan_mode=access",
                f"tag={tag}",
                "trunks=[]",
                f"protected={str(tag != then.untagged).lower()}",
            )
            return
        yield from (f"vlan_mode={'trunk' if then.untagged is None else 'native-untagged'}", "protected=false")
        yield f"tag={'[]' if then.untagged is None else then.untagged}"
        wanted = {*then.tagged, NOTHING, *([] if then.untagged is None else [then.untagged])}
        there = self._lists.get(port, frozenset())
        if now.tagged == EVERY or (not now.trunk and there - {NOTHING}):
            yield f"trunks={json.dumps(sorted(wanted))}"  # an empty list, or one without effect
            return
        for number in sorted(wanted - there):
            yield from ("--", "add", "port", port, "trunks", str(number))
        # As in the reading that the change is based on: anything newer is another worker's.
        had = now.numbers if now.trunk else frozenset[int]()
        for number in sorted((had | away) - wanted):
            yield from ("--", "remove", "port", port, "trunks", str(number))

    def _keep(self) -> None:
        """Does nothing: the database survives a restart."""

    def _run(self, arguments: list[str], asked: str) -> str:
        return self._database.run(arguments, asked, f"switch {self.name}")


def _members(column: Any) -> list[Any]:
    """Members of a set as ovs-vsctl prints it: `["set", […]]`, or the only one bare."""
    return list(column[1]) if column[0] == "set" else [column]


def _tags(column: Any) -> frozenset[int]:
    return frozenset([column] if isinstance(column, int) else _members(column))
