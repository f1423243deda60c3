"""The part of the audit that checks who else may act on bare-metal machines, held by a pod or not."""

from __future__ import annotations

from weft.engine.audit.findings import Findings
from weft.engine.base.world import World
from weft.model.errors import WeftError
from weft.model.site import Site

_OPERATORS = "nothing: an operator corrects it in Ironic, or in the site"


def audit_machines(world: World, site: Site, findings: Findings) -> None:
    """Report projects that own or lease a machine in Ironic: they may switch it off, boot it and read its console."""
    for cloud, facts in sorted(world.clouds.items()):
        names = {n.machine: n.name for n in site.nodes if n.cloud == cloud and n.machine}
        if not names:
            continue
        try:
            seen = facts.seen_machines()
        except WeftError as error:
            findings.add("unknown", "machine", cloud, cloud, str(error))
            continue
        findings.checked[f"machines of {cloud}"] = len(seen)
        for machine, one in sorted(seen.items()):
            if one.others and machine in names:
                findings.add(
                    "different", "machine", cloud, names[machine], one.others, id=machine, repair=_OPERATORS
                )
