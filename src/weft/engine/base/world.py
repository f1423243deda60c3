"""What the loop acts on, as interfaces: the app chooses the drivers behind them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from weft.model.errors import PermanentError
from weft.ports.cloud import CloudFacts
from weft.ports.fabric import FabricDriver
from weft.ports.machines import MachineReader
from weft.ports.prober import Prober
from weft.ports.resources import ResourceDriver


@dataclass(frozen=True, slots=True, weakref_slot=True)
class World:
    """Drivers by the names that the site gives to its clouds and fabrics.

    Attributes:
        resources: cloud or fabric name -> driver of the resources that live there.
        fabrics: fabric name -> its driver, which has the segments among `resources`, too.
        clouds: cloud name -> facts.
        machines: name of a manager of machines -> reader of what it has.
        probers: fabric name -> what tests frames on it; most fabrics have none.
    """

    resources: Mapping[str, ResourceDriver]
    fabrics: Mapping[str, FabricDriver]
    clouds: Mapping[str, CloudFacts]
    machines: Mapping[str, MachineReader] = field(default_factory=dict[str, MachineReader])
    probers: Mapping[str, Prober] = field(default_factory=dict[str, Prober])

    def driver(self, where: str) -> ResourceDriver:
        """The driver of a cloud or fabric; a pod planned with an older site may name one that is gone."""
        if where not in self.resources:
            raise PermanentError(
                f"find the driver of {where!r}",
                "the active site",
                "it names no such cloud or fabric",
                "activate a site that does",
            )
        return self.resources[where]

    def fabric(self, name: str) -> FabricDriver:
        """The driver of a fabric. Raises `PermanentError` if there is none."""
        if name not in self.fabrics:
            raise PermanentError(
                f"find the fabric {name!r}",
                "the active site",
                "there is no driver for it: the site has no such fabric, or one that weft can only plan on",
                "order on another fabric, or activate a site that has it",
            )
        return self.fabrics[name]
