"""A running controller: everything wired together, started and stopped as one."""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from openvipu.controller.core import Core, Tuning
from openvipu.controller.discovery import Discovery
from openvipu.controller.fleet import Fleet
from openvipu.controller.inventory import Inventory
from openvipu.controller.jobs import Jobs
from openvipu.controller.metrics import CallCounter, start_metrics
from openvipu.controller.partitions import Partitions
from openvipu.controller.watch import Watch
from openvipu.model.errors import BadRequest
from openvipu.model.names import split_address
from openvipu.proto import admin_pb2_grpc, catalog_pb2_grpc, version_pb2_grpc, vipuuser_pb2_grpc
from openvipu.rpc import Guard, serve
from openvipu.rpctls import Tls
from openvipu.services.admin import AdminService
from openvipu.services.gate import Gate
from openvipu.services.user import CatalogService, UserService, VersionService
from openvipu.store import Step, Store

USER_SERVICES = ("virmgrpc.UserService", "virmgrpc.VersionService", "openvipu.catalog.v1.CatalogService")
ADMIN_SERVICES = (*USER_SERVICES, "openvipu.admin.v1.AdminService")

WORKERS = 128
"""Threads of a gRPC server: more than the calls that may wait (48, of both servers) or be received (48) use."""


@dataclass(frozen=True, slots=True)
class Config:
    """Where a controller keeps its state and listens. Port 0 takes a free one; None: don't listen.

    Attributes:
        tls: certificates of both servers; None: no TLS.
        client_certificates: with ``tls``: clients need certificates, too. Otherwise only their keys identify them.
        agents_ca: agents are verified with this CA, and sent the key only.
        agents_without_tls: agents have no TLS although the servers do: the key is sent to them in clear text.
        plain_user_address: an additional user API without TLS, for Poplar, which doesn't support it; empty: none.
    """

    state: Path
    user_address: str = "0.0.0.0:8090"
    admin_address: str = "127.0.0.1:8091"
    metrics_host: str = "127.0.0.1"
    metrics_port: int | None = 2113
    discovery: tuple[str, ...] = ()
    tls: Path | None = None
    client_certificates: bool = True
    agents_ca: Path | None = None
    agents_without_tls: bool = False
    plain_user_address: str = ""
    tuning: Tuning = field(default_factory=Tuning)


class ControllerServer:
    """Both APIs, the repair loop, metrics and discovery of one controller."""

    def __init__(
        self, config: Config, clock: Callable[[], float] = time.time, step: Step = lambda _: None
    ) -> None:
        """Start everything; a Refusal or StateError says what can't be started, and everything is stopped again."""
        with ExitStack() as stack:
            self._start(config, clock, step, stack)
            self._stack = stack.pop_all()

    def _start(self, config: Config, clock: Callable[[], float], step: Step, stack: ExitStack) -> None:
        tls = Tls.read(config.tls, "controller", config.client_certificates) if config.tls else None
        agents_tls = _agents_tls(config, tls)
        store = Store.open(config.state, step)
        _check_doors(config, store)
        fleet = Fleet(store.state.settings, agents_tls, config.tuning.agent_timeout)
        self.core = Core(store, fleet, config.tuning, clock, step)
        stack.callback(self.core.close)
        self.jobs = Jobs(self.core)
        self.partitions = Partitions(self.core, self.jobs)
        self.inventory = Inventory(self.core)
        self.watch = Watch(self.core, self.jobs)
        self.discovery = Discovery(config.discovery) if config.discovery else None
        if self.discovery:
            stack.callback(self.discovery.close)
        self.calls = CallCounter()
        # a first poll of the machines, so that nothing is placed on one that is dead or not clean
        self.watch.poll()
        self.jobs.resume()
        self.watch.start()
        stack.callback(self.watch.close)
        self.user_port = self._open(config.user_address, tls, False, stack)
        self.plain_user_port = 0
        if config.plain_user_address:
            self.plain_user_port = self._open(config.plain_user_address, None, False, stack)
        self.admin_port = self._open(config.admin_address, tls, True, stack)
        self.metrics: Any = None
        if config.metrics_port is not None:
            self.metrics = start_metrics(self.core, self.calls, config.metrics_host, config.metrics_port)
            stack.callback(self.metrics.server_close)
            stack.callback(self.metrics.shutdown)

    def _open(self, address: str, tls: Tls | None, admin: bool, stack: ExitStack) -> int:
        executor = ThreadPoolExecutor(WORKERS, thread_name_prefix="admin" if admin else "user")
        stack.callback(executor.shutdown, wait=False)
        gate = Gate(self.core, admin)

        def register(server: grpc.Server) -> None:
            user = UserService(self.core, self.partitions, gate)
            vipuuser_pb2_grpc.add_UserServiceServicer_to_server(user, server)
            version_pb2_grpc.add_VersionServiceServicer_to_server(VersionService(), server)
            catalog = CatalogService(self.core, self.partitions, gate)
            catalog_pb2_grpc.add_CatalogServiceServicer_to_server(catalog, server)
            if admin:
                port = self.plain_user_port or self.user_port
                service = AdminService(self.core, self.inventory, gate, self.discovery, port)
                admin_pb2_grpc.add_AdminServiceServicer_to_server(service, server)

        names = ("admin",) if admin else ("admin", "user")
        roles = tls.roles(*names) if tls else frozenset[str]()
        guard = Guard(roles, self.calls.observe, keyed=self.core.state.settings.secure)
        services = ADMIN_SERVICES if admin else USER_SERVICES
        server, port = serve(executor, address, (register,), services, guard, tls)
        stack.callback(lambda: server.stop(grace=2).wait())
        return port

    def close(self) -> None:
        """Stop accepting calls, finish running ones, write nothing more."""
        self._stack.close()


def _agents_tls(config: Config, tls: Tls | None) -> Tls | None:
    """How agents are called: like the servers, unless configured otherwise."""
    if config.agents_without_tls:
        return None
    if config.agents_ca:
        return Tls.trusting(config.agents_ca)
    if tls is None or tls.mutual:
        return tls
    return tls.without_pair()


def _check_doors(config: Config, store: Store) -> None:
    """An open admin API controls every machine: beyond loopback it needs keys or certificates."""
    host, _ = split_address(config.admin_address)
    certificates = config.tls and config.client_certificates
    if store.state.settings.secure or (not config.tls and _is_loopback(host)) or certificates:
        return
    store.close()
    if config.tls:
        raise BadRequest(
            "without client certificates callers can't be identified: create the state with --init --secure,"
            " so that users need keys"
        )
    raise BadRequest(
        f"admin address {config.admin_address} can be reached from outside without a key; "
        "make the state with --init --secure, use --tls, or listen on 127.0.0.1"
    )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
