"""What bandwidth programs print: captures of perftest 4.5 between two guests over soft RoCE, and of UCX over TCP."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from weft.model import bandwidth
from weftcheck import bandwidthplan, measuring
from weftcheck.found import Endpoint
from weftcheck.ratetext import REASONS, Collective, NoRate, Rate, of_nccl, of_run

_PLAN = {
    "version": 1,
    "nodes": [{"name": name, "adapters": [{"rail": 0, "device": "mlx5_0"}]} for name in ("a", "b")],
}
DATA = Path(__file__).parents[1] / "data" / "bandwidth"


def _capture(name: str) -> tuple[int, str]:
    """Exit code and text of a capture, whose last line has the code."""
    text, _, code = (DATA / f"{name}.txt").read_text().rstrip("\n").rpartition("\nrc=")
    return int(code), text


@pytest.mark.parametrize(
    ("name", "program", "expected"),
    [
        ("perftest-gbits", "perftest", Rate(0.10)),
        ("perftest-server", "perftest", Rate(0.10)),
        ("perftest-duration", "perftest", Rate(0.11)),
        ("perftest-mbytes", "perftest", Rate(13.38 * 8 * 2**20 / 1e9)),
        ("ucx", "ucx", Rate(199.74 * 8 * 2**20 / 1e9)),
        ("perftest-refused", "perftest", "NO_PEER"),
        ("perftest-no-device", "perftest", "NO_DEVICE"),
        ("perftest-none", "perftest", "NO_DEVICE"),
        ("perftest-bad-gid", "perftest", "NO_PATH"),
        ("perftest-no-library", "perftest", "NO_PROGRAM"),
        ("ucx-refused", "ucx", "NO_PEER"),
    ],
)
def test_rate_is_read_from_each_captured_output(name: str, program: str, expected: Rate | str) -> None:
    found = of_run(program, *_capture(name))
    if isinstance(expected, Rate):
        assert isinstance(found, Rate) and found.gbps == pytest.approx(expected.gbps)
    else:
        assert isinstance(found, NoRate) and found.reason == expected in REASONS
        assert found.said


def _changed(old: str, new: str) -> str:
    text = _capture("perftest-gbits")[1]
    assert old in text
    return text.replace(old, new)


@pytest.mark.parametrize(
    "text",
    [
        "",
        _changed("BW average[Gb/sec]", "BW average[GB/sec]"),
        _changed("BW average[Gb/sec]", "BW average[MB/sec]"),  # two units
        _changed("0.10 ", "nan "),
        _changed("0.10 ", "-1 "),
        _changed("0.10 ", "1e300 "),
        _changed(" 65536 ", " 65536 1 "),
        _capture("perftest-gbits")[1].rsplit("\n", 3)[0],  # cut off
        _capture("perftest-gbits")[1] * 2,
    ],
)
def test_table_that_is_not_understood_gives_no_rate(text: str) -> None:
    found = of_run("perftest", 0, text)
    assert isinstance(found, NoRate) and found.reason == "NOT_UNDERSTOOD"


def test_weft_and_weft_check_have_the_same_reasons_without_a_rate() -> None:
    """weft refuses a whole document that has a reason it doesn't know."""
    assert set(REASONS) == bandwidth.REASONS


def test_newer_unit_of_perftest_is_read() -> None:
    text = _capture("perftest-mbytes")[1].replace("MB/sec", "MiB/sec")
    assert of_run("perftest", 0, text) == of_run("perftest", 0, _capture("perftest-mbytes")[1])


@pytest.mark.parametrize("code", [124, 137])
def test_interrupted_run_has_no_rate_even_with_a_table(code: int) -> None:
    assert of_run("perftest", code, _capture("perftest-gbits")[1])[0] == "TIMED_OUT"


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("Failed to modify QP 17 to RTR", "NO_PATH"),
        (" Unable to Connect the HCA's through the link", "NO_PATH"),
        ("Completion with error at client\n Failed status 12: wr_id 0 syndrom 0x81", "NO_PATH"),
        ("Couldn't allocate MR\nfailed to create mr", "NO_MEMORY"),
        ("\x1b[31mSegmentation fault", "FAILED"),
        ("", "FAILED"),
    ],
)
def test_error_output_has_a_reason_and_printable_text(said: str, reason: str) -> None:
    found = of_run("perftest", 1, said)
    assert isinstance(found, NoRate) and found.reason == reason and found.said.isprintable()


_NCCL = """\
# nThread 1 nGpus 8 minBytes 1073741824 maxBytes 2147483648 step: 2(factor) warmup iters: 5 iters: 20
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
  1073741824     268435456     float     sum      -1   4123.1  260.42  455.73      0   4119.8  260.63  456.10      0
  2147483648     536870912     float     sum      -1   8101.4  265.08  463.88      0   8098.2  265.18  464.07      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 459.945
#
"""


def test_table_of_nccl_tests_is_read() -> None:
    assert of_nccl(_NCCL) == Collective(459.945 * 8, 464.07 * 8, 0)


@pytest.mark.parametrize(
    ("old", "new", "wrong"),
    [
        (" 456.10      0", " 456.10      7", 7),
        ("0 OK", "3 FAILED", 3),
        (" 464.07      0", " 464.07    N/A", None),
    ],
)
def test_wrong_elements_of_nccl_tests_are_counted(old: str, new: str, wrong: int | None) -> None:
    found = of_nccl(_NCCL.replace(old, new))
    assert found is not None and found.wrong == wrong


@pytest.mark.parametrize("cut", ["# Avg", "# Out of", "#       size", "#        (B)"])
def test_table_of_nccl_tests_without_one_of_its_lines_gives_nothing(cut: str) -> None:
    assert of_nccl("\n".join(line for line in _NCCL.splitlines() if not line.startswith(cut[:14]))) is None


def test_tables_of_several_processes_of_nccl_tests_give_nothing() -> None:
    """A build without MPI runs once on each GPU by itself, and each process prints a table."""
    head, rows = _NCCL.split("  1073741824", 1)
    mixed = [head, head, "  1073741824" + rows, "  1073741824" + rows]
    assert of_nccl("".join(mixed)) is None and of_nccl(_NCCL + _NCCL) is None


def test_client_gives_up_by_time_however_long_each_attempt_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An address that nothing answers takes seconds for each attempt."""
    monkeypatch.setattr(measuring, "LISTEN", 2)
    program = tmp_path / "ib_write_bw"
    program.write_text(
        '#!/bin/sh\necho attempt >> tries\nsleep 1\necho "Couldn\'t connect to 10.0.0.1:20000"\nexit 1\n'
    )
    program.chmod(0o755)
    plan = bandwidthplan.parse(json.dumps(_PLAN).encode())
    asked = measuring.script(plan, {0: Endpoint("mlx5_0")}, {0: 20000}, "10.0.0.1")
    path = f"{tmp_path}:{os.environ['PATH']}"
    command = ["sh", "-s"]
    done = subprocess.run(
        command, input=asked, cwd=tmp_path, env={"PATH": path}, capture_output=True, text=True, check=True
    )
    [(code, said)] = measuring.by_rail(done.stdout).values()
    found = of_run("perftest", code or 0, said)
    assert isinstance(found, NoRate) and found.reason == "NO_PEER"
    assert 1 <= len((tmp_path / "tries").read_text().split()) <= 4
