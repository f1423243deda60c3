"""The site: its document, its own resources, and questions about all of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from weft.client.asking import LONGEST_WAIT, events, listed, part, whole, with_query
from weft.client.transport import Json, Transport
from weft.model.errors import NotFoundError


@dataclass(frozen=True, slots=True)
class Site:
    """See `weft.client.client.Client`."""

    weft: Transport

    def show(self) -> Json:
        """The active site and its fabrics. Long tables of its document are in parts; `whole` has their rows."""
        return self.weft.ask("GET", "/v1/site")

    def whole(self) -> Json:
        """The active site with every row. Raises `NotFoundError` if another site comes into force meanwhile."""
        view = self.show()
        for table, value in view["document"].items():
            if isinstance(value, dict) and isinstance(
                value.get("parts"), list
            ):  # not the site's field `parts`
                view["document"][table] = [row for digest in value["parts"] for row in self.part(digest)]
        return view

    def part(self, digest: str) -> list[Any]:
        """The rows of a part of the active site's document. Raises `NotFoundError` if it has no such part."""
        return self.weft.ask("GET", f"/v1/site/parts/{part('part', digest)}")["rows"]

    def activate(
        self,
        document: Mapping[str, Any],
        base: int | None = None,
        parts: Mapping[str, bytes] | None = None,
    ) -> Json:
        """Activate a site; of its parts those are sent that the server hasn't.

        Args:
            base: generation that it was made from, 0 for the first; the server refuses an older one.
            parts: by the digests that the document has in place of rows (`weft.planning.site.parts.cut`).
        """
        headers = {} if base is None else {"If-Match": f'"{base}"'}
        if parts:
            self._send(parts)
        return self.weft.ask("PUT", "/v1/site", document, extra_time=600, headers=headers)

    def _send(self, parts: Mapping[str, bytes]) -> None:
        asked = {"parts": list(parts)}
        for digest in self.weft.ask("POST", "/v1/site/parts/missing", asked, extra_time=60)["missing"]:
            if digest in parts:
                self.weft.ask("PUT", f"/v1/site/parts/{digest}", parts[digest])

    def generation(self) -> int:
        """Generation of the active site; 0 if no site is active."""
        try:
            return int(self.show()["generation"])
        except NotFoundError:
            return 0

    def plan(self, adopt: bool = False) -> Json:
        """Plan what the site needs in its clouds; reads all that it has there, which takes time."""
        return self.weft.ask("GET", "/v1/site/plan" + ("?adopt=true" if adopt else ""), extra_time=600)

    def apply(self, adopt: bool = False) -> Json:
        """Apply what the site needs, in the background; returns the plan, `resources` shows the progress."""
        return self.weft.ask("POST", "/v1/site/apply", {"adopt": adopt}, extra_time=600)

    def resources(self) -> Json:
        """What was last applied, and its state."""
        return whole(self.weft.ask, "/v1/site/resources", "resources")

    def events(self, after: int = 0, wait: float = 0.0) -> list[Json]:
        """Events after a sequence; waits up to `wait` seconds (at most `LONGEST_WAIT`) for the first."""
        wait = min(wait, LONGEST_WAIT)
        return events(self.weft, "/v1/site", {"after": after, "wait": f"{wait:g}"}, wait)

    def destroy(self) -> Json:
        """Remove everything that was applied, in the background; ends with a signed receipt."""
        return self.weft.ask("POST", "/v1/site/destroy")

    def abandon(self, reason: str) -> Json:
        """End a removal that can't finish; its receipt is clean only if it did finish after all."""
        return self.weft.ask("POST", "/v1/site/abandon", {"reason": reason})

    def receipt(self) -> Json:
        """The signed receipt of what was last destroyed."""
        return self.weft.ask("GET", "/v1/site/receipt")

    def health(self, by: str = "type") -> Json:
        """How many nodes are ok, have a warning, failed, or are unknown.

        Args:
            by: type, rack, project, use or cloud: groups of which each node is in one.
        """
        return self.weft.ask("GET", with_query("/v1/site/health", by=by))

    def impact(self, target: str, limit: int | None = None, place: bool = True) -> Json:
        """What an outage of a node, switch, link or rack would touch."""
        query = {"target": target, **({} if limit is None else {"limit": limit}), "place": str(place).lower()}
        return self.weft.ask("GET", f"/v1/site/impact?{urlencode(query)}", extra_time=60)

    def certificates(self) -> list[Json]:
        """Certificates of the site's agents, and weft's own for them, as they were seen last."""
        return listed(self.weft.ask, "/v1/site/certificates", "certificates")
