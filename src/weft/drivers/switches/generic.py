"""Any other switch that OpenStack's networking-generic-switch knows, by SSH, through that library's own device classes.

None of them reads a switch's configuration back. So weft says of such a switch what its records want of it, as far as
the switch has accepted it; a plan, an audit and a receipt say that nothing of it was read, and no receipt that rests on
it is clean.

A change is sent whole, whatever was sent before, in one session, which ends with saving the configuration: what another
worker has sent isn't known here. What a worker was sending when it was killed may be left until the VLAN's next change.
Source: networking-generic-switch 10.2, `devices.GenericSwitchDevice`, and `batching` for how its commands are gathered.
"""

from __future__ import annotations

import atexit
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Protocol
from urllib.parse import urlsplit

from weft.drivers.switches.access import Credentials
from weft.drivers.switches.cabling import Cabling
from weft.drivers.switches.switch import Edit, Limits
from weft.drivers.switches.turn import turn
from weft.drivers.switches.vlans import KEEP, PARK, Batch, PortEdit, PortVlans, SwitchState
from weft.model.errors import PermanentError, UnknownError
from weft.model.fabrictypes import Mode
from weft.model.resources import SegmentSpec
from weft.model.site import SwitchAccess

CONNECT_SECONDS, AGAIN_SECONDS = 20, 2
"""How long a session is tried to be opened, and the pause between attempts."""
LOAD_SECONDS = 120.0
LAST_WORDS = 200
"""Characters of a switch's own words in an error."""

Segments = Mapping[int, tuple[str, SegmentSpec]]
"""VLAN -> its name, which says whose it is, and its segment."""


class Wanted(Protocol):
    """Weft's records; `settled`: only of what is known to be there as it is wanted now."""

    def __call__(self, settled: bool = False) -> Segments: ...


Ever = Callable[[int], SegmentSpec | None]
"""VLAN -> its segment with every port that it may ever have had, whoever put it there; None: as it is wanted."""
Ports = Mapping[str, PortVlans]

REMEMBERED_SECONDS = 60.0
"""How long this process's own memory of what a switch accepted counts: another one may have changed it since, and
sending it again does no harm."""


@dataclass(frozen=True, slots=True)
class _Sent:
    """A VLAN's last change by this process.

    Attributes:
        by: the VLAN's name.
        ports: as they were accepted; None: nothing was.
        at: the process's own clock.
    """

    by: str
    ports: Ports | None
    at: float


class Generic:
    """One switch: `Switch` without reading back. Thread-safe; processes of one host take turns, too.

    Args:
        ever: what another process may have put into a VLAN; only asked for changes.
        credentials: called when they are first needed.
        known_hosts: file with the switch's SSH host key; None: the user's own.
    """

    keeps_names = False

    def __init__(
        self,
        access: SwitchAccess,
        limits: Limits,
        cabling: Cabling,
        wanted: Wanted,
        ever: Ever,
        credentials: Callable[[], Credentials],
        known_hosts: str | None,
    ) -> None:
        self.name, self._access, self._limits, self._cabling = access.name, access, limits, cabling
        self._wanted, self._ever = wanted, ever
        self._credentials, self._known_hosts = credentials, known_hosts
        self._changing = threading.Lock()
        self._lock = threading.Lock()
        self._sent: dict[int, _Sent] = {}
        self._out: dict[tuple[int, str], float] = {}
        self._owed: dict[tuple[int, str], PortVlans] = {}

    def read(self) -> SwitchState:
        """What weft's records want of it; a VLAN whose last change it didn't accept is on no port.

        A VLAN that it doesn't need is only there as long as something wasn't accepted to be taken off.
        """
        state, settled, wanted = self._empty(), self._wanted(settled=True), self._wanted()
        everyones = {number: self._desired(spec) for number, (_, spec) in wanted.items()}
        access = {p: n for n, ports in everyones.items() for p, vlans in ports.items() if not vlans.trunk}
        for number, (name, spec) in wanted.items():
            desired = everyones[number]
            with self._lock:
                sent = self._sent.get(number)
                for port in desired:
                    self._out.pop((number, port), None)
                owed = any(n == number == access.get(p, number) for n, p in self._owed)
            if self.name not in self._cabling.spread(spec.ports):
                state = _with(state, number, {}) if owed else state
            elif sent is not None and sent.by == name and sent.ports is None:
                continue  # its last change wasn't accepted
            elif settled.get(number) == (name, spec):  # whoever sent it has written down that it was accepted
                state = _with(state, number, desired)
                # From now on the records say it; what it was on is still to be taken off some day.
                with self._lock:
                    if sent is not None and self._sent.get(number) is sent:
                        self._sent[number] = replace(sent, at=float("-inf"))
            elif sent is not None and sent.by == name and _is_remembered(sent.at):
                state = _with(state, number, sent.ports or {})
            else:
                state = _with(state, number, {})
        return state

    def change(self, edit: Edit, about: SegmentSpec | None = None) -> SwitchState:
        """Send all that a VLAN must have here, and take it off every port that weft had put it on.

        Raises `UnknownError` if the switch doesn't accept it.
        """
        if about is None:
            return self.read()
        number = about.number
        with turn(self._changing, self.name):
            add = edit(self._empty())
            name = add.define.get(number, "")
            away = self._former(about, name)
            remove = edit(_with(self._empty(), number, away)) if away else Batch()
            gone = {p: e for p, e in remove.ports.items() if p not in add.ports}
            batch = Batch(add.define, frozenset() if add.define else remove.forget, {**gone, **add.ports})
            self._limits.check(batch, self.name)
            if batch:
                self._made(batch, number, name, add.ports, {p: away[p] for p in gone})
        return self.read()

    def _made(self, batch: Batch, number: int, name: str, into: Mapping[str, PortEdit], gone: Ports) -> None:
        """Send it, and note what was accepted."""
        inside = {(number, port) for port in into}
        with self._lock:
            self._sent[number] = _Sent(name, None, time.monotonic())  # until it is accepted
            for one in inside:
                self._out.pop(one, None)
            self._owed |= {(number, p): vlans for p, vlans in gone.items()}
        self._send(batch, number)
        now = time.monotonic()
        with self._lock:
            self._sent[number] = _Sent(name, {p: e.on(PortVlans()) for p, e in into.items()}, now)
            self._out |= {(number, p): now for p in gone if (number, p) not in inside}
            self._owed = {(n, p): vlans for (n, p), vlans in self._owed.items() if n != number}

    def _former(self, about: SegmentSpec, name: str) -> dict[str, PortVlans]:
        """Ports of this switch that a VLAN may be on by weft's doing. Those that are another VLAN's access ports by now
        are left out: some devices take a port out of whatever it is in."""
        with self._lock:
            sent = self._sent.get(about.number)
            found = dict(sent.ports or {}) if sent is not None and name in ("", sent.by) else {}
            found |= {p: vlans for (n, p), vlans in self._owed.items() if n == about.number}
        if (ever := self._ever(about.number)) is not None:
            found |= self._desired(ever)
        found |= self._desired(about)
        taken = self._access_ports(self._wanted(), about.number)
        return {p: v for p, v in found.items() if p not in taken}

    def _access_ports(self, segments: Segments, but: int) -> set[str]:
        """Ports of this switch that are access ports of other VLANs than this one."""
        others = (self._desired(spec) for n, (_, spec) in segments.items() if n != but)
        return {p for ports in others for p, vlans in ports.items() if not vlans.trunk}

    def accepted_without(self, number: int, port: str) -> bool:
        """Whether it accepted from this process, a moment ago, that a VLAN is taken off a port (by the vendor's name).

        If not, it is taken off with the VLAN's next change, which is due now; but for a port that is another VLAN's
        access port by now, which it can be in one VLAN only.
        """
        wanted = self._wanted()
        name, _ = wanted.get(number, ("", None))
        if port in self._access_ports(self._wanted(settled=True), number):
            return True
        if port in self._access_ports(wanted, number):
            return False
        with self._lock:
            if _is_remembered(self._out.get((number, port), float("-inf"))):
                return True
            self._owed.setdefault((number, port), PortVlans(number))
            self._sent[number] = _Sent(name, None, time.monotonic())
            return False

    def qos(self) -> str:
        return "it can't be read back"

    def neighbours(self, ports: Sequence[str]) -> str:
        return "it can't be read back"

    def close(self) -> None:
        """Nothing is held open."""

    # -- what is wanted ---------------------------------------------------------------------------------------

    def _empty(self) -> SwitchState:
        return SwitchState({}, {p: PortVlans() for p in self._limits.ports})

    def _links(self) -> frozenset[str]:
        return self._mine(self._cabling.uplinks)

    def _mine(self, ends: Sequence[str] | frozenset[str]) -> frozenset[str]:
        """Vendor's names of those ends that are on this switch."""
        prefix = f"{self.name}/"
        return frozenset(e.removeprefix(prefix) for e in ends if e.startswith(prefix))

    def _desired(self, spec: SegmentSpec) -> Ports:
        """What a segment must have on this switch's ports."""
        tagged = PortVlans(None, frozenset({spec.number}), True)
        found = {
            end: PortVlans(spec.number) if m.mode is Mode.ACCESS else tagged
            for m in spec.members
            for end in self._mine(self._cabling.ends(m.port))
        }
        carrying = self._cabling.spread(spec.ports).get(self.name, frozenset())
        return found | dict.fromkeys(self._mine(carrying), tagged)

    # -- the library ------------------------------------------------------------------------------------------

    def _send(self, batch: Batch, number: int) -> None:
        """One session. Raises `UnknownError` for whatever goes wrong: part of it may have been done."""
        device, errors = self._device()
        gathered = _Gathered()
        try:
            device.batch_cmds = gathered
            for port, edit in batch.ports.items():
                if edit.untagged == PARK or edit.remove:
                    self._take_off(device, port, edit, number)
            if batch.define:
                device.add_network(number, _network(number))
            for port, edit in batch.ports.items():
                if edit.untagged not in (KEEP, PARK) or edit.add:
                    self._put_on(device, port, edit, number)
            if batch.forget:
                device.del_network(number, _network(number))
            device.batch_cmds = None
            output = device.send_commands_to_device(gathered.commands) or ""
            device.check_output(output, "change VLANs")
        except errors as error:
            said = f"{type(error).__name__}: {' '.join(str(error).split())[-LAST_WORDS:]}"
            raise UnknownError("change VLANs", f"switch {self.name}", said) from None

    def _put_on(self, device: Any, port: str, edit: PortEdit, number: int) -> None:
        if edit.add:
            self._needs(device.support_trunk_on_ports)
            device.add_subports_on_trunk({}, port, [{"segmentation_id": number}])
        elif port in self._bonds():
            device.plug_bond_to_network(port, number)
        else:
            device.plug_port_to_network(port, number)

    def _take_off(self, device: Any, port: str, edit: PortEdit, number: int) -> None:
        if edit.remove:
            self._needs(device.support_trunk_on_ports)
            device.del_subports_on_trunk({}, port, [{"segmentation_id": number}])
        elif port in self._bonds():
            device.unplug_bond_from_network(port, number)
        else:
            device.delete_port(port, number)

    def _bonds(self) -> frozenset[str]:
        return self._mine(frozenset(self._cabling.bundles or ()))

    def _needs(self, supported: bool) -> None:
        if not supported:
            said = f"device type {self._access.device_type} of networking-generic-switch sets no trunks"
            then = "use a switch whose links weft doesn't have to configure"
            raise PermanentError("change VLANs", f"switch {self.name}", said, then)

    def _device(self) -> tuple[Any, tuple[type[Exception], ...]]:
        """The library's device, and its errors. Raises `PermanentError` if it can't be had."""
        try:
            make, failed = _library()
        except Exception as error:
            asked, then = "load networking-generic-switch", "install weft[generic-switch]"
            raise PermanentError(asked, "this Python environment", repr(error), then) from error
        try:
            return make(self._settings(), self.name), (failed,)
        except (failed, RuntimeError) as error:
            said = f"device type {self._access.device_type}: {error}"
            then = "give a device type of networking-generic-switch"
            raise PermanentError("open the switch", f"switch {self.name}", said, then) from None

    def _settings(self) -> dict[str, str]:
        """A section `[genericswitch:…]` of the library's configuration."""
        place, mine = urlsplit(self._access.url), self._credentials()
        strict = {"ssh_strict": "true", "system_host_keys": "true"}
        if self._known_hosts is not None:
            strict |= {"alt_host_keys": "true", "alt_key_file": self._known_hosts}
        return {
            "device_type": self._access.device_type or "",
            "ip": place.hostname or "",
            "port": str(place.port or 22),
            "username": mine.user,
            "password": mine.password,
            **({"secret": mine.secret} if mine.secret else {}),
            **strict,
            "ngs_port_default_vlan": str(self._limits.parking),
            "ngs_network_name_format": "weft-{segmentation_id}",
            "ngs_ssh_connect_timeout": str(CONNECT_SECONDS),
            "ngs_ssh_connect_interval": str(AGAIN_SECONDS),
        }


@cache
def _library() -> tuple[Callable[..., Any], type[Exception]]:
    """The library's way to make a device, and the base of its errors. Raises whatever its import raises.

    It is imported in a thread that nobody waits for: it imports eventlet, whose copy of `threading` replaces the lock
    by which others know that the importing thread has ended; a pool with it, and the process, would never end.
    """
    found: Future[tuple[Callable[..., Any], type[Exception]]] = Future()

    def load() -> None:
        try:
            from networking_generic_switch import batching
            from networking_generic_switch.devices import device_manager
            from networking_generic_switch.exceptions import GenericSwitchException

            # It would wait at the process's end for threads of a batching that isn't used here, for a minute.
            atexit.unregister(batching._wait_for_threads)  # pyright: ignore[reportPrivateUsage]
        except BaseException as error:
            found.set_exception(error)
        else:
            found.set_result((device_manager, GenericSwitchException))

    threading.Thread(target=load, daemon=True).start()
    return found.result(LOAD_SECONDS)


def _is_remembered(at: float) -> bool:
    return time.monotonic() - at < REMEMBERED_SECONDS


class _Gathered:
    """In the place of the library's own batching, which needs an etcd: commands of many calls, for one session."""

    def __init__(self) -> None:
        self.commands: list[str] = []

    def do_batch(self, device: object, commands: Sequence[str]) -> str:
        self.commands += commands
        return ""


def _with(state: SwitchState, number: int, ports: Ports) -> SwitchState:
    """The state with one VLAN more."""
    joined = dict(state.ports)
    for port, more in ports.items():
        now = joined.get(port, PortVlans())
        untagged = now.untagged if more.untagged is None else more.untagged
        joined[port] = PortVlans(untagged, now.tagged | more.tagged, now.trunk or more.trunk)
    return replace(state, vlans={**state.vlans, number: ""}, ports=joined)


def _network(number: int) -> str:
    """The library wants the network's id; the VLAN's name on the switch isn't made of it."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, str(number)))
