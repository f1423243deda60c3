"""Public scripts over openvipu's output: their own pipelines, run by a shell, and the published layouts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from openvipu import proxy
from openvipu.proto import vipuuser_pb2 as pb
from openvipu.sim.pod import PodConfig, SimulatedPod
from tests.openvipu.vipuhouse import (
    LONGEST_WAIT,
    POD4,
    POD64,
    Controller,
    controlling,
    house,
    new_config,
    user_session,
)

BIN = Path(sys.executable).parent


@dataclass
class Bash:
    """A shell whose ``vipu`` and ``vipu-admin`` reach one controller, as a public script expects."""

    controller: Controller
    home: Path

    def __call__(self, script: str) -> str:
        """Stdout of a script; it must succeed."""
        server = self.controller.server
        env = {
            "HOME": str(self.home),
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "VIPU_CLI_API_PORT": str(server.user_port),
            "VIPU_CLI_ADMIN_PORT": str(server.admin_port),
        }
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", script],
            capture_output=True,
            text=True,
            timeout=LONGEST_WAIT,
            check=False,
            env=env,
            cwd=self.home,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def bash16(tmp_path: Path) -> Iterator[Bash]:
    """A shell with a controller over a POD16."""
    with house(tmp_path) as controller:
        yield Bash(controller, tmp_path)


def test_public_scripts_find_the_partition_in_the_admin_table(bash16: Bash) -> None:
    """The pipelines of public training scripts read its name from the administrators' table."""
    bash16.controller.add_allocation("all16", 16)
    bash16.controller.create_active("p16", 16, allocation_id="all16")
    server = "VIPU_SERVER=127.0.0.1;"
    listing = "vipu-admin list partitions --api-host $VIPU_SERVER"
    cut = f"{server} {listing} | grep ACTIVE | cut -d '|' -f 3 | cut -d ' ' -f 2 | head -1"
    assert bash16(cut) == "p16\n"
    awk = f"{server} {listing} | awk '{{print $5}}' | sed -n '3 p'"
    assert bash16(awk) == "p16\n"
    # the allocation is in a column before it; without one the columns don't move
    assert "all16" in bash16(f"{server} {listing} | grep ACTIVE | cut -d '|' -f 1,2")
    bash16.controller.remove_whole("p16")
    bash16("vipu-admin remove allocation all16")
    bash16.controller.create_active("free", 4)
    assert bash16(cut) == bash16(awk) == "free\n"


def test_users_table_has_the_public_format(tmp_path: Path) -> None:
    """Header, rule, a row for each partition, rule, as in a public capture of a POD64."""
    with house(tmp_path, POD64) as controller:
        controller.create_active("p64", 64)
        lines = Bash(controller, tmp_path)("vipu list partitions").splitlines()
    header, rule, row, last = lines
    names = [cell.strip() for cell in header.split("|")]
    assert names == ["Partition", "Cluster", "ILDs", "GW Routing", "ILD Routing", "Size", "GCDs", "State"]
    cells = [cell.strip() for cell in row.split("|")]
    assert cells == ["p64", "c", "1", "DEFAULT", "RINGSWNC", "64", "1", "ACTIVE"]
    # the rule is one dash longer than the longest line
    assert rule == last == "-" * (len(row) + 1)
    assert header.startswith(" Partition | ")


def test_configurations_after_the_first_line_are_json(bash16: Bash) -> None:
    """A public script drops the first line of ``get partition --ipuof-configs`` and gives the rest to Poplar."""
    for size, gcds in ((1, 1), (8, 2), (4, 4)):
        bash16.controller.create_active("p", size, num_gcds=gcds)
        body = json.loads(bash16("vipu-admin get partition p --ipuof-configs | tail -n +2"))
        found = body if gcds > 1 else [body]
        assert [entry["attributes"]["GCD Id"] for entry in found] == [str(gcd) for gcd in range(gcds)]
        assert sum(len(entry["devices"]) for entry in found) == size
        bash16.controller.remove_whole("p")


def test_agent_details_contain_the_url_of_its_metrics(tmp_path: Path) -> None:
    """In the line ``Exporter`` of ``get agent``; an agent without an exporter has "-" there."""
    with (
        SimulatedPod(PodConfig(POD4, port=0, exporters=0)) as pod,
        controlling(pod, new_config(tmp_path)) as controller,
    ):
        controller.add_agents()
        bash = Bash(controller, tmp_path)
        sheet = bash("vipu-admin get agent ipum1").split("\n\n")[0].splitlines()
        assert [line.split("|")[0].strip() for line in sheet[1:6]] == [
            "Agent ID",
            "Host",
            "Port",
            "Status",
            "Exporter",
        ]
        assert set(sheet[0]) == set(sheet[-1]) == {"-"}
        url = bash("vipu-admin get agent ipum1 | awk '$1 == \"Exporter\" {print $3}'").strip()
        with urllib.request.urlopen(url, timeout=LONGEST_WAIT) as page:
            assert b'ipum_ipu_healthy{machine="ipum1"' in page.read()
    with house(tmp_path, POD4, id_="other") as controller:
        line = Bash(controller, tmp_path)("vipu-admin get agent ipum1 | grep Exporter")
        assert line.split("|")[1].strip() == "-"


def test_last_line_of_create_user_is_a_working_command(bash16: Bash) -> None:
    """The file that it names leads to this controller's user port."""
    last = bash16("vipu-admin create user alice").splitlines()[-1]
    assert last == "Use 'vipu --config alice.vipu-cli.hcl' to switch to the user context."
    command = last.split("'")[1]
    port = bash16.controller.server.user_port
    # a new user has no port in the environment
    assert f"host: localhost:{port}" in bash16(f"unset VIPU_CLI_API_PORT; {command} --server-version")


def test_index_option_overrides_the_sync_type(bash16: Bash) -> None:
    """``--reconfigurable --sync-type X`` is refused (user guide); with ``--index`` the sync type is ignored."""
    script = "vipu create partition p --size 4 --reconfigurable --sync-type pod-native"
    assert "can't be reconfigurable" in bash16(f"{script} 2>&1 || true")
    assert bash16(f"{script} --index 1 2>&1").endswith("create partition (p): success.\n")
    (made,) = bash16.controller.users.ListPartitions(pb.ListPartitionsRequest()).partitions
    assert (made.spec.reconfigurable, made.spec.sync_type) == (True, pb.ST_GS2_DEFAULT)


@contextmanager
def _proxy(controller: Controller) -> Iterator[str]:
    with user_session(controller) as session:
        http = proxy.start(proxy.Proxy(session), "127.0.0.1", 0)
        try:
            yield f"http://127.0.0.1:{http.server_address[1]}"
        finally:
            http.shutdown()
            http.server_close()


@pytest.mark.parametrize("size", [32, 64, 1 << 20])
def test_query_for_more_ipus_than_the_site_has_finds_none_without_an_error(bash16: Bash, size: int) -> None:
    """As the guide shows it: available, no partitions, no message."""
    with _proxy(bash16.controller) as url:
        curl = f"curl -s -X POST -H 'Content-Type: application/json' -d '{{\"size\":{size}}}' {url}/query"
        assert json.loads(bash16(curl)) == {"available": True, "numOfPartitions": 0, "message": ""}


def test_any_adjacent_machines_can_be_chosen(bash16: Bash) -> None:
    """A partition of eight IPUs may begin at the second machine, which is no aligned slot."""
    ipus = [pb.PartitionIpu(topology_id=place) for place in range(4, 12)]
    bash16.controller.create_active("p", 8, cluster_id="c", ipus=ipus)
    assert bash16.controller.state.partitions["p"].agent_ids == ("ipum2", "ipum3")
    probe = bash16.controller.pod.probe
    assert probe(("ipum2", 0), ("ipum3", 3)) is not None
    assert probe(("ipum1", 0), ("ipum2", 3)) is None
    # further partitions are placed beside it
    bash16.controller.create_active("q", 4)
    bash16.controller.create_active("r", 4)
    assert {bash16.controller.state.partitions[name].agent_ids for name in "qr"} == {("ipum1",), ("ipum4",)}
