"""What weft may change on a switch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from weft.drivers.switches.vlans import Batch
from weft.model.errors import PermanentError
from weft.model.ranges import Range
from weft.model.specs import SegmentSpec


@dataclass(frozen=True, slots=True)
class SwitchLimits:
    """What may be changed on a switch: VLANs, and ports by the vendor's names.

    Attributes:
        parking: isolated VLAN for ports that are in no other; not in `vlans`.
    """

    vlans: Range
    ports: frozenset[str]
    parking: int

    def check(self, batch: Batch, name: str, own: Sequence[SegmentSpec] = ()) -> None:
        """Raises `PermanentError` if the batch would change anything else.

        Args:
            own: segments of the site's own, whose VLANs and ports may be changed, too.
        """
        numbers = {s.number for s in own}
        ends = {end for s in own for end in (*s.ports, *s.former)}
        wrong = [str(n) for n in sorted(batch.numbers - numbers) if n not in self.vlans]
        wrong += sorted(p for p in batch.ports.keys() - self.ports if f"{name}/{p}" not in ends)
        if wrong:
            said, then = (
                f"{', '.join(wrong)} isn't weft's to change",
                "correct the site: VLAN range, ports, parking",
            )
            raise PermanentError("change VLANs", f"switch {name}", said, then)
