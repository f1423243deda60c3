"""Which nodes the site holds for acceptance because of what they are now: new ones, other machines, other firmware; and
which tests no longer say anything."""

from __future__ import annotations

from collections.abc import Collection

from weft.engine.base.database import Tx
from weft.engine.rows.holds import BY_WEFT
from weft.model.hostchecks import CheckDocument, CheckedHost, KnownMachine, is_other_machine, new_firmware
from weft.model.messages import maintenance
from weft.model.messages.message import Code
from weft.model.nodetests import tests_of
from weft.model.site import Node, Site


def follow_site(tx: Tx, before: Site | None, site: Site) -> None:
    """Hold the nodes that a new site wants held; in the transaction that activates it. Args: before: the last site."""
    known = before.node_by_name if before is not None else {}
    changed = [n for n in site.nodes if n.name in known and known[n.name] is not n]
    other = {n.name for n in changed if is_other_machine(_host(known[n.name]), _host(n))}
    _forget(tx, other)
    new = [n.name for n in site.nodes if n.role == "compute" and (n.name not in known or n.name in other)]
    _hold(tx, site, "new", new, maintenance.HELD_NEW)
    _end_tested(tx, site)


def follow_report(tx: Tx, site: Site, node: str, before: KnownMachine, after: CheckDocument) -> None:
    """Hold a node, and forget its tests, if it reports another machine or new firmware; in the transaction that stores
    the report, before its tests are judged."""
    if is_other_machine(before.host, after.host):
        _forget(tx, [node])
        _hold(tx, site, "new", [node], maintenance.HELD_NEW)
    elif new_firmware(before, after):
        if "firmware" in site.acceptance.after:
            _forget(tx, [node])
        _hold(tx, site, "firmware", [node], maintenance.HELD_AFTER_FIRMWARE)


def _host(node: Node) -> CheckedHost:
    return CheckedHost(serial=node.serial, product_uuid=node.product_uuid)


def _forget(tx: Tx, nodes: Collection[str]) -> None:
    """Forget the results of all tests of these nodes, which are another machine's."""
    if nodes:
        tx.run("forget_tests_of_nodes", nodes=sorted(nodes), at=tx.now())


def _hold(tx: Tx, site: Site, why: str, nodes: Collection[str], code: Code) -> None:
    policy = site.acceptance
    if nodes and why in policy.after:
        tx.run("hold_for_site", nodes=sorted(nodes), what=policy.what, code=code.name)


def _end_tested(tx: Tx, site: Site) -> None:
    """End the site's holds whose tests have all passed, since the site may name fewer tests now."""
    policy = site.acceptance
    if tx.row("is_behind") is not None:
        return  # tests in a backup don't count
    for row in tx.rows("holds_for", what=policy.what) if policy.tests else ():
        if all(one.status == "passed" for one in tests_of(policy.tests, row["tests"])):
            values = {"node": row["node"], "what": row["what"], "tests": list(policy.tests)}
            tx.run("accept_tested_node", at=tx.now(), by=BY_WEFT, **values)
