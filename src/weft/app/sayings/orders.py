"""What tenants see of refused orders and requests: refusals, conflicts, allowed values."""

from __future__ import annotations

import re

from weft.app.sayings.forms import OPERATORS, forms, told
from weft.model.order import KEY_PAIR_NAMES
from weft.planning.shapes.orderdiff import WHYS
from weft.planning.shapes.resolve import SHAPES

_SPARE = ("", " ({n} of them spare)")


def overdue(then: str) -> tuple[str, ...]:
    """Forms of what a project reads whose releases don't end."""
    lists = ("{pod}", "{pod}, {pod}", "{pod}, {pod}, {pod}", "{pod}, {pod}, {pod} and {n} more")
    return tuple(
        f"{{n}} of at most {{n}} releases of the project don't end ({names}): {then}; "
        "where it names nothing, operators see the reason"
        for names in lists
    )


REFUSALS = forms(
    *(
        f"{{n}} node{s}{spare} {verb} requested, but {{n}} {those} available…"
        for s, verb in (("", "is"), ("s", "are"))
        for spare in _SPARE
        for those in ("is", "are")
    ),
    *(
        f"{{n}} nodes{spare} are requested in groups of {{n}} {where}, but only {{n}} of the {{n}} available nodes "
        f"form such groups (locality.slice is {{n}})."
        for spare in _SPARE
        for where in ("per leaf", "per NVLink domain", "that are whole NVLink domains")
    ),
    *(f"{{n}} nodes{spare} can't be on one node: locality.required is node." for spare in _SPARE),
    *(
        f"{{n}} server{s} with {{n}} {{node}} each are requested on shared nodes, and there is capacity for {{n}}…"
        for s in ("", "s")
    ),
    *(
        f"{{n}} server{s} with {{n}} {{node}} each fit, but at most {{n}} within one {{level}}…"
        for s in ("", "s")
    ),
    *(
        f"{{n}} node{s} {verb} available{group}, but at most {{n}} of the {{n}} within one {{level}}…"
        for s, verb in (("", "is"), ("s", "are"))
        for group in ("", " in groups of {n}")
    ),
    *(
        f"{{n}} node{s} {verb} available{group}, but no leaves whose uplinks have {{n}} Gb/s left…"
        for s, verb in (("", "is"), ("s", "are"))
        for group in ("", " in groups of {n}")
    ),
    *(
        f"the project has {{n}} of at most {{n}} nodes; {{n}} more are requested{spare}"
        for spare in ("", ", {n} of them spare")
    ),
    *(
        f"subnet {{cidr}} of the pod's {{field}} network has {{n}} addresses, and {{n}} are needed for {{n}} {one}; "
        "a subnet can't grow while servers are on it"
        for one in ("node", "nodes")
    ),
    "{place}: all its management VLANs are in use",
    "{place}: all management VLANs {n} to {n} are in use",
    "{place}: no free subnet of {n} addresses is left…",
    "{place}: no free subnet is left…",
    *(text for shape in SHAPES for text in shape.says.refusals),
)
_CONFLICTS = forms(
    "name: pod {pod} already exists; release it first or use another name",
    "pod {pod} has no end to extend",
    "pod {pod} is waiting for a lease of {span} from its start and has no end to extend: "
    "release it and order it with a longer duration",
    "pod {pod} is no longer waiting: try again",
    "pod {pod} is {state}: it can no longer be extended",
    "pod {pod} is being released: it can no longer be extended",
    "pod {pod} is {state}: only a FAILED pod can be retried",
    "the cloud refuses to {action} server {id} now: …",
    "the cloud refuses to open a console of server {id} now: …",
    "pod {pod} is {state}: only servers of a READY or DEGRADED pod can be operated",
    "pod {pod} is being released: only servers of a READY or DEGRADED pod can be operated",
    "pod {pod} has several servers on {node}: {list}",
    "pod {pod}: the server of {node} isn't there: …",
    "pod {pod} is being released: only a FAILED pod can be retried",
    "pod {pod} is {state}: there is no receipt: nothing was ever claimed",
    "pod {pod} is {state}: there is no receipt: not RELEASED yet",
    "pod {pod} has no nodes yet: …",
    "pod {pod} can't be extended to {time}: some of its nodes are booked by others…",
    "pod {pod} can't be extended to {time}: …",
    "several projects have a pod {pod}: give its id",
    "pod {pod} is being released: apply again afterwards, or use another name",
    "pod {pod} is being released: it can no longer be changed",
    "pod {pod} doesn't exist, so it has no generation {n}",
    "pod {pod} doesn't exist, so it can't be changed",
    "pod {pod} is {state}: order it again by name",
    "pod {pod} has started in the meantime: apply again",
    "pod {pod} was changed to generation {n} in the meantime: check it with `weft pod show`, and apply again",
    "node {node} of pod {pod} is no longer in site {node}",
    "its cloud no longer has the export {node} that pod {pod} mounts: it can be released, but not changed",
    *overdue("remove what `weft pod show` names for each, then order again"),
    "the project has {n} of at most {n} waiting orders: release one, or order again when one has started",
)
_TYPES = ("that the project may use", "of the cloud")
_ALLOWED = forms(
    *sorted(WHYS),
    "nodes of the pod: {nodes}",
    *(
        f"{{n}} {one}, since nodes.{field} goes from {{n}} to {{n}}"
        for field, names in (
            ("count", ("node", "nodes", "server", "servers")),
            ("spare", ("spare", "spares")),
        )
        for one in names
    ),
    *(
        f"whole slices of {{n}} nodes per leaf; {{n}} {one} would be left on {{node}}"
        for one in ("node", "nodes")
    ),
    "{level} or wider: its nodes are within one {level} and don't move",
    "{n}, or name the nodes to remove: no {n} of them satisfy the order",
    "must be omitted: the pod has no nodes yet",
    "must be omitted without all_projects",
    "true, since the order is waiting; to order without waiting, release it and order again",
    "{pod}: a pod's name can't be changed",
    "the name that the order is applied to",
    "a token for a project, since pods belong to projects",
    "a time in the future",
    "later than the lease's end, which is {time}",
    "types of accelerators of site {node}: {list}",
    "levels of site {node}: {list}",
    "other projects: pods of one project may always share a leaf",
    "flavors of cloud {node}: {list}",
    "no flavor of cloud {node} has them; its flavors have: {list}",
    "no node of cloud {node} that fits the order is on a fabric",
    "suitable nodes are on several fabrics: {list}",
    "fabrics of site {node}: {list}",
    "clouds of site {node}: {list}",
    "cloud {node} has no external network in the site",
    "the site names no external network for this cloud",
    "cloud {node} has no shares (Manila) in the site",
    "cloud {node} has no volumes (Cinder) in the site",
    "exports of cloud {node}: {list}",
    *(
        f"must be omitted with nodes.kind bare_metal: {why}"
        for why in (
            "only virtual machines can have volumes",
            "machines aren't on the storage network of cloud {node}",
        )
    ),
    "must be omitted: servers of this flavor have no local NVMe drives in the site",
    "at least {n} volumes, one for each node",
    *(f"{one} types {whose}: {{list}}" for one in ("share", "volume") for whose in _TYPES),
    *(
        f"the project has {n} of that name or id"
        for n in ("no share", "no volume", "several shares", "several volumes")
    ),
    "a share type without share servers (driver_handles_share_servers false)",
    "one that no pod has: it is deleted with its pod",
    "it is {field}, and must be available",
    "it is of protocol {node}, and must be NFS",
    "at most {n} bytes besides what mounts the storage; it has {n}",
    "the project can't see the site's external network …",
    "a unicast network; this one is {list}",
    'a unicast network; this one is "this network" (0.0.0.0/8)',
    "{n} nodes need {n} addresses: at least a /{n}",
    "must not overlap network.rdma {cidr}",
    "must be omitted: with fabric none the pod has no RDMA network",
    "shared, or fabric: none; dedicated adapters require dedicated nodes",
    "a flavor whose entry in the site matches Nova's: …",
    "a flavor with accelerators in the site; {node} has none",
    "a multiple of the slice ({n})",
    "the project has no active image of that name",
    "the project has no flavor of that name",
    "flavor {node} gives {list} (pci_passthrough:alias)",
    "the ordering user has no such key pair in this cloud",
    "the user has no such key pair",
    "a key pair of type ssh",
    "its public key must be of type ssh-ed25519, ssh-rsa or ecdsa-sha2-nistp*",
    KEY_PAIR_NAMES,
    "an end, {time} at the latest: leases may end at most {span} from now",
    "at most a /{n}",
    "0 or omitted: the site has no cables from fabric {node}'s leaves to other switches",
    "it needs {n} MiB of RAM (min_ram), and flavor {node} has {n}",
    "it needs {n} GiB of disk (min_disk), and flavor {node} has {n}",
    "it has {n} MiB, and flavor {node} has {n} GiB of disk",
    *(text for shape in SHAPES for text in shape.says.allowed),
)
_ABSENT = forms(
    "there is nothing of that name",
    "there is no pod {pod} in this project",
    "pod {pod} has no server on a node '{node}', and none of that name; its servers are on {nodes}",
    "no site has been described yet: an operator runs `weft site activate FILE` first",
)


def refusal(text: str) -> str:
    """Why an order is refused."""
    if more := re.match(r"\d{1,9} additional (?:node|server)s? for the \d{1,9} of the pod: ", text):
        return more.group() + refusal(text[more.end() :])
    return told(REFUSALS, text) or quotas(text) or f"the order can't be served ({OPERATORS})"


def conflict(text: str) -> str:
    """Why something isn't possible in the current state."""
    return told(_CONFLICTS, text) or f"not possible in the current state ({OPERATORS})"


def allowed(text: str) -> str:
    """What is allowed instead of a refused value."""
    return told(_ALLOWED, text) or f"another value ({OPERATORS})"


def absent(text: str) -> str:
    """What doesn't exist."""
    return told(_ABSENT, text) or "not found"


def quotas(text: str) -> str | None:
    row = r"[A-Za-z() ]{1,40}: \d+ used \+ \d+ (?:requested|wanted) > \d+"
    return text if re.fullmatch(rf"the project's quotas would be exceeded: {row}(?:; {row})*", text) else None
