"""The verb that finds things by what people have in hand: a name, an id, an address, a number of a segment."""

from __future__ import annotations

from weft.app.desk import DeskVerbs
from weft.app.verbs import Request
from weft.engine.store.searching import search_owners
from weft.model.errors import InputError
from weft.model.pod import PodState
from weft.model.views import SearchHit, SearchResult
from weft.planning.fabric.search import search_site

MOST_HITS = 50
LONGEST_SEARCH = 255


class SearchVerbs(DeskVerbs):
    """See `weft.app.verbs`."""

    def search(self, request: Request, text: str) -> SearchResult:
        """What has exactly this value. Tenants find their project's pods and networks; callers that may list nodes and
        all projects' pods find everything. Raises `InputError` for an empty or too long text.
        """
        text = text.strip()
        if not 1 <= len(text) <= LONGEST_SEARCH or not text.isprintable():
            raise InputError("text", text[:64], f"1 to {LONGEST_SEARCH} printable characters")
        caller = request.caller
        everywhere = self._desk.policy.is_operator(caller) and all(
            self._desk.policy.allows(rule, caller) for rule in ("pods:list_all_projects", "nodes:list")
        )
        project = None if everywhere else self._desk.project(request, "pods:list")
        hits = [
            SearchHit(
                kind=one.kind,
                name=one.name,
                what=one.what,
                id=str(one.id),
                project_id=one.project_id,
                state=PodState(one.state),
            )
            for one in search_owners(self._desk.store.database, text, project, MOST_HITS + 1)
        ]
        if everywhere:
            found = search_site(self._desk.store.site().site, text, MOST_HITS + 1)
            hits += [
                SearchHit(kind=one.kind, name=one.name, what=one.what, unit=one.unit or None) for one in found
            ]
        return SearchResult(text=text, hits=tuple(hits[:MOST_HITS]), more=len(hits) > MOST_HITS)
