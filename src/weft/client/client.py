"""The API's verbs, as plain data.

Answers are plain dicts as the API's schema (/openapi.json) says, not models: a client must understand a newer server
that knows more fields. Errors are the `WeftError`s that the server raised, by `weft.model.errortable`.
"""

from __future__ import annotations

from urllib.parse import urlencode

from keystoneauth1.session import Session

from weft.client.asking import LONGEST_WAIT, with_query
from weft.client.audits import Audits
from weft.client.bandwidth import Bandwidth
from weft.client.capacity import Capacity
from weft.client.checks import Checks
from weft.client.fabrics import Fabrics
from weft.client.networks import Networks
from weft.client.nodes import Nodes
from weft.client.pods import Pods
from weft.client.site import Site
from weft.client.transport import Json, Transport
from weft.client.webhooks import Webhooks


class Client:
    """The API's verbs; orders and answers are plain JSON.

    Args:
        session: signed in, or able to.
        url: address of the API, with or without `/v1`.
        timeout: seconds that a single answer may take, waiting on purpose not counted.
    """

    def __init__(self, session: Session, url: str, timeout: float = 60.0) -> None:
        self._transport = weft = Transport(session, url, timeout)
        self.url = weft.url
        self.pods = Pods(weft)
        self.nodes = Nodes(weft)
        self.checks = Checks(weft)
        self.fabrics = Fabrics(weft)
        self.bandwidth = Bandwidth(weft)
        self.capacity = Capacity(weft)
        self.site = Site(weft)
        self.networks = Networks(weft)
        self.webhooks = Webhooks(weft)
        self.audits = Audits(weft)

    def events(
        self,
        after: str | None = None,
        wait: float = 0.0,
        newest: int | None = None,
        all_projects: bool = False,
        project: str | None = None,
    ) -> Json:
        """A page of events of all pods of the project: `events`, `position` to go on after, and if there are `more`.

        Args:
            after: `position` of an earlier page; None: the oldest that are kept.
            wait: seconds to wait for an event after it, at most `LONGEST_WAIT`.
            newest: only the last so many, at most 1,000; without `after`.
            all_projects: of all projects, or of `project` (operators).
        """
        wait = min(wait, LONGEST_WAIT)
        given = {"after": after, "newest": newest, "project": project, "wait": f"{wait:g}" if wait else None}
        path = with_query("/v1/events", **given, all_projects="true" if all_projects else None)
        return self._transport.ask("GET", path, extra_time=wait)

    def use(
        self,
        since: str,
        until: str | None = None,
        by: str = "pod",
        all_projects: bool = False,
        project: str | None = None,
    ) -> Json:
        """Node and accelerator hours of a period, of the caller's project or of all. Args: by: pod, project or type."""
        given = {"since": since, "until": until, "by": by, "project": project}
        every = "true" if all_projects else None
        return self._transport.ask("GET", with_query("/v1/use", **given, all_projects=every))

    def search(self, text: str) -> Json:
        """What has exactly this value: a name, id, GUID, address, P_Key or VLAN."""
        return self._transport.ask("GET", f"/v1/search?{urlencode({'text': text})}")

    def receipt_key(self) -> Json:
        return self._transport.ask("GET", "/v1/receipt-key")
