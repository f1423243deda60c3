"""Counters of switches' ports, from the answers of each vendor's interface. A missing counter is None.

Sources: Arista eAPI, `show interfaces`; Cumulus Linux 5 documentation, "Monitoring Interfaces and Transceivers with
NVUE" and "RDMA over Converged Ethernet" (`nv show interface swp1 qos roce counters`); openconfig-interfaces 2.4;
ovs-vswitchd.conf.db(5), table Interface.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

from weft.drivers.switches.interface import SwitchDriver
from weft.model.errors import WeftError
from weft.model.portcounters import PortCounters, count

WITHIN = 20.0
"""Seconds in which all switches of a fabric must answer."""
MOST_AGE = 60.0
"""Seconds for which a late answer is still given after it came: as long as Prometheus waits between two readings."""
AT_ONCE = 256
"""Most switches of a fabric that are asked at once; each one that hangs keeps a thread."""
CLOSED = "weft doesn't use this site any more"
MOST_PORTS = 1024
"""Most ports of one switch that are read."""
_PORT = re.compile(r"(Ethernet|Eth|swp|eth|et-|xe-)[\w/.:-]{1,40}")
Counted = Mapping[str, Sequence[PortCounters] | str]
"""Switch -> its ports, or why they aren't known."""
TimedAnswer = tuple[float, Sequence[PortCounters] | str]
"""When an answer came, by the monotonic clock, and the answer."""


def eos_counters(interfaces: Mapping[str, Any]) -> list[PortCounters]:
    """Counters in `show interfaces`; virtual interfaces have none."""
    found: list[PortCounters] = []
    for name, row in interfaces.items():
        counters = row.get("interfaceCounters")
        if not _PORT.fullmatch(name) or not isinstance(counters, dict):
            continue
        found.append(
            PortCounters(
                name,
                count(counters.get("inOctets")),
                count(counters.get("outOctets")),
                _sum(counters, "inUcastPkts", "inMulticastPkts", "inBroadcastPkts"),
                _sum(counters, "outUcastPkts", "outMulticastPkts", "outBroadcastPkts"),
                count(counters.get("totalInErrors")),
                count(counters.get("totalOutErrors")),
                count(counters.get("inDiscards")),
                count(counters.get("outDiscards")),
            )
        )
    return found


def nvue_counters(port: str, stats: Mapping[str, Any], roce: Mapping[str, Any]) -> PortCounters:
    """Counters of one port. Args: roce: its RoCE counters; empty: it has none."""
    rx, tx = roce.get("rx-stats") or {}, roce.get("tx-stats") or {}
    return PortCounters(
        port,
        count(stats.get("in-bytes")),
        count(stats.get("out-bytes")),
        count(stats.get("in-pkts")),
        count(stats.get("out-pkts")),
        count(stats.get("in-errors")),
        count(stats.get("out-errors")),
        count(stats.get("in-drops")),
        count(stats.get("out-drops")),
        count((rx.get("rx-pfc-stats") or {}).get("pause-packets")),
        count((tx.get("tx-pfc-stats") or {}).get("pause-packets")),
        count((tx.get("tx-ecn-stats") or {}).get("ecn-marked-packets")),
    )


def openconfig_counters(rows: Sequence[Mapping[str, Any]]) -> list[PortCounters]:
    """Counters in `openconfig-interfaces:interfaces`."""
    found: list[PortCounters] = []
    for row in rows:
        name, counters = str(row["name"]), (row.get("state") or {}).get("counters")
        if not _PORT.fullmatch(name) or not isinstance(counters, dict):
            continue
        ways = {
            way: count(counters.get(f"{way}-pkts"))
            if f"{way}-pkts" in counters
            else _sum(counters, f"{way}-unicast-pkts", f"{way}-multicast-pkts", f"{way}-broadcast-pkts")
            for way in ("in", "out")
        }
        found.append(
            PortCounters(
                name,
                count(counters.get("in-octets")),
                count(counters.get("out-octets")),
                ways["in"],
                ways["out"],
                count(counters.get("in-errors")),
                count(counters.get("out-errors")),
                count(counters.get("in-discards")),
                count(counters.get("out-discards")),
            )
        )
    return found


def some_port(found: list[PortCounters]) -> list[PortCounters]:
    """The ports, of which there must be some. Raises ValueError for none: every switch has ports with counters, so this
    answer isn't understood."""
    if not found:
        raise ValueError("no port with counters is in it")
    return found


def ovs_counters(name: str, statistics: Mapping[str, Any]) -> PortCounters:
    """Counters in a row of the table Interface, without those that the device doesn't have."""
    ways = (
        count(statistics.get(f"{way}_{what}"))
        for what in ("bytes", "packets", "errors", "dropped")
        for way in ("rx", "tx")
    )
    return PortCounters(name, *ways)


def _sum(counters: Mapping[str, Any], *names: str) -> int | None:
    """Sum of the named counters; None if one of them is missing."""
    values = [count(counters.get(name)) for name in names]
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


class CounterReading:
    """Asks the switches of a fabric concurrently, each with at most one request at a time: one that hangs delays no
    other, and keeps one thread. Thread-safe.

    Args:
        fabric: for names of threads.
        within: seconds after which a switch that hasn't answered is taken to be silent.
        monotonic: seconds of a clock by which late answers become too old.
    """

    def __init__(
        self,
        fabric: str,
        switches: Mapping[str, SwitchDriver],
        within: float = WITHIN,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._switches, self._within, self._monotonic = switches, within, monotonic
        self._pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix=f"counters-{fabric}")
        self._lock = threading.Lock()
        self._asked: dict[str, Future[TimedAnswer]] = {}

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def get(self) -> Counted:
        """The answers that come within the time; of a switch that takes longer, its last one while that isn't old.
        Callers at the same time share them."""
        return {name: found for name, (_, found) in self.timed(self._within).items()}

    def timed(self, within: float) -> Mapping[str, TimedAnswer]:
        """The answers of `get`, each with the time of its arrival: rates are measured between two of them."""
        late: dict[str, TimedAnswer] = {}
        with self._lock:
            for name, switch in self._switches.items():
                known = self._asked.get(name)
                if known is not None and not known.done():
                    continue
                if known is not None and not self._is_old(known):
                    late[name] = self._found(known)
                try:
                    self._asked[name] = self._pool.submit(self._ask, switch)
                except RuntimeError:
                    return dict.fromkeys(self._switches, (self._monotonic(), CLOSED))
            asked = dict(self._asked)
        wait(asked.values(), within)
        found: dict[str, TimedAnswer] = {}
        with self._lock:
            for name, answer in asked.items():
                if answer.done():
                    found[name] = self._found(answer)
                    if self._asked.get(name) is answer:
                        del self._asked[name]
                else:
                    none = self._monotonic(), f"no answer within {within:.0f} s"
                    found[name] = late.get(name, none)
        return found

    def _is_old(self, answer: Future[TimedAnswer]) -> bool:
        return not answer.cancelled() and self._monotonic() - answer.result()[0] > MOST_AGE

    def _ask(self, switch: SwitchDriver) -> TimedAnswer:
        found = _counters_of(switch)
        return self._monotonic(), found

    def _found(self, answer: Future[TimedAnswer]) -> TimedAnswer:
        return (self._monotonic(), CLOSED) if answer.cancelled() else answer.result()


def _counters_of(switch: SwitchDriver) -> Sequence[PortCounters] | str:
    """Counters of one switch. Any error becomes a text, so that the others' counters are read all the same."""
    try:
        found = switch.counters()
    except WeftError as error:
        return str(error)
    except Exception as error:
        return f"its answer can't be read: {error!r}"
    return found if isinstance(found, str) else found[:MOST_PORTS]
