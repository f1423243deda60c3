"""Faults on demand: cut and repair cables, drop datagrams, write behind the subnet manager's back, stop a manager."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from weft.model.site import Site
from weftlab.fabric.files import FabricFolder, description, manager_port
from weftlab.fabric.jobs import fabric_jobs
from weftlab.layout import LabError, Layout
from weftlab.processes import leader
from weftlab.service import Service
from weftlab.supervisor import Supervisor

P_KEY_TABLE = 0x16
FREEZE_SECONDS = 10.0


class Faults:
    """Faults of one running fabric; ends of cables are named as in the site: a switch, or node/hca."""

    def __init__(self, layout: Layout, site: Site, supervisor: Supervisor, fabric: str | None = None) -> None:
        self._site, self._supervisor = site, supervisor
        self.place = FabricFolder(layout, fabric or next(iter(site.fabrics)))
        self._jobs = fabric_jobs(layout, site, fabric)

    # --- cables and datagrams ------------------------------------------------------------------------------

    def command(self, text: str) -> None:
        """Give ibsim one command of its console. Raises `LabError` if it does not run."""
        try:
            fifo = os.open(self.place.commands, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            raise LabError(f"ibsim takes no command {text!r}: {error.strerror}") from error
        with os.fdopen(fifo, "w") as file:
            file.write(f"{text}\n")

    def unlink(self, end: str, port: int = 1) -> None:
        """Pull the cable at that end."""
        self.command(f'Unlink "{self._name(end)}"[{port}]')

    def relink(self, end: str, port: int = 1) -> None:
        """Put the cable back."""
        self.command(f'ReLink "{self._name(end)}"[{port}]')

    def link(self, end: str, port: int, other: str, other_port: int) -> None:
        """Plug a cable in between two free ports."""
        self.command(f'Link "{self._name(end)}"[{port}] "{self._name(other)}"[{other_port}]')

    def lose(self, end: str, percent: int, attribute: int = P_KEY_TABLE, port: int = 1) -> None:
        """Drop this many datagrams about an attribute at that port; 0 repairs it."""
        self.command(f'Error "{self._name(end)}"[{port}] {percent} {attribute}')

    def count_errors(self, end: str, counter: str, value: int, port: int = 1) -> None:
        """Set one of PortCounters, by perfquery's name, such as PortRcvErrors."""
        self.command(f'PerformanceSet "{self._name(end)}"[{port}] PortCounters.{counter}={value}')

    def count_traffic(self, end: str, words: int, wait: int, port: int = 1) -> None:
        """Add to a port's counters: words of 4 bytes that it sent, and ticks that it waited."""
        where = f'PerformanceSet "{self._name(end)}"[{port}]'
        self.command(f"{where} PortCountersExtended.PortXmitData={words}")
        self.command(f"{where} PortCounters.PortXmitWait={wait}")

    def _name(self, end: str) -> str:
        node_name, _, hca_name = end.partition("/")
        node = self._site.node_by_name.get(node_name)
        if node is None:
            return end
        return description(node, next(h for h in node.hcas if h.name == (hca_name or node.hcas[0].name)))

    # --- behind the manager's back -------------------------------------------------------------------------

    def write_key(self, port_guid: int, index: int, key: int, leaf: bool = False) -> None:
        """SubnSet of one entry of a host port's table (or its leaf port's): 16 bits with the membership bit."""
        self._tool("write-key", f"{port_guid:#x}", str(index), f"{key:#x}", "leaf" if leaf else "host")

    def read_keys(self, port_guid: int) -> tuple[list[int], list[int]]:
        """Keys of a host port and its leaf port, by a client that is neither agent nor driver."""
        return self.read_tables([port_guid])[port_guid]

    def read_tables(self, port_guids: Sequence[int]) -> dict[int, tuple[list[int], list[int]]]:
        """As `read_keys`, for several ports with one discovery of the fabric."""
        lines = self._tool("read-keys", *(f"{g:#x}" for g in port_guids)).splitlines()
        tables = [[int(k, 16) for k in line.split()] for line in lines]
        return dict(zip(port_guids, zip(tables[::2], tables[1::2], strict=True), strict=True))

    def ask(self, program: str, *arguments: str, end: str = "") -> str:
        """What one of infiniband-diags' programs prints on the host of this end, else of the first manager."""
        return self._run(program, *arguments, end=end)

    def _tool(self, *arguments: str) -> str:
        return self._run(sys.executable, "-m", "weftlab.wiretool", *arguments)

    def _run(self, *command: str, end: str = "") -> str:
        agent = self._site.fabrics[self.place.fabric].manager.agents[0]
        who = self._name(end) if end else description(*manager_port(self._site, self.place.fabric, agent))
        done = subprocess.run(
            command,
            env={**os.environ, **self.place.client(who), "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin"},
            cwd=self.place.folder,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        if done.returncode:
            raise LabError(f"{' '.join(command)}: {done.stderr.strip() or done.returncode}")
        return done.stdout

    # --- managers and agents -------------------------------------------------------------------------------

    def partitions_file(self, agent: str) -> Path:
        """partitions.conf of the subnet manager beside an agent."""
        return self.place.of(agent) / "partitions.conf"

    def hup(self, agent: str) -> None:
        """Send SIGHUP to the subnet manager, as an operator does after editing its partitions.conf by hand."""
        self._signal(f"opensm-{agent}", signal.SIGHUP)

    def lower(self, agent: str, priority: int) -> None:
        """Lower a running manager's priority; a master hands over to a standby that has a higher one by then.

        The other way round a standby would announce itself, which hangs in the simulator (`arrival`).
        """
        folder = self.place.of(agent)
        options = folder / "opensm.conf"
        kept = [line for line in options.read_text().splitlines() if not line.startswith("sm_priority ")]
        options.write_text("\n".join([*kept, f"sm_priority {priority}"]) + "\n")
        (folder / "priority").write_text(f"{priority}\n")
        self.hup(agent)

    def freeze(self, name: str) -> None:
        """SIGSTOP a process, and wait until none of its threads runs; it keeps its slot in the simulator.

        Threads go on until the one that was given the signal has been scheduled, which may take a while on a busy
        machine: one answer more, and it isn't hung.
        """
        pid = self._signal(name, signal.SIGSTOP)
        end = time.monotonic() + FREEZE_SECONDS
        while not _stopped(pid):
            if time.monotonic() > end:
                raise LabError(f"{name} runs on after SIGSTOP")
            time.sleep(0.01)

    def thaw(self, name: str) -> None:
        """Continue a frozen process (SIGCONT)."""
        self._signal(name, signal.SIGCONT)

    def stop(self, name: str) -> None:
        """Stop `opensm-NAME` or `agent-NAME` gracefully."""
        self._supervisor.stop([name], giving_up=False)

    def start(self, name: str) -> None:
        """Start `opensm-NAME` or `agent-NAME` again and wait until it is ready."""
        service = next(j for j in self._jobs if isinstance(j, Service) and j.name == name)
        self._supervisor.start(service)
        self._supervisor.await_ready(service)

    def repair(self, patience: float = 30.0) -> None:
        """Make everything run and respond again. Raises `JobError` if it can't.

        A manager that waits for a datagram which the simulator has lost waits forever (`arrival`), and keeps the
        others waiting: then the whole fabric is restarted. Partitions stay, in the managers' files.
        """
        if self._ill(patience):
            names = [j.name for j in self._jobs if isinstance(j, Service)]
            self._supervisor.stop(names, giving_up=False)
        self._supervisor.run(self._jobs)

    def _ill(self, patience: float) -> bool:
        """Whether a running service is unhealthy for this many seconds."""
        running = [j for j in self._jobs if isinstance(j, Service) and self._supervisor.alive(j.name)]
        end = time.monotonic() + patience
        while not all(state.up for state in self._supervisor.status(running)):
            if time.monotonic() > end:
                return True
            time.sleep(0.2)
        return False

    def _signal(self, name: str, number: signal.Signals) -> int:
        record = self._supervisor.record(name)
        process = leader(record) if record else None
        if process is None:
            raise LabError(f"{name} does not run")
        os.kill(process.pid, number)
        return process.pid


def _stopped(pid: int) -> bool:
    """Whether all threads are stopped, by field 3 of each one's stat, see proc(5)."""
    stats = (file.read_text() for file in Path(f"/proc/{pid}/task").glob("*/stat"))
    return all(stat.rpartition(")")[2].split()[0] == "T" for stat in stats)
