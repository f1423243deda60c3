"""`weft probe-agent`: run the agent."""

from __future__ import annotations

import argparse
from typing import Any

from pydantic import BaseModel

from weft.fabricagent.cli import add_settings, read_settings_and_start_log, said_plainly, serve
from weft.fabricagent.server import Routes, Server
from weft.model.probeapi import RoundQuery
from weft.probeagent.agent import ProbeAgent
from weft.probeagent.config import SECTION, ProbeConfig


def add_commands(subparsers: Any) -> None:
    """Add `probe-agent` to a program's commands; its `run(args)` returns the exit code."""
    parser = subparsers.add_parser(
        "probe-agent",
        help="run the agent that sends frames from a host's adapters",
        description="Runs as root on a host, sends frames from its adapters on an Ethernet fabric at weft's request, "
        "and reports which ones arrived. Certificates: weft fabric-agent certs.",
    )
    add_settings(parser, SECTION)
    parser.set_defaults(run=run_agent)


def run_agent(args: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT."""
    with said_plainly("probe-agent"):
        read, folder = read_settings_and_start_log(args, ProbeConfig, SECTION)
        config = read.anchored(folder)
        serve(Server(config, ProbeAgent(config), routes=ROUTES), config, config.name)
        return 0
    return 2


def _round(agent: ProbeAgent, body: bytes) -> BaseModel:
    return agent.round(RoundQuery.model_validate_json(body))


ROUTES: Routes = {
    ("GET", "/v1/status"): lambda agent, _: agent.status(),
    ("POST", "/v1/round"): _round,
}
