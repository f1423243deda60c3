"""Host files and rank files of pods, read by Debian's mpirun."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.helpers import openmpi
from tests.helpers.smallsite import small_site
from tests.helpers.topologies import nodes_by_leaf, pod_topology, servers
from weft.generate.topology.formats import written
from weft.model.errors import ConflictError
from weft.planning.fabric.podtopology import PodServer

LEAVES = list(nodes_by_leaf().values())
APART = [LEAVES[0][0], LEAVES[2][0], LEAVES[0][1]]
"""The second server is on another leaf than the first and the third."""


@pytest.fixture(scope="module", autouse=True)
def installed() -> None:
    """Installs Debian's mpirun."""
    openmpi.install()


def _file(folder: Path, text: str) -> str:
    path = folder / "file"
    path.write_text(text)
    return str(path)


def test_neighbouring_ranks_are_on_one_leaf(tmp_path: Path) -> None:
    """Open MPI fills the slots of one leaf's servers before the next."""
    text = written(pod_topology(small_site(), servers(APART), accelerators=2), "hostfile")
    found = openmpi.ranks(tmp_path, 6, "--hostfile", _file(tmp_path, text))
    assert [found[i] for i in range(6)] == ["train-0"] * 2 + ["train-2"] * 2 + ["train-1"] * 2


def test_rankfile_binds_each_rank_where_it_says(tmp_path: Path) -> None:
    """Two ranks on a server, each with half of its cores."""
    pod = pod_topology(small_site(), servers(APART), accelerators=2, cores=2)
    hosts = tmp_path / "hosts"
    hosts.write_text(written(pod, "hostfile"))
    text = written(pod, "rankfile")
    assert "rank 3=train-2 slot=1\n" in text
    found = openmpi.ranks(tmp_path, 6, "--hostfile", str(hosts), "-rf", _file(tmp_path, text))
    assert [found[i] for i in range(6)] == ["train-0"] * 2 + ["train-2"] * 2 + ["train-1"] * 2


def test_server_not_in_force_gets_no_rank(tmp_path: Path) -> None:
    """It is named in a comment, which mpirun ignores."""
    given = servers(APART)
    given[0] = PodServer("train-0", 0, APART[0], "", "its server is not built yet")
    text = written(pod_topology(small_site(), given, accelerators=1), "hostfile")
    assert "# left out: train-0: its server is not built yet\n" in text
    found = openmpi.ranks(tmp_path, 2, "--hostfile", _file(tmp_path, text))
    assert sorted(found.values()) == ["train-1", "train-2"]


def test_each_rank_gets_cores_of_its_own() -> None:
    """96 cores for 8 ranks are 12 each; a remainder stays unused."""
    lines = written(pod_topology(small_site(), servers(APART[:1])), "rankfile").splitlines()
    assert lines[-8] == "rank 0=train-0 slot=0-11" and lines[-1] == "rank 7=train-0 slot=84-95"
    rest = written(pod_topology(small_site(), servers(APART[:1]), cores=17), "rankfile").splitlines()
    assert rest[-1] == "rank 7=train-0 slot=14-15"


@pytest.mark.parametrize("unknown", [{"accelerators": 0}, {"cores": 0}, {"cores": 7}, {"bare_metal": True}])
def test_rankfile_is_refused_where_cores_are_unknown(unknown: dict[str, Any]) -> None:
    """Cores aren't guessed; a host file is possible."""
    pod = pod_topology(small_site(), servers(APART), **unknown)
    with pytest.raises(ConflictError) as refused:
        written(pod, "rankfile")
    assert refused.value.message.code == "TOPOLOGY_UNREAD"
    assert "train-0" in written(pod, "hostfile") and "train-0" in written(pod, "hostfile-mpich")


def test_mpich_hostfile_has_the_processes_after_a_colon() -> None:
    """`name:8`, in the same order."""
    lines = written(pod_topology(small_site(), servers(APART)), "hostfile-mpich").splitlines()
    assert lines[-3:] == ["train-0:8", "train-2:8", "train-1:8"]
    unknown = written(pod_topology(small_site(), servers(APART), accelerators=0), "hostfile-mpich")
    assert unknown.splitlines()[-1] == "train-1" and "not known" in unknown
