"""Whether the tenant can log in to the servers of an order. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from weft.model.order import Order


def access_notes(order: Order) -> tuple[str, ...]:
    """What keeps the tenant from logging in, one sentence each; none: there are a key and a reachable address."""
    return tuple(_notes(order))


def _notes(order: Order) -> Iterator[str]:
    access = order.access
    if access.key_pair is None and access.ssh_key is None:
        unless = ", unless user_data or the image lets you in" if access.user_data else ""
        yield f"no SSH key (access.key_pair or access.ssh_key): you can't log in{unless}"
    if access.floating_ip == "none":
        where = "from inside, and by what its router leads to" if order.network.router else "from inside"
        yield f"no floating IP (access.floating_ip): its servers are reachable only {where}"
    elif not access.ssh_from:
        yield "no access.ssh_from: SSH is let in only from the pod's own servers, whatever their addresses"
