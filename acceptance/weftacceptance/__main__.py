"""`make acceptance AI_CLOUD_VALIDATION=CHECKOUT [LAB=STATE]`: runs the suites and compares the result with the
committed table."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import yaml

from weftacceptance import provider, table
from weftacceptance.cloud import KeystoneCloud, LostError
from weftacceptance.inside import LabInside
from weftacceptance.logins import lab_logins
from weftacceptance.server import Helper
from weftacceptance.sweep import sweep
from weftacceptance.verbs import STEPS

HERE = Path(__file__).parents[1]
TABLE = HERE / "expected.json"
PAGE = HERE.parent / "docs" / "acceptance.md"
_LIMIT = 2400
"""Seconds for one suite."""
_OPTIONS = ("--guests", "--metal", "2", "--storage")
"""Options of the lab that is started."""


def main() -> int:
    """The exit code: 0 if everything is as in the table, 1 if not, 2 if nothing could be run."""
    parser = argparse.ArgumentParser(prog="weftacceptance", description=__doc__)
    parser.add_argument("checkout", type=Path, help="folder with NVIDIA's ai-cloud-validation")
    parser.add_argument(
        "--lab", type=Path, help="state of a lab that runs; default: one is started, and removed"
    )
    parser.add_argument("--ports", type=int, default=24_000, help="first port of the lab that is started")
    parser.add_argument("--isvctl", type=Path, help="default: of the checkout's .venv, or in PATH")
    parser.add_argument(
        "--suite", action="append", choices=provider.SUITES, help="only this one; may be repeated"
    )
    parser.add_argument("--update", action="store_true", help="write the table and docs/acceptance.md")
    args = parser.parse_args()
    checkout = provider.Checkout(args.checkout.resolve())
    isvctl = args.isvctl or _isvctl(checkout.folder)
    if not (checkout.configs / "suites").is_dir():
        return _wrong(
            f"{args.checkout} has no isvctl/configs/suites: it isn't a checkout of ai-cloud-validation"
        )
    if isvctl is None:
        return _wrong(
            f"no isvctl in {args.checkout}/.venv/bin or PATH: install it as acceptance/README.md says"
        )
    suites: list[str] = args.suite or list(provider.SUITES)
    try:
        with (
            _lab(args.lab, args.ports) as state,
            tempfile.TemporaryDirectory(prefix="weft-acceptance-") as folder,
        ):
            rows, left = run(checkout, isvctl.resolve(), state, suites, Path(folder))
    except (LostError, subprocess.CalledProcessError) as error:
        return _wrong(f"the lab can't be used: {error}")
    return _end(rows, left, checkout.version, suites, args.update)


def run(
    checkout: provider.Checkout, isvctl: Path, state: Path, suites: list[str], folder: Path
) -> tuple[list[table.Row], list[str]]:
    """Runs suites; their rows, and what is left afterwards. Raises `LostError` if the cloud can't be swept."""
    cloud = KeystoneCloud(state / "clouds.yaml")
    sweep(cloud)
    rows: list[table.Row] = []
    with lab_logins(state) as logins, Helper(cloud, folder / "socket", logins, LabInside(state)) as helper:
        for suite in suites:
            began = time.monotonic()
            there = logins is not None and (suite != "bare_metal" or _has_metal(state))
            launches = there and (suite, "launch_instance") in STEPS
            document = provider.configuration(checkout, suite, HERE / "step.py", folder / "socket", launches)
            file = folder / f"{suite}.yaml"
            file.write_text(yaml.safe_dump(document))
            # `isvctl` runs in the pod's network, so that checks can log in to servers; steps need only the socket.
            within = logins.within if logins is not None else ()
            output = _ask((*within, str(isvctl)), provider.arguments(suite, file), folder)
            answers = {step: found for (of, step), found in helper.answers.items() if of == suite}
            excluded = provider.excluded(checkout, suite, launches)
            mine = list(table.rows_of(checkout.checks(suite), output, answers, excluded))
            found = ", ".join(f"{number} {name}" for name, number in table.counts(mine).items())
            sys.stdout.write(f"{suite}: {found}; {time.monotonic() - began:.0f} s\n")
            sys.stdout.flush()
            rows += mine
    return rows, sweep(cloud)


def _has_metal(state: Path) -> bool:
    return bool(json.loads((state / "lab.json").read_text()).get("metal"))


def _ask(isvctl: tuple[str, ...], arguments: list[str], folder: Path) -> str:
    environment = os.environ | {"PATH": f"{Path(isvctl[-1]).parent}:{os.environ['PATH']}"}
    try:
        done = subprocess.run(
            [*isvctl, *arguments],
            check=False,
            capture_output=True,
            text=True,
            cwd=folder,
            env=environment,
            timeout=_LIMIT,
        )
    except subprocess.TimeoutExpired:
        return ""  # without output all checks count as not run
    if not table.results_of(done.stdout):
        said = (done.stderr or done.stdout).strip().splitlines()[-1:]
        sys.stdout.write(f"isvctl ended with {done.returncode} and no result of a check: {''.join(said)}\n")
    return done.stdout


def _end(rows: list[table.Row], left: list[str], version: str, suites: list[str], update: bool) -> int:
    found = table.counts(rows)
    sys.stdout.write(
        ", ".join(f"{number} {name}" for name, number in found.items()) + f", of {len(rows)} checks\n"
    )
    committed = table.load(TABLE)
    wrong = [f"left in the cloud: {one}" for one in left]
    if version != provider.VERSION:
        wrong.append(f"the checkout is of version {version or '?'}, the table of {provider.VERSION}")
    if update:
        kept = [one for one in committed if one.suite not in suites]
        every = sorted([*kept, *rows], key=lambda one: provider.SUITES.index(one.suite))
        table.save(TABLE, every)
        write_page(every)
    else:
        wrong += table.compare(rows, [one for one in committed if one.suite in suites])
    for line in wrong:
        sys.stdout.write(f"acceptance: {line}\n")
    return 1 if wrong else 0


def write_page(rows: list[table.Row]) -> None:
    """Writes docs/acceptance.md."""
    PAGE.write_text(table.page(rows, (HERE / "page.md").read_text()))


@contextmanager
def _lab(state: Path | None, ports: int) -> Generator[Path]:
    """State folder of a lab: the given one, or that of a new lab, which is removed at the end."""
    if state is not None:
        yield state
        return
    weft = Path(sys.executable).with_name("weft")
    folder = Path(tempfile.mkdtemp(prefix="weft-acceptance-lab-"))
    try:
        subprocess.run(
            [weft, "lab", "up", "--state", folder / "lab", "--ports", str(ports), *_OPTIONS],
            check=True,
        )
        yield folder / "lab"
    finally:
        subprocess.run([weft, "lab", "down", "--state", folder / "lab"], check=False)
        shutil.rmtree(folder, ignore_errors=True)


def _isvctl(checkout: Path) -> Path | None:
    own = checkout / ".venv" / "bin" / "isvctl"
    found = shutil.which("isvctl")
    return own if own.exists() else Path(found) if found else None


def _wrong(text: str) -> int:
    sys.stderr.write(f"acceptance: {text}\n")
    return 2


if __name__ == "__main__":
    sys.exit(main())
