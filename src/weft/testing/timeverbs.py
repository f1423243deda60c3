"""The part of the in-memory `Verbs` that is about capacity in time."""

from __future__ import annotations

from datetime import UTC, datetime

from weft.app.verbs import Request
from weft.model.errors import ConflictError, InputError, NotFoundError
from weft.model.ids import Duration
from weft.model.order import Level
from weft.model.reservation import Reservation, ReservationView
from weft.model.site import AcceleratorCount
from weft.model.views import (
    CapacityRowView,
    CapacityView,
    IpuCapacityView,
    LargestIpusView,
    LargestView,
    SoonIpusView,
    SoonView,
)
from weft.testing import examples

LEVELS: tuple[Level, ...] = ("leaf", "block", "site")


class FakeTime:
    """Capacity and reservations; the class that has this says who may do what."""

    def __init__(self) -> None:
        self.set_aside: dict[str, ReservationView] = {}

    def check(self, request: Request, rule: str) -> None:
        raise NotImplementedError

    def capacity(
        self,
        request: Request,
        accelerator: str | None = None,
        level: Level | None = None,
        duration: Duration = "24h",
    ) -> CapacityView:
        self.check(request, "capacity:show")
        if accelerator not in (None, "h100", "ipu"):
            raise InputError("accelerator", accelerator, "types of accelerators of site example: h100, ipu")
        levels: list[Level] = [x for x in LEVELS if level in (None, x)]
        row = CapacityRowView(
            fabric="ib",
            cloud="cloud",
            accelerators=AcceleratorCount(type="h100", count=8) if accelerator else None,
            nodes=4,
            free=2,
            largest=tuple(LargestView(level=x, count=2, where="leaf1") for x in levels),
            soon=tuple(SoonView(level=x, count=4, at=examples.NOW) for x in levels),
        )
        pod = IpuCapacityView(
            ipu_pod="pod1",
            cloud="cloud",
            machines=16,
            free=12,
            poplar_servers=2,
            largest=LargestIpusView(count=32, where="pod1 5-12"),
            soon=(SoonIpusView(count=64, at=examples.NOW),),
        )
        return CapacityView(
            at=examples.NOW,
            duration=duration,
            rows=() if accelerator == "ipu" else (row,),
            ipus=(pod,) if accelerator in (None, "ipu") and level is None else (),
            waiting=1,
        )

    def reservations(self, request: Request) -> list[ReservationView]:
        self.check(request, "reservations:list")
        return list(self.set_aside.values())

    def create_reservation(self, request: Request, reservation: Reservation) -> ReservationView:
        self.check(request, "reservations:change")
        if reservation.name in self.set_aside:
            raise ConflictError(f"name: reservation {reservation.name!r} already")
        made = ReservationView(
            name=reservation.name,
            project_id=reservation.project_id,
            nodes=reservation.nodes,
            start=reservation.start or datetime.now(UTC),
            end=reservation.end,
            reason=reservation.reason,
            created_by=request.caller.user_name,
            created_at=datetime.now(UTC),
        )
        self.set_aside[made.name] = made
        return made

    def delete_reservation(self, request: Request, name: str) -> ReservationView:
        self.check(request, "reservations:change")
        if name not in self.set_aside:
            raise NotFoundError(f"there is no reservation {name!r}")
        return self.set_aside.pop(name)
