"""Programs in processes of their own that don't import everything again: forked from one that has it already.

A command of `weft` takes a tenth of a second of a processor and one of `vipu` less; importing openstacksdk takes a
second, gRPC and a controller a third of one. Tests start hundreds.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import sys
from collections.abc import Mapping, Sequence
from multiprocessing.context import ForkServerProcess
from pathlib import Path

PROGRAMS = {
    "weft": "weft.program:main",
    "openvipu-agent": "openvipu.agent.main:main",
    "openvipu-server": "openvipu.server_main:main",
    "openvipu-sim": "openvipu.sim.main:main",
    "vipu": "openvipu.clients.main:vipu",
    "vipu-admin": "openvipu.clients.main:vipu_admin",
}
"""Program -> function, as in pyproject.toml."""
_IMPORTED = [
    "keystoneauth1.identity.v3",
    "openstack.config",
    "weft.app.orderfile",
    "weft.app.sitefile",
    "weft.cli.capacity",
    "weft.cli.follow",
    "weft.cli.main",
    "weft.cli.operator",
    "weft.cli.pod",
    "weft.cli.receipt",
    "weft.cli.site",
    "weft.cli.text",
    "weft.client",
    "weft.generate.receipts",
    "weft.program",
    "openvipu.agent.main",
    "openvipu.clients.main",
    "openvipu.server_main",
    "openvipu.sim.main",
]
"""Imported once for all programs of a test process, since any of them may be the first."""
_WRITTEN = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
_forks = multiprocessing.get_context("forkserver")


def start(
    program: str, words: Sequence[str], env: Mapping[str, str], cwd: Path, out: Path | None, err: Path
) -> ForkServerProcess:
    """Starts a program with its output in two files.

    Args:
        out: None for a pipe whose reader has closed it.
    """
    _forks.set_forkserver_preload(_IMPORTED)
    process = _forks.Process(
        target=_child, args=(program, list(words), dict(env), str(cwd), out and str(out), str(err))
    )
    process.start()
    return process


def _closed() -> int:
    """Write end of a pipe without a reader."""
    reader, writer = os.pipe()
    os.close(reader)
    return writer


def run(
    program: str,
    words: Sequence[str],
    env: Mapping[str, str],
    cwd: Path,
    out: Path | None,
    err: Path,
    timeout: float,
) -> int | None:
    """Exit code of a program; None if it was killed after `timeout` seconds."""
    process = start(program, words, env, cwd, out, err)
    process.join(timeout)
    if process.exitcode is None:
        process.kill()
        process.join()
        return None
    return process.exitcode


def _child(program: str, words: list[str], env: dict[str, str], cwd: str, out: str | None, err: str) -> None:
    for number, file in ((1, out), (2, err)):
        os.dup2(_closed() if file is None else os.open(file, _WRITTEN, 0o600), number)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    module, _, main = PROGRAMS[program].partition(":")
    try:
        code = getattr(importlib.import_module(module), main)(words)
    except SystemExit as stop:
        code = stop.code
        if isinstance(code, str):
            print(code, file=sys.stderr)
            code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code or 0)
