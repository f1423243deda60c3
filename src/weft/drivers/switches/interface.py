"""The interface of a switch for a fabric's driver."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from weft.drivers.switches.vlans import Batch, SwitchState
from weft.model.portcounters import PortCounters
from weft.model.specs import SegmentSpec
from weft.planning.fabric.qos import SwitchQos
from weft.planning.site.neighbours import LldpNeighbour
from weft.ports.fences import Fence, unfenced

Edit = Callable[[SwitchState], Batch]
"""Makes changes from a switch's state; called while no other thread of this process changes the
switch, and again if the switch had to be read again."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One change.

    Attributes:
        fence: raises if the change must no longer be made; called before it is sent, and before each further
        request of a slow one.
        about: the segment that it changes, for switches that can't be read back.
        own: segments of the site's own, whose VLANs and ports may be changed besides those for pods.
        recent: it may start from a reading of the last second.
        save: save the configuration even if nothing is to be changed: another process may have changed it without
            saving.
    """

    edit: Edit
    about: SegmentSpec | None = None
    own: Sequence[SegmentSpec] = ()
    recent: bool = False
    save: bool = False
    fence: Fence = unfenced


class SwitchDriver(Protocol):
    """What the fabric's driver needs from a switch. Every call may raise `UnknownError` or `PermanentError`."""

    @property
    def name(self) -> str:
        """Its name in the site."""
        ...

    @property
    def keeps_names(self) -> bool:
        """Whether the switch stores a VLAN's name."""
        ...

    def read(self, since: float | None = None) -> SwitchState:
        """A reading that began after the call.

        Args:
            since: a reading shared with others suffices if it began after this moment, in monotonic seconds.
        """
        ...

    def change_all(self, asked: Sequence[Asked]) -> Sequence[Exception | None]:
        """Make all changes, read them back and save them; returns each one's error, in order.
        Empty changes send nothing. A change that fails because of others is tried alone.
        """
        ...

    def qos(self) -> SwitchQos | str:
        """Its ports' settings for RoCE; or text: why it can't report them."""
        ...

    def neighbours(self, ports: Sequence[str]) -> Sequence[LldpNeighbour] | str:
        """Its LLDP neighbours on these ports; or text: why it can't report them."""
        ...

    def counters(self) -> Sequence[PortCounters] | str:
        """Counters of its ports; or text: why it can't report them."""
        ...

    def links(self) -> Mapping[str, bool] | str:
        """Port -> whether its link is up, without ports whose link isn't known; or text: why it can't report it."""
        ...

    def close(self) -> None:
        """Close its connections."""
