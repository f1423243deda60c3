"""What a fabric's driver asks of a switch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from weft.drivers.switches.vlans import Batch, SwitchState
from weft.model.specs import SegmentSpec
from weft.planning.fabric.qos import SwitchQos
from weft.planning.site.neighbours import Neighbour
from weft.ports.fences import Fence, unfenced

Edit = Callable[[SwitchState], Batch]
"""From what a switch is to what is to change; called while nobody else of this process changes the switch, and once
more if it was better read again."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One change.

    Attributes:
        fence: raises if it may not be made any more; asked before it is sent, and before each further request of one
            that takes long.
        about: the segment that it is about, for switches that can't be read back.
        own: segments of the site's own, whose VLANs and ports may be changed besides those for pods.
        recent: a reading of the last second will do to begin with.
        save: also if nothing is to be changed: what was changed may be another process's, which never saved it.
    """

    edit: Edit
    about: SegmentSpec | None = None
    own: Sequence[SegmentSpec] = ()
    recent: bool = False
    save: bool = False
    fence: Fence = unfenced


class Switch(Protocol):
    """What the fabric's driver needs from a switch. Every call may raise `UnknownError` or `PermanentError`."""

    @property
    def name(self) -> str: ...

    @property
    def keeps_names(self) -> bool:
        """Whether the switch stores a VLAN's name."""
        ...

    def read(self, since: float | None = None) -> SwitchState:
        """A reading that began after the call.

        Args:
            since: one that others have begun will do if it began after this moment, in monotonic seconds.
        """
        ...

    def change_all(self, asked: Sequence[Asked]) -> Sequence[Exception | None]:
        """Make all that is asked, read it back and save it; returns each one's error, in their order.

        What comes to nothing changes nothing. Who fails because of others is tried alone.
        """
        ...

    def qos(self) -> SwitchQos | str:
        """Its ports' settings for RoCE; text: why it can't say them."""
        ...

    def neighbours(self, ports: Sequence[str]) -> Sequence[Neighbour] | str:
        """What it hears by LLDP on these ports; text: why it can't say it."""
        ...

    def close(self) -> None: ...
