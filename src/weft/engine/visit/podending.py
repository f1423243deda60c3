"""How the release of a pod ends: what is read back, what its receipt says, and what of it is freed earlier."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from weft.engine.hold.heldpod import HeldPod
from weft.engine.proof.readback import ReadBack
from weft.engine.proof.receiptmaking import make_receipt
from weft.engine.proof.release import ReleaseReader
from weft.engine.visit.tools import Tools
from weft.model.fabric import Membership
from weft.model.receipt import Abandoned, Receipt


class PodEnding:
    """`weft.engine.visit.releasing.OwnersEnding` of pods."""

    def __init__(self, tools: Tools) -> None:
        self._clock, self._settings = tools.clock, tools.settings

    def read_back(self, held: HeldPod) -> ReadBack:
        read = self.reader(held, held.holdings.nodes()).read()
        held.quarantine.add(read.elsewhere)  # at once: nothing else keeps them from being assigned
        return read

    def reader(self, held: HeldPod, holding: Collection[str]) -> ReleaseReader:
        """Reads back what is on and around these nodes."""
        former: dict[str, tuple[Membership, ...]] = {}
        for node, ports in held.nodes.leaving().items():
            for key, members in ports.items() if node in holding else ():
                former[key] = (*former.get(key, ()), *members)
        records = held.notes.read_resources()
        return ReleaseReader(
            held.pod,
            records,
            held.world,
            held.site,
            self._clock,
            held.at,
            holding,
            former,
            held.nodes.servers_on,
            held.holdings.numbers(),
        )

    def receipt(self, held: HeldPod, read: ReadBack, abandoned: Abandoned | None = None) -> Receipt:
        quarantined = {node for node, is_so in held.holdings.nodes().items() if is_so} | read.elsewhere.keys()
        cause = held.nodes.why_drained_out()
        return make_receipt(held.pod, read, held.holdings.given_back(), abandoned, quarantined, cause)

    def ends(self, held: HeldPod) -> float | None:
        cleans = any(r.kind.row.cleaned and not r.is_nowhere for r in held.resources())
        return self._settings.ends_cleaning if cleans else self._settings.ends

    def unclean(self, held: HeldPod, read: ReadBack) -> Mapping[str, str]:
        mine = held.holdings.nodes()
        return {n: why for n, why in read.unclean.items() if n in mine}

    def free_clean(self, held: HeldPod, read: ReadBack) -> None:
        """Free the nodes that were read back clean: one bad node must not keep a hundred."""
        clean = [n for n in sorted(held.holdings.nodes()) if n not in read.unclean]
        held.nodes.give_back(clean, [item for n in clean for item in read.of_nodes.get(n, ())])
