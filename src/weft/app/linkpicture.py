"""A fabric's links as answers: names instead of numbers, pods instead of indexes. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from weft.engine.store.linkusers import FabricUser
from weft.model.linkreading import Pattern, PortRate, TimedRates, TimedRoutes
from weft.model.site import Site
from weft.model.views import MOST_LINK_PODS, LinkPod, LinkReading, LinkView, PodLink
from weft.planning.fabric.linkmap import LinkMap
from weft.planning.fabric.linkuse import LinkUse, LinkUser, Suspect, cause, is_congested, link_use

_GIGABIT = 8 / 1e9


@dataclass(frozen=True)
class LinkPicture:
    """One fabric at one moment.

    Attributes:
        unread: why there are no rates.
    """

    site: Site
    fabric: str
    pattern: Pattern
    routes: TimedRoutes
    rates: TimedRates | None
    unread: str
    users: tuple[FabricUser, ...]

    @cached_property
    def map(self) -> LinkMap:
        """The links by the site's names."""
        return LinkMap(self.site, self.fabric, self.routes.routes)

    @cached_property
    def use(self) -> LinkUse:
        """The paths of all users on all links. Raises `InputError` if the pattern has too many paths."""
        users = tuple(LinkUser(u.id, self.map.adapters(u.ports)) for u in self.users)
        return link_use(self.routes.routes, users, self.pattern)

    def reading(self) -> LinkReading:
        """The readings that this picture follows from, and what isn't known in them."""
        routes, rates = self.routes.routes, self.rates
        return LinkReading(
            fabric=self.fabric,
            pattern=self.pattern,
            routes_age=self.routes.age,
            routes=routes.digest,
            rates_age=rates.age if rates else None,
            rates_seconds=rates.seconds if rates else (),
            rates_unread=self.unread,
            engine=routes.engine,
            exact=self.map.exact,
            notes=tuple(self._notes()),
        )

    def _notes(self) -> list[str]:
        use = self.use
        notes = [*self.map.notes()]
        if lost := sum(n for fates in use.lost.values() for n in fates.values()):
            notes.append(f"{lost} paths of {len(use.lost)} pods or networks don't arrive or are unknown")
        if unseen := sum(use.unseen.values()):
            notes.append(f"{unseen} adapters of {len(use.unseen)} pods or networks have no cable to a switch")
        if bad := sum(u.unread for u in self.users):
            notes.append(f"the records of {bad} pods or networks can't be read: their paths are missing")
        if self.rates is not None and self.rates.unread:
            notes.append(f"{self.rates.unread} cabled ports didn't answer when counters were read")
        if self.rates is not None and not self.rates.seconds:
            notes.append("counters were read once: what links carry is known from the second reading on")
        return notes

    @property
    def _rates(self) -> Mapping[tuple[int, int], PortRate]:
        return self.rates.ports if self.rates else {}

    def rate(self, link: int) -> PortRate:
        """What the port that sends on a link counts."""
        return self.map.rate(link, self._rates)

    def suspects(self, link: int) -> list[Suspect]:
        """What each user sends on a link, most first; among equal paths, which of them carries it isn't known."""
        if self.routes.routes.equal_paths and self.is_between_switches(link):
            return [Suspect(one.user, None) for one in self.use.on(link)]
        return self.use.sent_on(link, self.map.forwarding, self._rates)

    def cause(self, link: int) -> int | None:
        """The user that congests a link; None: it isn't congested, or it isn't known who does."""
        rate = self.rate(link)
        if not self.map.exact or not is_congested(rate):
            return None
        return cause(self.suspects(link), rate.sent)

    def is_between_switches(self, link: int) -> bool:
        """Whether a switch is at both ends."""
        return self.map.forwarding.is_between_switches(link)

    def view(self, link: int) -> LinkView:
        """A link with the pods on it."""
        sender, receiver = self.map.ends(link)
        rate, paths = self.rate(link), dict(self.use.on(link))
        suspects = self.suspects(link)
        congested = is_congested(rate)
        first = self.cause(link)
        pods = [
            LinkPod(
                kind=self.users[s.user].kind,
                name=self.users[s.user].name,
                id=self.users[s.user].id,
                project_id=self.users[s.user].project_id,
                paths=paths[s.user],
                sent_gbps=in_gbps(s.sent),
            )
            for s in suspects
        ]
        pods.sort(key=lambda p: (-(p.sent_gbps or 0.0), -p.paths, p.name, p.id))
        return LinkView(
            sender=sender.name,
            sender_port=sender.port,
            receiver=receiver.name,
            receiver_port=receiver.port,
            sender_port_name=sender.port_name,
            receiver_port_name=receiver.port_name,
            gbps=self.map.gbps(link),
            sent_gbps=in_gbps(rate.sent),
            waiting=rate.waiting,
            waiting_before=rate.waiting_before,
            at_least=rate.at_least or rate.full,
            congested=congested,
            pauses=rate.pauses,
            marked=rate.marked,
            cause="" if first is None else self.users[first].id,
            pods=tuple(pods[:MOST_LINK_PODS]),
            more_pods=max(0, len(pods) - MOST_LINK_PODS),
        )

    def pod_link(self, link: int, paths: int) -> PodLink:
        """A link of one pod, without the others' names."""
        sender, receiver = self.map.ends(link)
        rate = self.rate(link)
        return PodLink(
            sender=sender.name,
            sender_port=sender.port,
            receiver=receiver.name,
            receiver_port=receiver.port,
            sender_port_name=sender.port_name,
            receiver_port_name=receiver.port_name,
            sender_level=sender.level,
            receiver_level=receiver.level,
            paths=paths,
            shared_with=len(self.use.on(link)) - 1,
            gbps=self.map.gbps(link),
            sent_gbps=in_gbps(rate.sent),
            waiting=rate.waiting,
            congested=is_congested(rate),
        )

    def others_on(self, links: Sequence[int], user: int) -> dict[int, list[int]]:
        """Index of each other user on these links -> those between switches that it is on."""
        found: dict[int, list[int]] = {}
        for link in links:
            if self.is_between_switches(link):
                for other in self.use.on(link):
                    if other.user != user:
                        found.setdefault(other.user, []).append(link)
        return found


def in_gbps(rate: float | None) -> float | None:
    """Gb/s of bytes per second."""
    return None if rate is None else round(rate * _GIGABIT, 3)
