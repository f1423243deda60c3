# pyright: basic
"""weft's switch drivers as a device type of networking-generic-switch, which Neutron calls when it binds a
port. Ironic waits for Neutron before it powers a machine on, in provisioning, cleaning and for the tenant.
The port is in its VLAN by then, and in no other, only if the switch is changed within Neutron's call, and if
Ironic is configured to check that (`[neutron] fail_on_port_binding_failure`: Neutron doesn't pass on some
errors, but the port is not ACTIVE then). This driver makes each change as all of weft's drivers do: one transaction,
read back, saved; and it changes only the given port. A port without a network is in the parking VLAN, never a trunk.

Loaded by Neutron (entry point `generic_switch.devices`), not by weft. Source: networking-generic-switch 10.2,
`devices.GenericSwitchDevice`, `generic_switch_mech`.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Collection

from networking_generic_switch import devices
from networking_generic_switch import exceptions as ngs
from oslo_log import log as logging
from pydantic import ValidationError

from weft.drivers.switches.interface import Edit
from weft.drivers.switches.limits import SwitchLimits
from weft.drivers.switches.opened import session_of
from weft.drivers.switches.switch import CONFIRM_SECONDS
from weft.drivers.switches.turn import turn
from weft.drivers.switches.vlans import EVERY, PARK, Batch, PortEdit, PortVlans, SwitchState
from weft.drivers.switches.wanted import DEFAULT
from weft.model.errors import WeftError
from weft.model.ranges import Range
from weft.model.site import SwitchAccess

LOG = logging.getLogger(__name__)
INTERFACES = ("eos", "nvue", "sonic", "ovs")
FREE_AGAIN = (2.0, 5.0)
"""Pauses in seconds between attempts to free a port."""
OPTIONS = ("weft_interface", "weft_url", "weft_credentials", "weft_ca")


class WeftSwitchError(ngs.GenericSwitchException):
    """A switch, or its configuration section, failed; for Neutron's log and Ironic's `last_error`."""

    message = "%(said)s"


class WeftSwitch(devices.GenericSwitchDevice):
    """One switch, `device_type = weft`. Thread-safe; processes of one host take turns.

    Raises `WeftSwitchError` for an incomplete section.
    """

    PLUG_SWITCH_TO_NETWORK = None
    """These drivers don't support VXLAN; the mechanism driver checks this attribute."""

    def __init__(self, device_cfg, device_name="", *args, **kwargs):
        super().__init__(device_cfg, device_name)
        given = {name: self.config.get(name) for name in OPTIONS}
        self._parking = _vlan(device_name, "ngs_port_default_vlan", self._get_port_default_vlan())
        if given["weft_interface"] not in INTERFACES:
            raise _wrong(
                device_name, "weft_interface", given["weft_interface"], f"one of {', '.join(INTERFACES)}"
            )
        try:
            access = SwitchAccess(
                name=device_name, interface=given["weft_interface"], url=given["weft_url"] or ""
            )
        except ValidationError as error:
            first = error.errors()[0]
            if "name" in first["loc"]:
                raise WeftSwitchError(said=f"[genericswitch:{device_name}]: {first['msg']}") from None
            raise _wrong(device_name, "weft_url", given["weft_url"], first["msg"]) from None
        if not self.get_physical_networks():
            then = "the physical networks whose VLANs it gets: without them it gets those of all"
            raise _wrong(device_name, "ngs_physical_networks", None, then)
        self._trunks = frozenset(self.get_trunk_ports())
        files = given["weft_credentials"], given["weft_ca"]
        self._session = session_of(access, *files, self._limits(self._parking, ()), CONFIRM_SECONDS)
        self._lock = threading.Lock()

    # -- networks ------------------------------------------------------------------------------------------------

    def add_network(self, segmentation_id, network_id, physnet_vlans=None):
        """Define the VLAN, and have the links to other switches carry it."""
        number = int(segmentation_id)

        def edit(state: SwitchState) -> Batch:
            ports = self._on_trunks(state, lambda now: number not in now.tagged, add=frozenset({number}))
            missing = self._do_vlan_management() and not state.forwards(number)
            return Batch(
                {number: state.vlans.get(number) or _name(network_id)} if missing else {}, frozenset(), ports
            )

        self._change(number, (), edit)

    def del_network(self, segmentation_id, network_id, physnet_vlans=None):
        """Remove the VLAN from the switch and its links. Ports were removed from it before, one by one.
        On switches that store names, a VLAN with another name existed before, and stays as it is.
        """
        number = int(segmentation_id)

        def edit(state: SwitchState) -> Batch:
            if state.vlans.get(number, "") not in ("", _name(network_id), _own_name(number)):
                return Batch()
            ports = self._on_trunks(state, lambda now: number in now.tagged, remove=frozenset({number}))
            there = self._do_vlan_management() and number in state.vlans
            return Batch({}, frozenset({number} if there else ()), ports)

        self._change(number, (), edit)

    # -- ports ---------------------------------------------------------------------------------------------------

    def plug_port_to_network(self, port_id, segmentation_id, trunk_details=None, default_vlan=None, mtu=None):
        """Make the port an access port of this VLAN and of no other, whatever it was before."""
        self._refuse(mtu=mtu, trunk=trunk_details)
        number = int(segmentation_id)

        def edit(state: SwitchState) -> Batch:
            now = self._there(state, port_id)
            define = self._do_vlan_management() and not state.forwards(number)
            wanted = PortEdit(number, remove=now.tagged)
            ports = {} if wanted.done(now) and not now.tagged else {port_id: wanted}
            return Batch(
                {number: state.vlans.get(number) or _own_name(number)} if define else {}, frozenset(), ports
            )

        self._change(number, (port_id,), edit)

    def delete_port(self, port_id, segmentation_id, trunk_details=None, default_vlan=None, mtu=None):
        """Put the port into the parking VLAN; a port in another network's VLAN by now is left there."""
        self._refuse(mtu=mtu, trunk=trunk_details)
        number = int(segmentation_id)

        def edit(state: SwitchState) -> Batch:
            now = self._there(state, port_id)
            mine = now.untagged in (number, DEFAULT) or number in now.tagged or now.tagged == EVERY
            return Batch(ports={port_id: PortEdit(PARK, remove=now.tagged)} if mine else {})

        # Neutron neither retries this nor notifies Ironic if it fails.
        for pause in FREE_AGAIN:
            try:
                self._change(number, (port_id,), edit)
                return
            except WeftSwitchError as error:
                LOG.warning("freeing port %s: %s; it is tried again in %s s", port_id, error, pause)
                time.sleep(pause)
        self._change(number, (port_id,), edit)

    def vlan_has_ports(self, segmentation_id):
        """Whether any port other than links has it; True if it can't be read."""
        try:
            ports = self._session.read().ports
        except WeftError:
            return True
        return any(int(segmentation_id) in p.numbers for name, p in ports.items() if name not in self._trunks)

    # -- what these drivers don't do -----------------------------------------------------------------------------

    def vlan_has_vni(self, segmentation_id, vni):
        return False

    def plug_switch_to_network(self, vni, segmentation_id, physnet=None):
        raise self._not_supported("VXLAN")

    def unplug_switch_from_network(self, vni, segmentation_id, physnet=None):
        raise self._not_supported("VXLAN")

    def add_subports_on_trunk(self, binding_profile, port_id, subports, trunk_details=None):
        raise self._not_supported("trunks")

    def del_subports_on_trunk(self, binding_profile, port_id, subports, trunk_details=None):
        raise self._not_supported("trunks")

    def add_security_group(self, sg):
        raise self._not_supported("security groups")

    def update_security_group(self, sg):
        raise self._not_supported("security groups")

    def del_security_group(self, sg_id):
        raise self._not_supported("security groups")

    def bind_security_group(self, sg, port_id, port_ids):
        raise self._not_supported("security groups")

    def unbind_security_group(self, sg_id, port_id, port_ids):
        raise self._not_supported("security groups")

    # -- inside --------------------------------------------------------------------------------------------------

    def _change(self, number: int, ports: Collection[str], edit: Edit) -> None:
        try:
            with turn(self._lock, self.device_name):
                self._session.limits = self._limits(number, ports)
                # Another process may have made the change already, and have failed to save it.
                self._session.change(edit, save=True)
        except WeftError as error:
            raise WeftSwitchError(said=str(error)) from error

    def _limits(self, number: int, ports: Collection[str]) -> SwitchLimits:
        """What a change may touch: one VLAN, on these ports and on the links between switches."""
        vlans = Range(first=number, last=number)
        return SwitchLimits(vlans, frozenset({*ports, *self._trunks}), self._parking)

    def _there(self, state: SwitchState, port: str) -> PortVlans:
        if port not in state.ports:
            raise WeftSwitchError(
                said=f"switch {self.device_name} has no port {port}: correct the Ironic port's local_link_connection"
            )
        if port in self._trunks:
            raise WeftSwitchError(
                said=f"port {port} of switch {self.device_name} is a link (ngs_trunk_ports)"
            )
        return state.ports[port]

    def _on_trunks(
        self, state: SwitchState, differs: Callable[[PortVlans], bool], **change
    ) -> dict[str, PortEdit]:
        if missing := sorted(self._trunks - state.ports.keys()):
            said = f"switch {self.device_name} has no port {missing[0]}: correct ngs_trunk_ports"
            raise WeftSwitchError(said=said)
        links = sorted(self._trunks)
        return {name: PortEdit(trunk=True, **change) for name in links if differs(state.ports[name])}

    def _refuse(self, mtu, trunk) -> None:
        if mtu:
            raise self._not_supported("the MTU of a port")
        if trunk:
            raise self._not_supported("trunks")

    def _not_supported(self, feature: str) -> ngs.GenericSwitchNotSupported:
        return ngs.GenericSwitchNotSupported(
            feature=feature, switch=self.device_name, error="weft's drivers put whole ports into VLANs."
        )


def _name(network_id: str) -> str:
    """The name as the library writes it: 32 characters, which EOS allows."""
    return uuid.UUID(network_id).hex


def _own_name(number: int) -> str:
    """Name of a VLAN that a port is put into before the switch was given its network."""
    return f"vlan-{number}"


def _vlan(switch: str, option: str, text: str | None) -> int:
    number = int(text) if text is not None and text.isdecimal() else 0
    if not 2 <= number <= 4094:
        then = "the parking VLAN, 2 to 4094: without it a freed port may be a trunk of every VLAN"
        raise _wrong(switch, option, text, then)
    return number


def _wrong(switch: str, option: str, value: object, allowed: str) -> WeftSwitchError:
    return WeftSwitchError(
        said=f"[genericswitch:{switch}] {option} = {value or 'nothing'}: allowed is {allowed}"
    )
