"""Networks that tenants created in Neutron, with the state of each port."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from weft.api.asking import Backend, Named, may
from weft.api.bodies import SmallBody, answer, body_schema, document
from weft.api.documents import AbandonRequest, EventList, NetworkList
from weft.app.verbs import Request
from weft.model.receipt import SignedReceipt
from weft.model.views import NetworkSearch, NetworkView

router = APIRouter(prefix="/v1/networks", tags=["networks"])


@router.get("", response_model=NetworkList)
def list_networks(
    request: Annotated[Request, may("networks:list")],
    verbs: Backend,
    search: Annotated[NetworkSearch, Query()],
) -> Response:
    """List tenants' networks that have a partition, by id, in pages."""
    found = tuple(verbs.networks.list(request, search))
    return answer(NetworkList(networks=found, next=found[-1].id if len(found) == search.limit else None))


@router.get("/{name}", response_model=NetworkView)
def show_network(request: Annotated[Request, may("networks:list")], verbs: Backend, name: Named) -> Response:
    """One network, by id or name in Neutron, with its ports: in the partition, or why not."""
    return answer(verbs.networks.show(request, name))


@router.get("/{name}/events", response_model=EventList)
def network_events(
    request: Annotated[Request, may("networks:list")],
    verbs: Backend,
    name: Named,
    after: Annotated[int, Query(ge=0, description="Only events with a higher sequence number.")] = 0,
) -> Response:
    """What happened to a network, including when each port was first and last seen in its partition."""
    return answer(EventList.of(verbs.networks.events(request, name, after)))


@router.post(
    "/{name}/abandon", response_model=NetworkView, status_code=202, openapi_extra=body_schema(AbandonRequest)
)
def abandon_network(
    request: Annotated[Request, may("networks:abandon")], verbs: Backend, name: Named, body: SmallBody
) -> Response:
    """End a network's release that can't finish: the receipt says so and is never clean. For operators."""
    return answer(verbs.networks.abandon(request, name, document(AbandonRequest, body).reason), 202)


@router.get("/{name}/receipt", response_model=SignedReceipt)
def network_receipt(
    request: Annotated[Request, may("networks:receipt")], verbs: Backend, name: Named
) -> Response:
    """The signed receipt of the last release of a network, by its id or name in Neutron. For operators."""
    return answer(verbs.networks.receipt(request, name))
