"""Instances of Ironic's nodes: which server a node has, and requests for it, made right after reading that.

Sources: Ironic's api-ref (nodes, VIFs, provision states).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from weft.drivers.openstack.base import Fence
from weft.drivers.openstack.nodes import (
    GONE,
    ON_ITS_WAY,
    read_node,
)
from weft.drivers.openstack.service import Json
from weft.drivers.openstack.session import Project
from weft.model.errors import NotYetError, TemporaryError, UnknownError
from weft.model.messages import outside


def instance_of(node: Json) -> str | None:
    """A node's `instance_uuid`; None if it has none, or Ironic doesn't have the node. Raises `UnknownError` if Ironic
    doesn't say."""
    if node["provision_state"] == GONE:
        return None
    if "instance_uuid" not in node:
        said = f"an answer without instance_uuid ({', '.join(sorted(node))})"
        raise UnknownError(f"read what is on machine {node['uuid']}", "Ironic", said[:300])
    return node["instance_uuid"] or None


def still_has(own: Project, asked: str, server: str, fence: Fence, state: str | None = None) -> Json:
    """The machine of a server, read right before a change, since Ironic's requests name only the machine.

    Args:
        state: state that it must be in. Raises `NotYetError` if it is in another state by now;
        `TemporaryError` if it has another instance by now, or none.
    """
    instance, _, machine = server.partition("@")
    node = read_node(own, machine)
    if instance_of(node) != instance:
        raise TemporaryError(asked, "Ironic", f"its machine {machine} has another instance by now, or none")
    if state is not None and node["provision_state"] != state:
        raise NotYetError(asked, "Ironic", f"its machine is {node['provision_state']} by now")
    fence()
    return node


def server_id(node: Json) -> str:
    """Id of the server that is a machine's instance."""
    return f"{node['instance_uuid']}@{node['uuid']}"


def info_of(node: Json) -> Json:
    """A node's `instance_info`."""
    info: object = node.get("instance_info")
    return cast(Json, info) if isinstance(info, dict) else {}


def attached(own: Project, machine: str) -> frozenset[str]:
    """Ids of the Neutron ports that are attached to a machine."""
    asked, path = f"list the ports attached to machine {machine}", f"/v1/nodes/{machine}/vifs"
    rows = own.baremetal.rows(asked, own.baremetal.ask(asked, "GET", path), "vifs")
    return frozenset(str(row["id"]) for row in rows)


def detach(own: Project, asked: str, machine: str, vif: str) -> None:
    """Detach a Neutron port; no error if it isn't attached. Raises the error of `refused` otherwise."""
    answer = own.baremetal.ask(asked, "DELETE", f"/v1/nodes/{machine}/vifs/{vif}", ok=(400, 404, 409))
    if not answer.fine and vif in attached(own, machine):
        raise refused(own, asked, machine, f"port {vif} can't be detached: {answer.sentence()}")


def provision(own: Project, asked: str, machine: str, body: Json) -> None:
    """Request a provision state. A refusal may mean that it was requested already: an answer was lost, or Ironic is
    working on it."""
    path = f"/v1/nodes/{machine}/states/provision"
    answer = own.baremetal.ask(asked, "PUT", path, json=body, ok=(400, 409))
    if not answer.fine:
        raise refused(own, asked, machine, answer.sentence())


def refused(own: Project, asked: str, machine: str, why: str) -> TemporaryError:
    """The error of a refusal; `NotYetError` if Ironic is working on the node, which it locks briefly, e.g. to
    read its power state."""
    node = read_node(own, machine)
    # The lock may be gone by the time the node is read.
    if node["provision_state"] in ON_ITS_WAY or node.get("reservation") or "is locked" in why:
        said = f"its machine is {node['provision_state']}, and Ironic works on it"
        return NotYetError(asked, "Ironic", said)
    return TemporaryError(asked, "Ironic", why[:500], alarming=True)


def patch_node(own: Project, asked: str, machine: str, changes: Sequence[Mapping[str, object]]) -> Json:
    """Change fields of a node; 409 means that a conductor is working on it, or that another instance is on it
    by now."""
    answer = own.baremetal.ask(asked, "PATCH", f"/v1/nodes/{machine}", json=changes, ok=(409,))
    if not answer.fine:
        raise refused(own, asked, machine, answer.sentence())
    if answer.body.get("uuid") != machine or not answer.body.get("provision_state"):
        raise TemporaryError(
            asked, "Ironic", outside.ODD_ANSWER(what="an answer without this node", answer=answer.sentence())
        )
    return dict(answer.body)
