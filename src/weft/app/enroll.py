"""`weft site enroll`: enrolls the site's machines in Ironic, each only while it matches the site.

Runs on an operator's host with the operator's own rights, without the service. Each pass reads everything again and
does what is missing, so a run continues an interrupted one, and another run changes nothing.
"""

from __future__ import annotations

import stat
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from weft.app.explain import validate_written
from weft.app.sitecompare import read_lldp
from weft.app.sitefile import load_site, read_text
from weft.app.yamltext import read_yaml
from weft.drivers.openstack import Sessions
from weft.drivers.openstack.cleaning import Demands
from weft.drivers.openstack.enrollment import Enrollment, enrollment_differences, node_of, ports_of
from weft.drivers.openstack.nodes import MARK
from weft.drivers.openstack.raid import array_differences, target_of
from weft.model.enrollment import Enrolled, Inspected, ListedMachine, MachineList
from weft.model.errors import InputError, TemporaryError, WeftError
from weft.model.site import Node, Site
from weft.planning.site.bmcs import bmc_wrong
from weft.planning.site.inspection import ignored_interfaces, inspection_differences
from weft.planning.site.neighbours import LldpNeighbour

POLL = 2.0
"""Seconds between two passes."""
_GOING = frozenset({"verifying", "inspecting", "inspect wait", "cleaning", "clean wait"})
_UNKNOWN = frozenset({"enroll", "verifying"})
"""Provision states in which Ironic hasn't looked at the machine yet."""
_FAILED = frozenset({"enroll", "inspect failed", "clean failed", "deploy failed", "error"})


@dataclass(frozen=True, slots=True)
class EnrollmentInput:
    """Site and list, checked.

    Attributes:
        accounts: file -> name and password of the BMCs' account in it.
        heard: switch -> what it heard by LLDP.
    """

    site: Site
    listed: MachineList
    accounts: Mapping[str, tuple[str, str]] = field(repr=False)
    heard: Mapping[str, Sequence[LldpNeighbour]] = field(default_factory=dict[str, Sequence[LldpNeighbour]])


def read_input(site_file: str | Path, list_file: str | Path, lldp: Sequence[str] = ()) -> EnrollmentInput:
    """Site and list, read and checked. Raises `InputErrors` for what is wrong in either, or with an account's file.

    Args:
        lldp: files with what switches heard, as `weft.app.sitecompare.read_lldp` reads them.
    """
    site = load_site(site_file)
    data, where = read_yaml(read_text(Path(list_file)), str(list_file))
    listed = validate_written(MachineList, data, where)
    _check_macs(site, listed)
    clouds: set[str | None] = set()
    accounts: dict[str, tuple[str, str]] = {}
    for name in listed.machines:
        node = site.node_by_name.get(name)
        if node is None or node.machine is None:
            raise InputError(f"machines.{name}", name, "the name of a node in the site that has a `machine`")
        clouds.add(node.cloud)
        address = urlsplit(listed.machines[name].bmc).hostname or ""
        if allowed := bmc_wrong(site, node, address):
            raise InputError(f"machines.{name}.bmc", listed.machines[name].bmc, allowed)
        interface = listed.of(name).interfaces.get("raid", "agent")
        if listed.of(name).raid and interface != "agent":
            raise InputError(f"machines.{name}.interfaces.raid", interface, "agent, which makes its arrays")
        file = listed.of(name).account
        if file is None:
            raise InputError(f"machines.{name}.account", None, "a file with the account of its BMC")
        accounts[file] = _account(Path(list_file).parent / file, f"machines.{name}.account")
    if len(clouds) > 1:
        names = ", ".join(sorted(map(str, clouds)))
        raise InputError("machines", names, "machines of one cloud: use one list per cloud")
    return EnrollmentInput(site, listed, accounts, read_lldp(lldp))


def _check_macs(site: Site, listed: MachineList) -> None:
    """Raise `InputError` for a MAC address of two machines, and for an ignored one that a machine or device has."""
    mine = {h.mac: n.name for n in site.nodes for h in n.hcas if h.mac}
    owners = {h.mac: f"adapter {n.name}/{h.name}" for n in site.nodes for h in n.hcas if h.mac}
    owners |= {
        i.mac: f"{i.device}/{i.name} in the site" for i in site.interfaces if i.device not in listed.machines
    }
    for name in listed.machines:
        for index, port in enumerate(listed.of(name).ports):
            at = f"machines.{name}.ports[{index}].mac"
            if (owner := owners.get(port.mac)) is not None and mine.get(port.mac) != name:
                allowed = f"a MAC address of one machine: this is that of {owner}; what every machine has, such as the "
                raise InputError(at, port.mac, f"{allowed}BMC's USB interface, belongs in ignored_macs")
            owners[port.mac] = f"a port of {name}"
            mine.pop(port.mac, None)
    for name in listed.machines:
        for mac in listed.of(name).ignored_macs:
            if (owner := owners.get(mac)) is not None:
                raise InputError(f"machines.{name}.ignored_macs", mac, f"none that is known: this is {owner}")


def _account(path: Path, field_: str) -> tuple[str, str]:
    try:
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            raise InputError(field_, str(path), "a file that only its owner may read (chmod 600)")
        words = path.read_text().split()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(field_, str(path), f"a readable file: {error}") from None
    if len(words) != 2:
        raise InputError(field_, str(path), "a file with one line: name and password") from None
    return words[0], words[1]


def enroll(
    given: EnrollmentInput, profile: str, again: bool, dry: bool, patience: float, say: Callable[[str], None]
) -> Enrolled:
    """See `Enroller`. Args: profile: in clouds.yaml."""
    node = next(given.site.node_by_name[name] for name in given.listed.machines)
    demands = Demands.of(given.site.clouds[str(node.cloud)])
    sessions = Sessions(profile, cleaning=demands)
    try:
        return Enroller(given, Enrollment(sessions), again, dry, say).run(patience)
    finally:
        sessions.close()


def _is_held(found: Mapping[str, Any]) -> bool:
    """Whether the machine was taken out of service with a pod's mark on it: an operator must look at it."""
    return found["provision_state"] == "manageable" and bool((found.get("extra") or {}).get(MARK))


def _instance(found: Mapping[str, Any]) -> str:
    """Instance on a machine that isn't `active` in Ironic, as before its adoption. Empty: none."""
    return "" if found["provision_state"] == "active" else str(found.get("instance_uuid") or "")


def _hindrances(node: Node, found: Mapping[str, Any]) -> Iterator[str]:
    """Other reasons not to make the machine available, one sentence each."""
    state = str(found["provision_state"])
    if state in _FAILED and found.get("last_error"):
        yield f"{state}: {found['last_error']}"
    if node.maintenance is not None:
        yield f"the site has it in maintenance: {node.maintenance}"
    if instance := _instance(found):
        then = "adopt it in Ironic, or take the instance off the node"
        yield f"it has instance {instance}, which making it available would erase: {then}"
    if _is_held(found):
        yield "it carries a pod's mark: only that pod's release returns it"
    if found.get("maintenance"):
        why = found.get("maintenance_reason") or found.get("fault") or "no reason given"
        yield f"it is in maintenance: {why}"


def _owner_differences(found: Mapping[str, Any], owners: Collection[str]) -> Iterator[str]:
    """Owner and lessee that aren't allowed, one sentence each. Ironic makes the enrolling user's project the owner."""
    for field_ in ("owner", "lessee"):
        if (project := found.get(field_)) and project not in owners:
            may = "whose members may act on it, also while another project's pod has it"
            then = "unset it, or list the project in the cloud's machine_owners if its members are operators"
            yield f"its {field_} in Ironic is project {project}, {may}: {then}"


def _raid(
    target: Mapping[str, Any], found: Mapping[str, Any], state: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """RAID differences that an operator must resolve first, and arrays that Ironic can create as listed."""
    if not target or state in _UNKNOWN:
        return (), ()
    if found.get("target_raid_config") != target:
        return ("Ironic has another target RAID than the list",), ()
    return (), array_differences(target, found)


class Enroller:
    """One run.

    Args:
        again: have machines inspected again that are `manageable`, although they were inspected before.
        dry: change nothing.
        say: called with one line for each thing created or requested.
    """

    def __init__(
        self, given: EnrollmentInput, ironic: Enrollment, again: bool, dry: bool, say: Callable[[str], None]
    ) -> None:
        self._given, self._ironic = given, ironic
        self._again, self._dry, self._say = again, dry, say
        self._asked: set[tuple[str, str]] = set()
        self._made: dict[str, list[str]] = {name: [] for name in given.listed.machines}

    def run(
        self,
        patience: float,
        pause: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> Enrolled:
        """Repeat passes until nothing is in progress, or `patience` seconds are over."""
        end = clock() + patience
        while True:
            passes = [self._one(name) for name in self._given.listed.machines]
            if self._dry or not any(going for _, going in passes) or clock() >= end:
                return Enrolled(machines=tuple(seen for seen, _ in passes))
            pause(POLL)

    def _one(self, name: str) -> tuple[Inspected, bool]:
        """The machine after this pass, and whether something is in progress."""
        try:
            return self._look(self._given.site.node_by_name[name], self._given.listed.of(name))
        except WeftError as error:
            made = tuple(self._made[name])
            going = (
                isinstance(error, TemporaryError) and not error.alarming
            )  # alarming: a person must act, for example on missing rights
            return Inspected(machine=name, state="", made=made, differences=(str(error),)), going

    def _look(self, node: Node, listed: ListedMachine) -> tuple[Inspected, bool]:
        machine, ironic = str(node.machine), self._ironic
        wanted = node_of(node, listed, self._given.accounts[str(listed.account)])
        found = ironic.node(machine)
        if found is None and not self._dry:
            ironic.make_node(wanted)
            self._tell(node.name, "enrolled")
            found = ironic.node(machine)
        if found is None:
            return Inspected(machine=node.name, state="", differences=("Ironic doesn't have it",)), False
        target = target_of(listed.raid)
        found = self._set(node, listed, target, found)
        ports = self._ports(node, listed)
        state, held = str(found["provision_state"]), _is_held(found)
        inspected = ironic.inspected(machine)
        differences = [*enrollment_differences(wanted, found, *ports)]
        differences += [f"port {a} is missing in Ironic" for a in ports[0] if a not in ports[1]]
        if inspected is not None:
            ids = self._given.listed.accelerators
            heard = self._given.heard
            differences += inspection_differences(self._given.site, node, listed, ids, *inspected, heard)
        elif self._given.listed.inspect and state in ("available", "active"):
            differences.append("it was never inspected")
        if state not in _UNKNOWN:
            differences += ironic.firmware_differences(machine)
        another, arrays = _raid(target, found, state)
        differences += (*_hindrances(node, found), *another)
        differences += _owner_differences(found, self._given.site.clouds[str(node.cloud)].machine_owners)
        verb = self._next(machine, state, inspected is not None, not differences, bool(arrays))
        differences += arrays
        if verb == "inspect" and (node.maintenance is not None or held or _instance(found)):
            verb = None  # it is in use, or kept as it is on purpose
        waits = bool(found.get("reservation")) or (verb == "provide" and not found.get("power_state"))
        if verb is not None and not waits and not self._dry:
            ironic.move(machine, verb)
            self._asked.add((machine, verb))
            self._tell(node.name, verb)
            if verb == "provide":
                self._say(
                    f"{node.name} is being cleaned: weft must serve meanwhile, or it can't be proved later"
                )
        made = tuple(self._made[node.name])
        going = verb is not None or waits or state in _GOING
        notes = ignored_interfaces(listed, inspected[0]) if inspected is not None else ()
        seen = Inspected(
            machine=node.name, state=state, made=made, differences=tuple(differences), notes=tuple(notes)
        )
        return seen, going

    def _set(
        self, node: Node, listed: ListedMachine, target: dict[str, Any], found: dict[str, Any]
    ) -> dict[str, Any]:
        """Set traits and target RAID of a new machine, which take separate requests; returns the node after that."""
        machine, fresh = str(node.machine), found["provision_state"] in ("enroll", "manageable")
        if not fresh or self._dry:
            return found
        if listed.traits and not found.get("traits"):
            self._ironic.set_traits(machine, listed.traits)
            self._tell(node.name, f"traits {', '.join(listed.traits)}")
            found = self._ironic.node(machine) or found
        if target and not found.get("target_raid_config"):
            self._ironic.set_target_raid(machine, target)
            self._tell(node.name, "target RAID")
            found = self._ironic.node(machine) or found
        return found

    def _ports(
        self, node: Node, listed: ListedMachine
    ) -> tuple[Mapping[str, dict[str, Any]], Mapping[str, dict[str, Any]]]:
        """Address -> port, as desired and as Ironic has them; missing ones are created."""
        machine = str(node.machine)
        wanted, found = ports_of(self._given.site, node, listed), self._ironic.ports(machine)
        missing = [] if self._dry else [a for a in wanted if a not in found]
        for address in missing:
            self._ironic.make_port(machine, wanted[address])
            self._tell(node.name, f"port {address}")
        return wanted, self._ironic.ports(machine) if missing else found

    def _next(self, machine: str, state: str, inspected: bool, good: bool, arrays: bool) -> str | None:
        """The next provisioning verb, each at most once a run; None for a machine that differs, or that needs none.

        Args:
            arrays: only RAID arrays must be created.
        """
        if state == "enroll":
            verb = "manage"
        elif state == "manageable":
            again = self._again and (machine, "inspect") not in self._asked
            unseen = self._given.listed.inspect and (again or not inspected)
            then = "clean" if arrays else "provide"
            verb = "inspect" if unseen else then if good else None
        else:
            return None
        return None if (machine, verb) in self._asked else verb

    def _tell(self, name: str, what: str) -> None:
        self._made[name].append(what)
        self._say(f"{name}: {what}")
