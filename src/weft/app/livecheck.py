"""`weft site check`: checks that need access to the site: certificates, settings of managers, ports of switches, and
the roles of weft's user."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from functools import partial

from weft.app.drivers import FABRIC_DRIVERS, FabricDrivers, open_fabrics, open_probers
from weft.drivers.wire.agents import certificate_problems
from weft.model.errors import WeftError
from weft.model.fabric import FabricStatus
from weft.model.livecheck import LiveCheck
from weft.model.site import Site
from weft.planning.site.aggregates import compare_aggregates, virtual_hosts
from weft.ports.fabric import FabricDriver
from weft.ports.ledger import NoLedger
from weft.ports.prober import Prober

log = logging.getLogger(__name__)

UNCHECKED = "it can't be checked: "
"""Beginning of a problem that is only that something couldn't be looked at."""


def certificate_notes(site: Site) -> tuple[str, ...]:
    """Problems with the certificates that the site names, as far as they are on this host."""
    now = datetime.now(UTC)
    named = [files for f in site.fabrics.values() for files in (f.manager, f.traffic) if files is not None]
    found = [p for files in named for p in certificate_problems(files, now, must_be_there=False)]
    return tuple(dict.fromkeys(found))


def policy_notes(site: Site) -> tuple[str, ...]:
    """Policies of Neutron that isolation depends on and that can't be read: no API shows them."""
    those = {name: f for name, f in site.fabrics.items() if f.type.row.function_ports}
    said = (
        "whether Neutron lets members choose ports' MAC addresses, and so the ids of functions' ports, can't be "
        "read: it must have weft's create_port:mac_address and update_port:mac_address (docs/operating-roles.md)"
    )
    return tuple(
        f"{name}: {said}"
        for name, fabric in sorted(those.items())
        if fabric.tenant_networks or any(h.vfs for n in site.nodes for h in n.hcas_on(name))
    )


def check_live(site: Site, drivers: FabricDrivers = FABRIC_DRIVERS) -> LiveCheck:
    """Ask every manager of every fabric for its settings and its state; changes nothing."""
    found = LiveCheck(notes=policy_notes(site))
    with ExitStack() as stack:
        opened = open_fabrics(site, lambda _: NoLedger(), drivers)
        for driver in opened.values():
            stack.enter_context(closing(driver))
        probers = open_probers(site, lambda _: NoLedger(), drivers=drivers)
        for prober in probers.values():
            stack.enter_context(closing(prober))
        for name, driver in sorted(opened.items()):
            found += _checked(partial(_of_manager, driver)).of(name)
        for name, prober in sorted(probers.items()):
            found += _checked(partial(_of_probers, prober)).of(name)
    return found


def unread_notes(site: Site) -> tuple[str, ...]:
    """What a live check without a profile of the service user leaves out."""
    those = [
        c
        for c, one in sorted(site.clouds.items())
        if one.hosts_kept_free == "aggregate" and virtual_hosts(site, c)
    ]
    left = f"host aggregates of cloud {', '.join(those)} and the roles" if those else "the roles"
    return (f"{left} of weft's user aren't read without --cloud-profile",) if site.clouds else ()


def check_aggregates(site: Site, profile: str | None) -> LiveCheck:
    """Whether each cloud's host aggregates keep other flavors off pods' hosts; changes nothing.

    Args:
        profile: in clouds.yaml, of the service user; None, or with several clouds: each one's own counts.
    """
    from weft.app.wiring import profile_of  # openstacksdk takes a second
    from weft.drivers.openstack import Sessions
    from weft.drivers.openstack.aggregates import read_aggregates

    def of_cloud(cloud: str) -> LiveCheck:
        with closing(Sessions(profile_of(site, cloud, profile))) as sessions:
            return compare_aggregates(site, cloud, read_aggregates(sessions))

    found = LiveCheck()
    for cloud, one in sorted(site.clouds.items()):
        if one.hosts_kept_free == "aggregate" and virtual_hosts(site, cloud):
            found += _checked(partial(of_cloud, cloud)).of(f"cloud {cloud}")
    return found


def check_accounts(site: Site, profile: str) -> LiveCheck:
    """Whether weft's user has its roles in each of the site's clouds. Args: as `check_aggregates`."""
    from weft.app.wiring import profile_of  # openstacksdk takes a second
    from weft.drivers.openstack import Sessions
    from weft.drivers.openstack.account import account_problems

    def of_cloud(cloud: str) -> LiveCheck:
        with closing(Sessions(profile_of(site, cloud, profile))) as sessions:
            return LiveCheck(problems=account_problems(sessions))

    found = LiveCheck()
    for cloud in sorted(site.clouds):
        found += _checked(partial(of_cloud, cloud)).of(f"cloud {cloud}")
    return found


def _checked(ask: Callable[[], LiveCheck]) -> LiveCheck:
    """The check's result; an error is a problem, and the other checks continue."""
    try:
        return ask()
    except WeftError as error:
        return LiveCheck(problems=(f"{UNCHECKED}{error}",))
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        log.exception("an answer can't be read")
        said = f"{UNCHECKED}an answer can't be read ({type(error).__name__}: {error}); see the log"
        return LiveCheck(problems=(said,))


def _of_manager(driver: FabricDriver) -> LiveCheck:
    return LiveCheck(problems=_troubles(driver.status())) + driver.live_check()


def _of_probers(prober: Prober) -> LiveCheck:
    return LiveCheck(problems=prober.troubles())


def _troubles(status: FabricStatus) -> tuple[str, ...]:
    return (*status.problems, *(f"{m.name}: {p}" for m in status.managers for p in m.problems))
