"""The loop's settings; all times in seconds."""

from __future__ import annotations

from dataclasses import dataclass, field

from weft.engine.hold.fence import LATE_SECONDS
from weft.model.pod import PodState


def _limits() -> dict[PodState, float]:
    return {
        PodState.PENDING: 60.0,
        PodState.PLACED: 120.0,
        PodState.WIRING: 600.0,
        PodState.BOOTING: 1800.0,
        PodState.VERIFYING: 600.0,
        PodState.DEGRADED: 3600.0,
        PodState.RELEASING: 900.0,
    }


@dataclass(frozen=True, slots=True)
class LoopSettings:
    """Intervals, limits and numbers of threads of the loop.

    Attributes:
        observe_every: how often a READY pod is observed.
        watch_every: how often a pod's nodes are checked while its servers boot and nothing else is done.
        first_poll, last_poll, poll_growth: when to observe again what is being created or removed: after that share of
            the time since it began, within these bounds.
        first_poll_fabric: as `first_poll`, on a fabric, of which only what was changed is observed.
        first_poll_servers, last_poll_servers, poll_growth_servers: as these, for booting servers. They take long and
            are many, observing one costs as much as a step of an order, and `weft.engine.watch.bootkeeper` learns
            sooner when they have booted.
        patience, patience_servers: how long resources may take to settle or go before the pod says why it waits, and is
            observed less often.
        verify_patience: how long something may still be coming up when a pod is verified.
        first_delay, last_delay: back-off after failures, doubled from the first up to the last.
        server_attempts: how often a server is created before the pod is FAILED.
        limits: a state that lasts longer raises an alarm (event and metric); RELEASING's limit also decides when
            nodes that can't be read back clean are quarantined and the others freed.
        ends, ends_cleaning: a pod's release that lasts longer is abandoned, with an unclean receipt; the second while
            something is left that is cleaned before it goes, which erases disks. All limits of a release count the time
            worked on it (`OwnerRecord.worked`): not the time without weft, nor with the gate closed.
        late: how long after its hold a lost worker's last request may still be under way; a release after such a loss
            waits for that long before it reads back.
        fabric_age: greatest age of the fabric's reading by which a READY pod is judged; it is never from before the pod
            was READY, nor from before this process's last change of the fabric.
        pods_at_once: pods that one worker process works on at the same time.
        releases_at_once: further pods that it releases: they free capacity, and don't wait behind what boots.
        aside_at_once: further pods of each sort that wait for a fabric, to share one change of it; and further pods,
            READY ones too, that wait long for a cloud's answer.
        looks_at_once: further READY pods that it observes, so that no work waits behind an observation.
        calls_at_once: threads of a worker process for concurrent requests of its visits to clouds and fabrics.
    """

    observe_every: float = 60.0
    watch_every: float = 30.0
    first_poll: float = 0.3
    last_poll: float = 10.0
    poll_growth: float = 0.2
    first_poll_fabric: float = 0.1
    first_poll_servers: float = 30.0
    last_poll_servers: float = 60.0
    poll_growth_servers: float = 1.0
    patience: float = 30.0
    patience_servers: float = 300.0
    verify_patience: float = 20.0
    first_delay: float = 2.0
    last_delay: float = 60.0
    server_attempts: int = 3
    limits: dict[PodState, float] = field(default_factory=_limits)
    ends: float = 3600.0
    ends_cleaning: float = 86400.0
    fabric_age: float = 5.0
    pods_at_once: int = 8
    releases_at_once: int = 4
    aside_at_once: int = 200
    looks_at_once: int = 8
    calls_at_once: int = 16
    late: float = LATE_SECONDS

    def poll(self, age: float, boots: bool = False, of_fabric: bool = False) -> float:
        """Pause before observing again something that has been on its way for `age` seconds.

        Args:
            boots: a server.
            of_fabric: a fabric's resource.
        """
        if boots:
            return min(self.last_poll_servers, max(self.first_poll_servers, self.poll_growth_servers * age))
        first = min(self.first_poll, self.first_poll_fabric) if of_fabric else self.first_poll
        return min(self.last_poll, max(first, self.poll_growth * age))

    def delay(self, failures: int) -> float:
        """Back-off after so many failures in a row."""
        return min(self.last_delay, self.first_delay * 2 ** min(failures, 16))


def limit_values() -> dict[str, list[str] | list[float]]:
    """`LoopSettings.limits` as the values of a query: `limited`, states, and `seconds`, how long each may last."""
    limits = LoopSettings().limits
    return {"limited": [str(state) for state in limits], "seconds": list(limits.values())}
