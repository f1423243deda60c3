"""A switch whose commands are sent by networking-generic-switch's own device class: one session per change.

Source: networking-generic-switch 10.2, `devices.GenericSwitchDevice`, and `batching` for how its commands are gathered.
"""

from __future__ import annotations

import atexit
import re
import threading
import uuid
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from weft.drivers.switches.access import SwitchCredentials
from weft.drivers.switches.vlans import KEEP, PARK, Batch, PortEdit
from weft.model.errors import PermanentError, UnknownError
from weft.model.extras import installation
from weft.model.site import SwitchAccess

CONNECT_SECONDS, AGAIN_SECONDS = 20, 2
"""Seconds for which opening a session is retried, and between two attempts."""
LOAD_SECONDS = 120.0
LAST_WORDS = 200
"""Most characters of a switch's message in an error."""


_REJECTION = re.compile(
    r"^[ \t]*(?:%[ \t]*(?:invalid|incomplete|ambiguous|unknown|unrecognized|wrong parameter|too many parameters|"
    r"authorization failed|permission denied|command (?:rejected|incomplete))"
    r"|(?:%[ \t]*)?error:[ \t]*(?:unrecognized|wrong parameter|incomplete|ambiguous|too many parameters|invalid|"
    r"syntax error|permission denied|failed to pass the authorization)"
    r"|invalid input|unrecognized command|unknown command|syntax error|parsing error|command rejected|"
    r"command authorization failed|permission denied).*",
    re.IGNORECASE | re.MULTILINE,
)
"""How IOS, NX-OS, Comware, VRP, Junos, Onyx, FastIron and SR Linux begin the line that a command wasn't executed: for
half of its device types, those among them, the library looks for no errors at all."""


def rejection(output: str) -> str:
    """The first line that says that a command was rejected; empty: there is none. A message that a VLAN exists already,
    or doesn't exist any more, isn't one."""
    found = _REJECTION.search(output)
    return " ".join(found[0].split())[:LAST_WORDS] if found else ""


class GenericDevice:
    """One switch.

    Args:
        parking: VLAN of ports that are in no other.
        bonds: vendor's names of ports that are ends of hosts' bonds.
        credentials: called when they are first needed.
        known_hosts: file with the switch's SSH host key; None: the user's own.
    """

    def __init__(
        self,
        access: SwitchAccess,
        parking: int,
        bonds: Collection[str],
        credentials: Callable[[], SwitchCredentials],
        known_hosts: str | None,
    ) -> None:
        self.name, self._access, self._parking, self._bonds = access.name, access, parking, bonds
        self._credentials, self._known_hosts = credentials, known_hosts

    def send(self, changes: Sequence[tuple[int, Batch]]) -> None:
        """Send the changes of several VLANs in one session. Raises `UnknownError` for any failure: part of it
        may have been done.
        """
        device, errors = self._made()
        gathered = _Gathered()
        try:
            device.batch_cmds = gathered
            self._gather(device, changes)
            device.batch_cmds = None
            output = device.send_commands_to_device(gathered.commands) or ""
            device.check_output(output, "change VLANs")
        except errors as error:
            said = f"{type(error).__name__}: {' '.join(str(error).split())[-LAST_WORDS:]}"
            raise UnknownError("change VLANs", f"switch {self.name}", said) from None
        if said := rejection(output):
            raise UnknownError("change VLANs", f"switch {self.name}", f"it rejected a command: {said}")

    def _gather(self, device: Any, changes: Sequence[tuple[int, Batch]]) -> None:
        """Collect the commands; ports are removed from every VLAN before they are put into any."""
        for number, batch in changes:
            for port, edit in batch.ports.items():
                if edit.untagged == PARK or edit.remove:
                    self._take_off(device, port, edit, number)
        for number, batch in changes:
            if batch.define:
                device.add_network(number, _network(number))
            for port, edit in batch.ports.items():
                if edit.untagged not in (KEEP, PARK) or edit.add:
                    self._put_on(device, port, edit, number)
            if batch.forget:
                device.del_network(number, _network(number))

    def _put_on(self, device: Any, port: str, edit: PortEdit, number: int) -> None:
        if edit.add:
            self._needs(device.support_trunk_on_ports)
            device.add_subports_on_trunk({}, port, [{"segmentation_id": number}])
        elif port in self._bonds:
            device.plug_bond_to_network(port, number)
        else:
            device.plug_port_to_network(port, number)

    def _take_off(self, device: Any, port: str, edit: PortEdit, number: int) -> None:
        if edit.remove:
            self._needs(device.support_trunk_on_ports)
            device.del_subports_on_trunk({}, port, [{"segmentation_id": number}])
        elif port in self._bonds:
            device.unplug_bond_from_network(port, number)
        else:
            device.delete_port(port, number)

    def _needs(self, supported: bool) -> None:
        if not supported:
            said = f"device type {self._access.device_type} of networking-generic-switch sets no trunks"
            then = "use a switch whose links weft doesn't have to configure"
            raise PermanentError("change VLANs", f"switch {self.name}", said, then)

    def _made(self) -> tuple[Any, tuple[type[Exception], ...]]:
        """The library's device, and its errors. Raises `PermanentError` if it can't be created."""
        try:
            make, failed = library()
        except Exception as error:
            asked, then = "load networking-generic-switch", installation("generic-switch")
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
            "ngs_port_default_vlan": str(self._parking),
            "ngs_network_name_format": "weft-{segmentation_id}",
            "ngs_ssh_connect_timeout": str(CONNECT_SECONDS),
            "ngs_ssh_connect_interval": str(AGAIN_SECONDS),
        }


@cache
def library() -> tuple[Callable[..., Any], type[Exception]]:
    """The library's function that creates a device, and the base of its errors. Raises whatever its import
    raises. It is imported in a thread that is never joined: it imports eventlet, whose copy of `threading`
    replaces the lock that signals the end of the importing thread; a pool with such a thread, and the
    process, would never end.
    """
    found: Future[tuple[Callable[..., Any], type[Exception]]] = Future()

    def load() -> None:
        try:
            from networking_generic_switch import batching
            from networking_generic_switch.devices import device_manager
            from networking_generic_switch.exceptions import GenericSwitchException

            # It would wait at exit, for a minute, for threads of its batching, which isn't used here.
            atexit.unregister(batching._wait_for_threads)  # pyright: ignore[reportPrivateUsage]
        except BaseException as error:
            found.set_exception(error)
        else:
            found.set_result((device_manager, GenericSwitchException))

    threading.Thread(target=load, daemon=True).start()
    return found.result(LOAD_SECONDS)


class _Gathered:
    """Replaces the library's own batching, which needs etcd: collects the commands of many calls for one
    session."""

    def __init__(self) -> None:
        self.commands: list[str] = []

    def do_batch(self, device: object, commands: Sequence[str]) -> str:
        self.commands += commands
        return ""


def _network(number: int) -> str:
    """The library requires a network id; the VLAN's name on the switch doesn't depend on it."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, str(number)))
