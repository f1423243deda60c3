"""A server's own location as a file in it, which cloud-init writes when the server is created.

It is about this server alone: user data is fixed from then on, and a file about the whole pod would be wrong after the
pod's next change.
Its lines are those of systemd's EnvironmentFile and of a shell: no value has a character that either would change.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from weft.model.errors import InputError
from weft.model.fabrictypes import FabricKind
from weft.model.ids import FULL_MEMBER
from weft.model.messages.orders import instead
from weft.model.order import Order
from weft.model.site import Site
from weft.planning.fabric.podtopology import LocatedServer, PodServer, locate, node_labels
from weft.planning.shapes.graph import Member, name_of
from weft.planning.shapes.userdata import CLOUD_CONFIG, NOVA_LIMIT, archive, sent_size

PATH = "/etc/weft/locality.env"


def locality_files(
    order: Order, inside: Sequence[Member], site: Site, fabric: str, segment: int | None
) -> Mapping[str, str]:
    """Name of each member -> its file's text; empty if the order doesn't ask for any.

    Args:
        fabric: the pod's; one that the site doesn't have: it has no RDMA network.
        segment: its number there; None: it has none.
    """
    if not order.locality.file:
        return {}
    on = fabric if order.fabric.rdma else ""
    servers = [PodServer(name_of(order, m), m.index, m.node.name, "") for m in inside]
    located = {s.number: s for s in locate(site, on, servers)[0]}
    kind = site.fabrics[on].type if on in site.fabrics else None
    return {m.name: "".join(_lines(order, located[m.index], on, kind, segment)) for m in inside}


def _lines(
    order: Order, server: LocatedServer, fabric: str, kind: FabricKind | None, segment: int | None
) -> Iterator[str]:
    yield "# Where this server was when it was created, by weft. `weft pod topology` has the whole pod.\n"
    values = {"POD": order.name, "SERVER": server.name, "NUMBER": str(server.number)}
    if kind is not None:
        values |= {"FABRIC": fabric, "FABRIC_TYPE": str(kind)}
    if server.path:
        labels = ",".join(f"{name}={value}" for name, value in node_labels(server).items())
        values |= {"SWITCHES": ",".join(server.path), "NODE_LABELS": labels}
    if server.nvlink_domain:
        values["NVLINK_DOMAIN"] = server.nvlink_domain
    if kind is FabricKind.INFINIBAND and segment is not None:
        values["PKEY"] = f"0x{segment | FULL_MEMBER:04x}"
    yield from (f"WEFT_{name}={value}\n" for name, value in values.items())
    if "PKEY" in values:
        yield "# left out: the index of the P_Key in the ports' tables, which weft has not read.\n"


def with_file(own: str | None, text: str | None) -> str | None:
    """User data that also writes this file; None: none. Raises `InputError` if both together exceed Nova's limit."""
    if text is None:
        return own
    file = {"path": PATH, "owner": "root:root", "permissions": "0644", "content": text}
    # JSON is YAML, without any quoting rules to guess.
    ours = "#cloud-config\n" + json.dumps({"write_files": [file]}, indent=1) + "\n"
    if own is None:
        return ours
    both = archive(own, ours, CLOUD_CONFIG)
    if sent_size(both) > NOVA_LIMIT:
        size = len(own.encode())
        allowed = instead(
            "at most {most} bytes besides what writes the location; it has {encode}",
            most=NOVA_LIMIT - sent_size(both) + size,
            encode=size,
        )
        raise InputError("access.user_data", "…", allowed)
    return both
