"""MariaDB and RabbitMQ: Debian's programs as private instances on loopback."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from weftlab import checks
from weftlab.environment import program
from weftlab.layout import Layout
from weftlab.service import Service

# Without `distribution` on loopback the node's port listens on all addresses; the rest keeps an idle node quiet.
ERLANG = (
    "+S 1:1 +sbwt none +sbwtdcpu none +sbwtdio none "
    "-kernel inet_dist_use_interface {127,0,0,1} -start_epmd false"
)


def init_file(layout: Layout) -> Path:
    """File with SQL that MariaDB runs before it accepts connections."""
    return layout.etc / "mariadb-init.sql"


def as_root() -> tuple[str, ...]:
    """MariaDB refuses to run as root without `--user=root`."""
    return ("--user=root",) if os.geteuid() == 0 else ()


def mariadb(layout: Layout, after: tuple[str, ...]) -> Service:
    """The lab's MariaDB, on a socket alone."""
    return Service(
        name="mariadb",
        argv=(
            program("mariadbd") or "mariadbd",
            "--no-defaults",
            *as_root(),
            f"--datadir={layout.data / 'mysql'}",
            f"--socket={layout.database_socket}",
            f"--pid-file={layout.data / 'mariadb.pid'}",
            f"--init-file={init_file(layout)}",
            "--skip-networking",
            "--skip-name-resolve",
            "--skip-log-bin",
            "--performance-schema=off",
            "--character-set-server=utf8mb4",
            # The lab's data may be lost with the machine: nothing waits for a disk.
            "--innodb-flush-log-at-trx-commit=0",
            "--innodb-flush-method=nosync",
            "--innodb-doublewrite=0",
            "--innodb-log-file-size=48M",
            "--innodb-buffer-pool-size=256M",
            "--max-connections=2000",
            # Two computes that insert their PCI devices at once deadlock under REPEATABLE READ (error 1213).
            "--transaction-isolation=READ-COMMITTED",
        ),
        log=layout.log("mariadb"),
        cwd=layout.work / "mariadb",
        ready=checks.greets(layout.database_socket),
        after=after,
        timeout=180,
        stop=signal.SIGKILL,  # its data goes with the lab; a golden image is saved after an orderly end
        grace=60,
    )


def epmd(layout: Layout) -> Service:
    """Erlang's port mapper, by itself: RabbitMQ would start one that outlives it."""
    port = layout.port("epmd")
    return Service(
        name="epmd",
        argv=(program("epmd") or "epmd", "-address", "127.0.0.1", "-port", str(port)),
        log=layout.log("epmd"),
        cwd=layout.work / "epmd",
        ready=checks.listens(port),
        timeout=30,
        last=True,  # RabbitMQ starts one of its own as soon as it misses it
    )


def rabbitmq(layout: Layout) -> Service:
    """The lab's RabbitMQ, on loopback."""
    home = layout.data / "rabbitmq"
    return Service(
        name="rabbitmq",
        argv=("/usr/lib/rabbitmq/bin/rabbitmq-server",),
        env={
            "HOME": str(home),
            "RABBITMQ_NODENAME": f"lab{layout.ports}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(layout.port("rabbitmq")),
            "RABBITMQ_DIST_PORT": str(layout.port("rabbitmq-dist")),
            "RABBITMQ_MNESIA_BASE": str(home / "mnesia"),
            "RABBITMQ_LOG_BASE": str(layout.log("rabbitmq").parent),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(layout.etc / "rabbitmq-plugins"),
            "RABBITMQ_CONFIG_FILE": str(layout.etc / "rabbitmq.conf"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": ERLANG,
            "ERL_EPMD_PORT": str(layout.port("epmd")),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
        },
        log=layout.log("rabbitmq"),
        cwd=layout.work / "rabbitmq",
        ready=checks.speaks_amqp(layout.port("rabbitmq")),
        after=("epmd",),
        timeout=300,
        # Its queues are worth nothing once the lab ends: an orderly end would only take long.
        stop=signal.SIGKILL,
    )


def write_rabbitmq(layout: Layout) -> None:
    """Write RabbitMQ's configuration: one port, no plug-ins, no limit by free disk."""
    layout.etc.mkdir(parents=True, exist_ok=True)
    (layout.data / "rabbitmq").mkdir(parents=True, exist_ok=True)
    (layout.etc / "rabbitmq-plugins").write_text("[].\n")
    (layout.etc / "rabbitmq.conf").write_text(
        f"listeners.tcp.1 = 127.0.0.1:{layout.port('rabbitmq')}\n"
        "disk_free_limit.absolute = 50MB\n"
        "vm_memory_high_watermark.relative = 0.2\n"
        "log.file = false\n"
        "log.console = true\n"
        "log.console.level = warning\n"
    )
