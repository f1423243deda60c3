"""Verbs that show who is on which link of a fabric, by the switches' forwarding tables and the ports' counters."""

from __future__ import annotations

from weft.app.desk import DeskVerbs
from weft.app.linkpicture import LinkPicture, in_gbps
from weft.app.verbs import Request
from weft.engine.rows.records import PodRecord
from weft.engine.store.linkusers import read_fabric_users
from weft.model.errors import ConflictError, OutsideError, UnknownError
from weft.model.linkreading import Pattern, TimedRates
from weft.model.messages import links as messages
from weft.model.site import Site
from weft.model.views import (
    MOST_LINK_PODS,
    MOST_LINKS,
    Disturber,
    Disturbers,
    LinkAnswer,
    NodeLoad,
    NodeLoads,
    PodLinks,
)
from weft.planning.fabric.linkmap import LinkMap
from weft.planning.fabric.linkuse import is_congested
from weft.planning.fabric.targets import target_of
from weft.planning.fabric.topology import natural
from weft.ports.fabric import FollowsRoutes

ROUTES_AGE = 30.0
"""Seconds that a reading of forwarding tables may be old; after a sweep the agent reads them again in any case."""
RATES_AGE = 20.0
_LINK = "link:"


class LinkVerbs(DeskVerbs):
    """See `weft.app.verbs`. Nothing is changed; the fabric's agent is asked unless it was a moment ago."""

    def show_link(self, request: Request, target: str, pattern: Pattern = "rail") -> LinkAnswer:
        """Who is on a cable of a fabric, in both directions, and what it carries now. For operators.

        Args:
            target: a cable by one end, as `weft.planning.fabric.targets.target_of` reads it.

        Raises:
            InputError: the site has no such cable.
            ConflictError: its fabric's links can't be followed, or nothing was discovered there.
            UnknownError: the fabric can't be read.
        """
        self._desk.policy.check("links:show", request.caller)
        site = self._desk.store.site().site
        found = target_of(site, target if target.startswith(_LINK) else _LINK + target)
        ends = sorted(found.failed.ends, key=lambda e: (natural(e[0]), natural(e[1])))
        fabric = _fabric_of(site, ends[0][0])
        picture = self._picture(site, fabric, pattern)
        links: dict[int, None] = {}
        for switch, port in ends:
            cable = picture.map.both_ways(switch, port)
            if cable is None:
                raise ConflictError(messages.LINK_NOT_SEEN(fabric=fabric, switch=switch, port=port))
            links |= dict.fromkeys(cable)
        views = tuple(picture.view(link) for link in links)
        return LinkAnswer(target=found.name, reading=picture.reading(), links=views)

    def pod_links(self, request: Request, name: str, pattern: Pattern = "rail") -> PodLinks:
        """Links that a pod's paths use, and with how many others it shares each. Raises as `show_link`."""
        pod = self._desk.allowed(request, "pods:links", name, self._desk.store.pods.find)
        picture, user = self._of_pod(pod, pattern)
        mine, use = picture.use.links_of(user), picture.use
        links = [picture.pod_link(link, paths) for link, paths in mine.items()]
        links.sort(key=lambda k: (-k.shared_with, -k.paths, natural(k.sender), k.sender_port))
        return PodLinks(
            pod=pod.name,
            id=str(pod.id),
            fabric=picture.fabric,
            pattern=pattern,
            routes_age=picture.routes.age,
            exact=picture.map.exact,
            equal_paths=picture.routes.routes.equal_paths,
            adapters=len(use.users[user].adapters),
            unseen=use.unseen.get(user, 0),
            lost=sum(use.lost.get(user, {}).values()),
            shared_with=len(picture.others_on(list(mine), user)),
            links=tuple(links[:MOST_LINKS]),
            more_links=max(0, len(links) - MOST_LINKS),
            reading=picture.reading(),
        )

    def who_disturbs(self, request: Request, name: str, pattern: Pattern = "rail") -> Disturbers:
        """What shares links between switches with a pod, and which of them explains congestion. For operators.

        Raises as `show_link`.
        """
        self._desk.policy.check("links:show", request.caller)
        pod = self._desk.allowed(request, "pods:show", name, self._desk.store.pods.find)
        picture, user = self._of_pod(pod, pattern)
        between = [k for k in picture.use.links_of(user) if picture.is_between_switches(k)]
        state = {link: is_congested(picture.rate(link)) for link in between}
        congested = [link for link in between if state[link]]
        causes: dict[int, int] = {}
        sent: dict[int, float] = {}
        for link in congested:
            if (first := picture.cause(link)) is not None:
                causes[first] = causes.get(first, 0) + 1
            for one in picture.suspects(link):
                sent[one.user] = max(sent.get(one.user, 0.0), one.sent or 0.0)
        others = [
            Disturber(
                kind=picture.users[other].kind,
                name=picture.users[other].name,
                id=picture.users[other].id,
                project_id=picture.users[other].project_id,
                shared_links=len(links),
                congested_links=sum(bool(state[link]) for link in links),
                cause_of=causes.get(other, 0),
                sent_gbps=in_gbps(sent.get(other)),
            )
            for other, links in picture.others_on(between, user).items()
        ]
        others.sort(
            key=lambda o: (
                -o.cause_of,
                -o.congested_links,
                -(o.sent_gbps or 0),
                -o.shared_links,
                o.name,
                o.id,
            )
        )
        views = [picture.view(link) for link in congested[:MOST_LINK_PODS]]
        views.sort(key=lambda v: (-(v.waiting or 0.0), natural(v.sender), v.sender_port))
        return Disturbers(
            pod=pod.name,
            id=str(pod.id),
            project_id=pod.project_id,
            reading=picture.reading(),
            links=len(between),
            unknown_links=sum(s is None for s in state.values()),
            congested=tuple(views),
            more_congested=len(congested) - len(views),
            others=tuple(others[:MOST_LINK_PODS]),
            more_others=max(0, len(others) - MOST_LINK_PODS),
        )

    def node_loads(self, request: Request) -> NodeLoads:
        """How much of its links each node uses now, in the site's order. Fabrics whose links can't be followed are
        left out. For operators."""
        self._desk.policy.check("links:show", request.caller)
        site = self._desk.store.site().site
        loads: dict[str, float | None] = {}
        unread: dict[str, str] = {}
        for fabric, driver in sorted(self._desk.keeper.world().fabrics.items()):
            on = [(node.name, hca) for node in site.nodes for hca in node.hcas_on(fabric)]
            if not isinstance(driver, FollowsRoutes) or not on:
                continue
            loads |= {name: loads.get(name) for name, _ in on}
            try:
                routes, rates = driver.routes(ROUTES_AGE), driver.rates(RATES_AGE)
            except OutsideError as error:
                unread[fabric] = str(error)
                continue
            links = LinkMap(site, fabric, routes.routes)
            for name, hca in on:
                load, before = links.load(hca, rates.ports), loads[name]
                if load is not None and (before is None or load > before):
                    loads[name] = load
        nodes = tuple(NodeLoad(node=name, load=load and round(load, 3)) for name, load in loads.items())
        return NodeLoads(nodes=nodes, unread=unread)

    def _of_pod(self, pod: PodRecord, pattern: Pattern) -> tuple[LinkPicture, int]:
        """The picture of a pod's fabric, and the pod's index among its users."""
        site = self._desk.store.site().site
        plan = pod.placed
        if plan is None or plan.fabric not in site.fabrics:
            raise ConflictError(messages.POD_NOT_ON_FABRIC(pod=pod.name))
        picture = self._picture(site, plan.fabric, pattern)
        user = next((i for i, u in enumerate(picture.users) if u.id == str(pod.id)), None)
        if user is None:
            raise ConflictError(messages.POD_NOT_ON_FABRIC(pod=pod.name))
        return picture, user

    def _picture(self, site: Site, fabric: str, pattern: Pattern) -> LinkPicture:
        driver = self._desk.keeper.world().fabric(fabric)
        if not isinstance(driver, FollowsRoutes):
            raise ConflictError(messages.LINKS_NOT_READ(fabric=fabric))
        routes = driver.routes(ROUTES_AGE)
        rates: TimedRates | None = None
        unread = ""
        try:
            rates = driver.rates(RATES_AGE)
        except UnknownError as error:
            unread = str(error)
        users = read_fabric_users(self._desk.store.database, fabric)
        return LinkPicture(site, fabric, pattern, routes, rates, unread, users)


def _fabric_of(site: Site, switch: str) -> str:
    found = site.switch_by_name.get(switch)
    if found is None or found.fabric not in site.fabrics:
        raise ConflictError(messages.LINKS_NOT_READ(fabric=found.fabric if found else switch))
    return found.fabric
