"""`weft pod topology`."""

from __future__ import annotations

import re

from tests.helpers.desk import Desk
from weft.generate.topology.formats import FORMATS


def test_topology_is_written_to_stdout(desk: Desk) -> None:
    """Only the file is on stdout; servers left out are named on stderr, with the reason; refusals have exit
    code 2 or 1."""
    assert desk.weft("pod", "create", "-f", desk.pod_file()).code == 0
    early = desk.weft("pod", "topology", "train", "--format", "hostfile")
    assert early.code != 0 and early.out == "" and "none of its servers is in force" in early.err
    desk.house.finish("train")
    text = desk.weft("pod", "topology", "train", "--format", "slurm-conf")
    assert text.code == 0 and text.err == ""
    assert all(line.startswith(("# ", "SwitchName=")) for line in text.out.splitlines())
    assert desk.weft("pod", "topology", "train").json["pod"] == "train"
    wrong = desk.weft("pod", "topology", "train", "--format", "xml")
    assert wrong.code == 2 and "format" in wrong.err and "nccl-env" in wrong.err and wrong.out == ""
    nodes = {"count": 3, "flavor": "gpu8", "image": "tiny"}
    assert desk.weft("pod", "apply", "-f", desk.pod_file(nodes=nodes)).code == 0
    grows = desk.weft("pod", "topology", "train", "--format", "hostfile")
    assert grows.code == 0 and "train-0" in grows.out and grows.err.startswith("weft: left out: train-2: ")


def test_help_names_every_format(desk: Desk) -> None:
    desk.environment.setenv("COLUMNS", "500")
    run = desk.weft("pod", "topology", "--help", cloud=None)
    assert run.code == 0 and FORMATS.keys() <= set(re.findall(r"[a-z-]+", run.out))
