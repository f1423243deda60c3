"""Wires the components together: with `weft.app.drivers` the only place that selects drivers."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from weft.app.capacitykeeper import CapacityKeeper
from weft.app.certificatekeeper import CertificateKeeper
from weft.app.desk import Desk
from weft.app.drivers import open_fabrics, open_machines, open_probers
from weft.app.policy import Policy
from weft.app.repairs import NodeRepairs, Replacer
from weft.app.service import Service
from weft.app.settings import ServeSettings
from weft.app.sitefile import load_site
from weft.app.webhookkeeper import WebhookKeeper
from weft.app.worldkeeper import WorldKeeper
from weft.drivers.openstack import (
    KeystoneIdentity,
    KeystoneSignIn,
    OpenStackDriver,
    OpenStackFacts,
    Sessions,
)
from weft.drivers.openstack.cleaning import Demands
from weft.drivers.receivers import HttpsReceivers
from weft.ending import EndSignal
from weft.engine.audit.sweep import Sweeper, SweepSettings
from weft.engine.base.clock import DatabaseClock
from weft.engine.base.database import Database
from weft.engine.base.gate import Gate, GateKeeper
from weft.engine.base.listener import Listener
from weft.engine.base.pulse import Pulse
from weft.engine.base.sealing import read_keys
from weft.engine.base.tuning import keep_survivors
from weft.engine.base.world import World
from weft.engine.hold.settings import LoopSettings
from weft.engine.nodes.adapterwatch import AdapterWatch
from weft.engine.nodes.cleanings import CleaningsOf
from weft.engine.nodes.hostwatch import HostWatch
from weft.engine.nodes.machinekeeper import MachineKeeper
from weft.engine.queue.dispatcher import Dispatcher
from weft.engine.rows.ledger import FabricLedger
from weft.engine.site.siteowner import applied_site
from weft.engine.site.tenantkeeper import TenantKeeper, hint_networks_changed, tenant_network
from weft.engine.store.podkeys import DerivedKeys
from weft.engine.store.signing import Signer
from weft.engine.store.store import Store
from weft.engine.visit.reconciler import Reconciler
from weft.engine.visit.resourcerules import ResourceRules
from weft.engine.watch.bootkeeper import BootKeeper
from weft.engine.watch.fabrickeeper import FabricKeeper
from weft.engine.watch.retention import Retention
from weft.engine.watch.versionkeeper import VersionKeeper
from weft.engine.watch.worker import Worker
from weft.model.errors import ConflictError, NotFoundError
from weft.model.fabrictypes import FabricType
from weft.model.logtext import formatter
from weft.model.site import Site
from weft.planning.site.networks import closed_networks
from weft.ports.cleanings import Cleanings
from weft.ports.ledger import SegmentLedger
from weft.ports.podkeys import PodKeys

log = logging.getLogger("weft")


def build_world(
    site: Site,
    profile: str | None,
    keys: PodKeys,
    ledger: Callable[[str, FabricType], SegmentLedger],
    in_use: Callable[[], Collection[str]],
    cleanings: Callable[[str], Cleanings],
) -> World:
    """Drivers of everything in the site. Opens no connection.

    Args:
        ledger: returns a fabric's ledger; in_use: nodes that pods hold; cleanings: those watched in a cloud.
    """
    sessions = {
        name: Sessions(profile_of(site, name, profile), cleaning=Demands.of(cloud), cleanings=cleanings(name))
        for name, cloud in site.clouds.items()
    }

    def records(name: str) -> SegmentLedger:
        return ledger(name, site.fabrics[name].words)

    fabrics = open_fabrics(site, records)
    bare = {name: machines_of(site, name) for name in site.clouds}
    clouds = {
        name: OpenStackDriver(
            name,
            own,
            keys,
            machines=bool(bare[name]),
            storage=site.clouds[name].storage,
            closed=closed_networks(site, name),
            aggregates=site.clouds[name].hosts_kept_free == "aggregate",
        )
        for name, own in sessions.items()
    }
    machines = open_machines(site, keys)
    return World(
        resources={**clouds, **fabrics, **machines},
        fabrics=fabrics,
        clouds={
            name: OpenStackFacts(
                own,
                site.clouds[name].external_network,
                bare[name],
                site.name,
                site.clouds[name].machines_by == "ironic",
            )
            for name, own in sessions.items()
        },
        machines=machines,
        probers=open_probers(site, records, in_use),
    )


def machines_of(site: Site, cloud: str) -> frozenset[str]:
    """Ids of a cloud's bare-metal machines."""
    return frozenset(n.machine for n in site.nodes if n.machine is not None and n.cloud == cloud)


def profile_of(site: Site, cloud: str, given: str | None) -> str:
    """Name in clouds.yaml of the service user in a cloud of the site.

    Args:
        given: by `--cloud-profile`; used if the site has one cloud. With several, one profile can't be for all of them.
    """
    only = given if len(site.clouds) == 1 else None
    return only or site.clouds[cloud].profile or cloud


def keystone(settings: ServeSettings) -> tuple[KeystoneIdentity, KeystoneSignIn]:
    """Keystone, with the service user's profile: for tokens of the API's clients, and for signing in to the console."""
    sessions = Sessions(settings.cloud_profile or os.environ.get("OS_CLOUD", "weft"))
    return KeystoneIdentity(sessions), KeystoneSignIn(sessions)


@dataclass(frozen=True, slots=True)
class SharedServices:
    """What a server and a worker share."""

    store: Store
    keeper: WorldKeeper
    listener: Listener
    clock: DatabaseClock
    pulse: Pulse
    settings: ServeSettings

    def worker(self) -> Worker:
        """A worker with its own reconciler and dispatcher; it isn't started yet."""
        loop = LoopSettings(pods_at_once=self.settings.workers)
        database = self.store.database
        wants: ResourceRules = {"network": tenant_network(database), "site": applied_site(database)}
        reconciler = Reconciler(
            self.keeper.world, self.keeper.site, Signer(self.store), self.clock, loop, wants
        )
        dispatcher = Dispatcher(self.store, self.keeper.world)
        return Worker(self.store.database, self.listener, reconciler, loop, dispatcher, pulse=self.pulse)

    def announce_tenant_networks(self) -> None:
        """Hint that a cloud's networks changed. Raises `TemporaryError` if the database can't be reached."""
        hint_networks_changed(self.store.database)

    def service(self, policy: Policy, worker: Callable[[], Mapping[str, str]] | None = None) -> Service:
        """The verbs. `worker`: state of the worker process, for /readyz."""
        desk = Desk(self.store, self.keeper, policy, self.clock, self.listener, self.pulse)
        return Service(desk, worker)


@contextmanager
def shared_services(settings: ServeSettings) -> Generator[SharedServices]:
    """Database, store and drivers; everything is closed at the end."""
    pulse = Pulse()
    if settings.database is None:
        from weft.engine.base.embedded import (
            embedded,  # those with a server of their own don't need the wheel
        )

        with embedded(settings.state, pulse) as url:
            yield from _parts(settings, url, pulse)
    else:
        yield from _parts(settings, settings.database, pulse)


def _parts(settings: ServeSettings, url: str, pulse: Pulse) -> Generator[SharedServices]:
    seal = read_keys(settings.secrets_key)
    database = Database(url)
    listener = Listener(url, pulse)
    try:
        store = Store(database, seal)
        if (plain := store.secrets.check()) and seal.seals:
            log.warning("%d secrets of the database aren't encrypted yet: weft secrets rotate", plain)
        keys = DerivedKeys(store)
        keeper = WorldKeeper(
            store,
            lambda site: build_world(
                site,
                settings.cloud_profile,
                keys,
                partial(FabricLedger, database),
                store.nodes_in_use,
                partial(CleaningsOf, database),
            ),
        )
        first_site(settings.site, store)
        gate = GateKeeper(Gate(database, lambda: (keeper.site().name, keeper.world().clouds)), pulse)
        gate.start()
        versions = VersionKeeper(database, "worker" if settings.worker else "server", pulse)
        versions.start()
        fabrics = FabricKeeper(database, keeper.world, pulse)
        clock, sweeps = DatabaseClock(database), SweepSettings(every=settings.sweep_every)
        sweeper = Sweeper(store, keeper.world, keeper.site, clock, sweeps, pulse)
        retention = Retention(database, keeper.site, pulse=pulse)
        tenants = TenantKeeper(database, keeper.world, keeper.site, pulse)
        machines = MachineKeeper(database, keeper.world, keeper.site, pulse)
        boots = BootKeeper(database, keeper.world, pulse)
        hosts = HostWatch(database, keeper.world, keeper.site, pulse)
        adapters = AdapterWatch(database, keeper.world, keeper.site, pulse)
        repairs = NodeRepairs(
            Replacer(Desk(store, keeper, Policy(), clock, listener, pulse)), database, pulse
        )
        hooks = WebhookKeeper(store, keeper.site, HttpsReceivers(), pulse)
        renewals = CertificateKeeper(store, keeper.site, settings.authority_key, pulse)
        outside = (tenants, machines, boots, hosts, adapters, repairs, fabrics, renewals)
        noted = CapacityKeeper(store, keeper.site, pulse)
        keepers = (*outside, sweeper, retention, hooks, noted)
        if settings.worker:
            listener.add_follower(tenants)
            for one in keepers:
                one.start()
        try:
            yield SharedServices(store, keeper, listener, clock, pulse, settings)
        finally:
            for one in reversed(keepers) if settings.worker else ():
                one.stop()
            gate.stop()
            versions.stop()
            keeper.close()
    finally:
        listener.close()
        database.close()


def first_site(path: Path | None, store: Store) -> None:
    """Activate the file of `--site`, if the database has no site yet.

    Of several processes that start at once with it, one activates it, and the others use that generation.
    """
    if path is None:
        return
    try:
        store.site()
    except NotFoundError:
        site = load_site(path)
        try:
            record = store.activate_site(site, "weft serve --site", base=0)
        except ConflictError:
            log.info("another process has activated a site meanwhile: --site %s isn't used", path)
            return
        log.info("activated site %s: %d nodes", record.site.name, len(record.site.nodes))


def worker(settings: ServeSettings) -> int:
    """Run workers without the API, until SIGTERM or SIGINT. Returns the exit code."""
    ended = EndSignal()
    start_log(settings)
    keep_survivors()
    with shared_services(settings) as made:
        runner = made.worker()
        runner.start()
        log.info("worker %s: %d pods at once", runner.name, settings.workers)
        ended.wait()
        runner.stop()
    return 0


_LOG_SECRETS = (
    "keystoneauth",
    "openstack",
    "urllib3",
    "httpx",
    "httpcore",
    "requests",
    "oslo_policy",
    "psycopg",
    "sushy",
)
"""Libraries' loggers that write down what is sent: user data with keys, and passwords that Nova and Ironic give."""


LINES = "%(asctime)s %(levelname)s %(name)s: %(message)s"
"""Default format of lines of text."""


def start_log(settings: ServeSettings, lines: str = LINES) -> None:
    """Set up logging. `log_level` applies to weft's own messages; of libraries only warnings are logged.

    Args:
        lines: of the format `text`.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(formatter(settings.log_format, lines))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    for name in ("weft", "uvicorn"):
        logging.getLogger(name).setLevel(settings.log_level)
    for name in _LOG_SECRETS:
        logging.getLogger(name).setLevel(logging.WARNING)
