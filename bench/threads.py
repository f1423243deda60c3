"""Threads and processes of a bench that is interrupted: work that hasn't begun is dropped, and nothing stays behind."""

from __future__ import annotations

import multiprocessing
import subprocess
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

from weftlab.processes import interrupt_on_sigterm


@contextmanager
def threads(number: int) -> Generator[ThreadPoolExecutor]:
    """A pool of threads. Its own `with` would first do all waiting work, even if its user ends early."""
    pool = ThreadPoolExecutor(number)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def served_by(words: Sequence[str], patience: float = 120.0) -> Generator[tuple[subprocess.Popen[str], str]]:
    """A program that serves until its input ends, and its first line, the URL. It is interrupted with this process.

    Args:
        patience: seconds that it may take to end.
    """
    server = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert server.stdin is not None and server.stdout is not None
    try:
        url = server.stdout.readline().strip()
        if not url:
            raise RuntimeError("the server of the benchmark did not start")
        yield server, url
    except BaseException:
        server.terminate()
        raise
    finally:
        server.stdin.close()
        server.wait(patience)


def apart(measure: Callable[..., Any], *arguments: Any) -> Any:
    """The result of `measure` in a new process, which ends with this one. Raises what it raises, or `EOFError`."""
    spawn = multiprocessing.get_context("spawn")
    here, there = spawn.Pipe(duplex=False)
    process = spawn.Process(target=_measured, args=(there, measure, arguments))
    process.start()
    there.close()
    try:
        found = here.recv()
    except BaseException:
        process.terminate()
        raise
    finally:
        process.join()
    if isinstance(found, Exception):
        raise found
    return found


def _measured(answer: Connection, measure: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    interrupt_on_sigterm()
    try:
        answer.send(measure(*arguments))
    except Exception as error:
        answer.send(error)
