"""A command typed in a process of its own that doesn't import everything again: forked from one that has it already.

A command of `weft` takes a tenth of a second, importing openstacksdk a second of a processor; the tests type hundreds.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload(
    [
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
    ]
)


def run(
    words: Sequence[str], env: Mapping[str, str], cwd: Path, out: Path, err: Path, timeout: float
) -> int | None:
    """`weft` with these words, its output into two files; the exit code, None if it was ended after its time."""
    process = _forks.Process(target=_child, args=(list(words), dict(env), str(cwd), str(out), str(err)))
    process.start()
    process.join(timeout)
    if process.exitcode is None:
        process.kill()
        process.join()
        return None
    return process.exitcode


def _child(words: list[str], env: dict[str, str], cwd: str, out: str, err: str) -> None:
    for number, file in ((1, out), (2, err)):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    from weft.cli.main import main

    code = main(words)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
