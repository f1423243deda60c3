"""How long `weft --help` and `weft pod list` take, against a build of 93bb7bfa, in alternating runs.

The build is that commit's `src`, taken out of git into build/before. Both run with this environment's Python and
libraries, `pod list` against a small Keystone and an API that answers at once with 20 pods; so do `openstack pod
list`, with the plugin, and `openstack server list` with 20 servers of a Nova that answers as quickly, without names of
images and flavors, which would take further requests.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml
from fastapi import FastAPI, Request

from bench.earlier import ROOT, files_of
from bench.row import row
from weft.testing.callers import tokens
from weft.testing.keystone import FakeIdentity, FakeKeystone
from weft.testing.serving import served

BEFORE = "93bb7bfa"
ROUNDS = 15
OF_SERVER_LIST = 0.4
_PODS = 20


def rows() -> list[dict[str, Any]]:
    before = files_of(BEFORE, "before", "src")
    keystone = FakeKeystone(FakeIdentity(tokens()))
    keystone.users = {"a-member": ("secret", tokens()["a-member"])}
    with served(_api()) as weft, served(keystone.app()) as url, tempfile.TemporaryDirectory() as home:
        keystone.url, keystone.weft_url = url, weft
        return _measured(before, _environment(url, weft, Path(home)))


def _measured(before: Path, env: dict[str, str]) -> list[dict[str, Any]]:
    program = str(Path(sys.executable).with_name("openstack"))
    found: list[dict[str, Any]] = []
    for name, words, most in (("--help", ["--help"], 2.0), ("pod list", ["pod", "list"], 1.1)):
        own = [sys.executable, "-m", "weft.cli.main", *words]
        times: dict[str, list[float]] = {"now": [], "before": [], "openstack": [], "servers": []}
        for turn in range(ROUNDS + 1):
            both = [("now", ROOT), ("before", before)]
            for which, tree in both if turn % 2 else reversed(both):
                times[which].append(_seconds(own, {**env, "PYTHONPATH": str(tree / "src")}))
            if turn % 4 == 0 and words[0] == "pod":
                times["openstack"].append(_seconds([program, *words], env))
                times["servers"].append(_seconds([program, "server", "list", "--no-name-lookup"], env))
        # The first turn writes bytecode and fills caches.
        now, was = (statistics.median(times[which][1:]) for which in ("now", "before"))
        ratio = now / was
        goal = f"at most {most:g} x {BEFORE}"
        found += [
            row(f"weft {name}", now, "s", compared_with=f"{was:.3f} s at {BEFORE}"),
            row(f"weft {name} against {BEFORE}", ratio, "x", goal, ratio <= most),
        ]
        if others := times["openstack"][1:]:
            found.append(row(f"openstack {name}, by the plugin", statistics.median(others), "s"))
            servers = statistics.median(times["servers"][1:])
            beside, goal = now / servers, f"at most {OF_SERVER_LIST:g} x openstack server list"
            found.append(row("openstack server list", servers, "s"))
            found.append(
                row(f"weft {name} against openstack server list", beside, "x", goal, beside <= OF_SERVER_LIST)
            )
    return found


def _seconds(words: list[str], env: dict[str, str]) -> float:
    started = time.perf_counter()
    subprocess.run(words, env=env, check=True, stdout=subprocess.DEVNULL, timeout=120)
    return time.perf_counter() - started


def _environment(keystone: str, weft: str, home: Path) -> dict[str, str]:
    auth = {
        "auth_url": f"{keystone}/v3",
        "username": "a-member",
        "password": "secret",
        "project_name": "any",
        "user_domain_id": "default",
        "project_domain_id": "default",
    }
    clouds = home / "clouds.yaml"
    here = {"auth": auth, "region_name": "lab", "compute_endpoint_override": f"{weft}/compute/v2.1"}
    here["identity_endpoint_override"] = f"{keystone}/v3"
    clouds.write_text(yaml.safe_dump({"clouds": {"here": here}}))
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("OS_", "WEFT_", "PYTHON"))
    }
    variables = {"OS_CLIENT_CONFIG_FILE": str(clouds), "OS_CLOUD": "here", "NO_PROXY": "*", "HOME": str(home)}
    return {**kept, **variables}


def _api() -> FastAPI:
    """weft's and Nova's answers, as quick as possible, since the command is measured."""
    app = FastAPI()
    pods = [
        {
            "id": f"00000000-0000-4000-8000-{number:012}",
            "name": f"train-{number}",
            "project_id": "id-of-team-a",
            "phase": "READY",
            "state": "READY",
            "reason": "",
            "since": "2027-01-01T12:00:00Z",
            "created_at": "2027-01-01T11:00:00Z",
            "nodes": 4,
            "fabric": "ib0",
            "segment": "0x101",
            "lease_end": None,
        }
        for number in range(_PODS)
    ]
    app.add_api_route("/v1/pods", lambda: {"pods": pods, "next": None}, methods=["GET"])
    servers = [
        {
            "id": f"00000000-0000-4000-8000-{number:012}",
            "name": f"train-{number}",
            "status": "ACTIVE",
            "OS-EXT-STS:task_state": None,
            "OS-EXT-STS:power_state": 1,
            "addresses": {"management": [{"addr": f"10.64.0.{number}", "version": 4}]},
            "image": {"id": "00000000-0000-4000-8000-000000000000"},
            "flavor": {"id": "1"},
        }
        for number in range(_PODS)
    ]
    version = {"id": "v2.1", "status": "CURRENT", "version": "2.1", "min_version": "2.1"}

    def discovered(request: Request) -> dict[str, Any]:
        return {"version": {**version, "links": [{"rel": "self", "href": str(request.url)}]}}

    app.add_api_route("/compute/v2.1/", discovered, methods=["GET"])
    app.add_api_route("/compute/v2.1/servers/detail", lambda: {"servers": servers}, methods=["GET"])
    return app
