"""`weft network show`: a network with its ports in every format, and the exit code."""

from __future__ import annotations

import argparse
import json
from typing import Any

import pytest

from weft.cli.main import build_parser

NETWORK: dict[str, Any] = {
    **{name: f"a-{name}" for name in ("id", "name", "project_id", "cloud", "fabric", "segment", "read_at")},
    "state": "READY",
    "reason": "",
    "waiting": 0,
    "ports": [
        {
            "id": "p1",
            "name": "x",
            "vnic_type": "direct",
            "host": "gpu01",
            "state": "in",
            "since": None,
            "why": "",
        }
    ],
}


class Api:
    """The client of an API with one network."""

    def __init__(self, **changes: Any) -> None:
        self.network = {**NETWORK, **changes}
        self.networks = self

    def show(self, network: str) -> dict[str, Any]:
        return self.network


def _run(api: Api, *words: str) -> int:
    given = ["network", "show", "x", *words]
    args: argparse.Namespace = build_parser(given).parse_args(given)
    args.client = api
    return args.run(args)


def test_network_is_printed_in_every_format(capsys: pytest.CaptureFixture[str]) -> None:
    """Columns for operators' values appear only if there are such values."""
    assert _run(Api()) == 0
    out = capsys.readouterr().out
    assert (
        "| state               | READY" in out
        and "Ports:" in out
        and "| gpu01 |" in out
        and "Member" not in out
    )
    assert _run(Api(), "-f", "json", "-c", "segment", "-c", "ports") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["segment"] == "a-segment" and found["ports"][0]["host"] == "gpu01"
    assert _run(Api(), "--json") == 0
    assert json.loads(capsys.readouterr().out) == NETWORK


@pytest.mark.parametrize("changes", [{"state": "DEGRADED"}, {"waiting": 1}])
def test_network_with_ports_outside_its_partition_is_exit_code_1(
    changes: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(Api(**changes), "-f", "value", "-c", "state") == 1
    assert capsys.readouterr().out == f"{changes.get('state', 'READY')}\n"
