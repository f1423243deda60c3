"""The databases: made and filled once, kept in the cache as golden images, copied for each lab.

A golden image has the schemas, the identities, the catalog, flavors, the image and the external network, so that
a lab that finds one skips all of it. What differs between labs (ports, paths) is set by SQL when MariaDB starts.
"""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from weftlab import config
from weftlab.catalog import endpoints
from weftlab.environment import lock, pins_key, program
from weftlab.infra import as_root, init_file
from weftlab.layout import LabError, Layout
from weftlab.service import Step
from weftlab.supervisor import tail

CODE = ("config.py", "bootstrap.py", "catalog.py", "database.py", "infra.py")
PARTS = ("mysql", "glance")
UNUSED_SECONDS = 14 * 86400  # golden images that no lab used in that time are removed


def golden_path(cache: Path) -> Path:
    """Named after everything that is in it: the pins, the code that fills it, the database's version."""
    here = Path(__file__).parent
    key = hashlib.sha256(pins_key().encode())
    for name in CODE:
        key.update((here / name).read_bytes())
    version = subprocess.run(
        [program("mariadbd") or "mariadbd", "--no-defaults", "--version"],
        capture_output=True,
        text=True,
        check=False,
    )
    key.update(version.stdout.encode())
    return cache / f"golden-{key.hexdigest()[:12]}"


def filled_path(layout: Layout) -> Path:
    """Exists once the databases are complete: an interrupted start doesn't leave it behind."""
    return layout.data / "filled"


def restore(layout: Layout, golden: Path) -> None:
    """Copy a golden image into an empty place."""
    for part in PARTS:
        _copy(golden / part, layout.data / part)
    golden.touch()
    filled_path(layout).touch()


def save(layout: Layout, golden: Path) -> None:
    """Keep the data of a cleanly stopped MariaDB; if two labs do it concurrently, the first one wins."""
    with lock(golden.parent / "golden.lock"):
        if golden.exists():
            return
        new = golden.with_suffix(".new")
        shutil.rmtree(new, ignore_errors=True)
        for part in PARTS:
            _copy(layout.data / part, new / part)
        new.rename(golden)
        for old in golden.parent.glob("golden-*"):
            if time.time() - old.stat().st_mtime > UNUSED_SECONDS:
                shutil.rmtree(old, ignore_errors=True)


def _copy(source: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        ["cp", "-a", "--reflink=auto", "--sparse=always", str(source), str(target)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise LabError(f"can't copy {source} to {target}: {done.stderr.strip()}")


def create(layout: Layout) -> None:
    """Create the data folder of an empty MariaDB."""
    run(
        layout,
        "mariadb-install-db",
        [
            program("mariadb-install-db") or "mariadb-install-db",
            "--no-defaults",
            *as_root(),
            f"--datadir={layout.data / 'mysql'}",
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
        ],
    )


def write_init_file(layout: Layout, fresh: bool, more: Collection[str] = ()) -> None:
    """SQL for the start: the databases themselves, or what is different from the lab that made the golden image.

    Args:
        more: databases that no golden image has.
    """
    if fresh:
        # utf8mb3: keystone's longest index would be too long otherwise.
        lines = [f"CREATE DATABASE IF NOT EXISTS {d} CHARACTER SET utf8mb3;" for d in config.DATABASES]
    else:
        lines = [
            "UPDATE keystone.endpoint e JOIN keystone.service s ON e.service_id = s.id "
            f"SET e.url = '{url}' WHERE s.type = '{kind}';"
            for _, kind, url in endpoints(layout)
        ]
        images = layout.data / "glance" / "images"
        lines += [
            f"UPDATE glance.image_locations SET value = CONCAT('file://{images}/', image_id);",
            _cell(layout, "cell0", "none:///", "nova_cell0"),
            _cell(layout, "cell1", config.transport_url(layout), "nova"),
        ]
    lines += [f"CREATE DATABASE IF NOT EXISTS {d} CHARACTER SET utf8mb3;" for d in more]
    init_file(layout).parent.mkdir(parents=True, exist_ok=True)
    init_file(layout).write_text("\n".join(lines) + "\n")


def _cell(layout: Layout, name: str, transport: str, database: str) -> str:
    return (
        f"UPDATE nova_api.cell_mappings SET transport_url = '{transport}', "
        f"database_connection = '{config.database_url(layout, database)}' WHERE name = '{name}';"
    )


def write_keys(layout: Layout) -> None:
    """Keystone's keys for tokens and credentials, each lab its own: one lab's token is nothing in another.

    A key repository is a folder of Fernet keys named by number, see keystone/common/fernet_utils.py; 0 is the
    staged key, the highest the primary one.
    """
    for name in ("fernet", "credential"):
        folder = layout.data / "keystone" / name
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
        for number in ("0", "1"):
            key = folder / number
            if not key.exists():
                key.touch(0o600)
                key.write_bytes(base64.urlsafe_b64encode(os.urandom(32)))


def sync_steps(layout: Layout, env: Path) -> tuple[Step, ...]:
    """Every schema, in parallel, and Keystone's first user. Only for a fresh database."""

    def step(name: str, *commands: list[str]) -> Step:
        def work() -> None:
            for command in commands:
                run(layout, name, [str(env / "bin" / command[0]), *command[1:]], env)

        return Step(f"schema of {name}", work, after=("mariadb",))

    def conf(service: str, file: str | None = None) -> list[str]:
        return ["--config-file", str(layout.etc / service / (file or f"{service}.conf"))]

    keystone = ["keystone-manage", *conf("keystone")]
    nova = ["nova-manage", *conf("nova")]
    cell0 = ["--database_connection", config.database_url(layout, "nova_cell0")]
    return (
        step(
            "keystone",
            [*keystone, "db_sync"],
            [
                *[*keystone, "bootstrap", "--bootstrap-username", "operator"],
                *["--bootstrap-project-name", "admin", "--bootstrap-password", config.SECRET],
                *["--bootstrap-region-id", config.REGION],
                *["--bootstrap-public-url", f"{layout.url('keystone')}/v3"],
                *["--bootstrap-internal-url", f"{layout.url('keystone')}/v3"],
            ],
        ),
        step("placement", ["placement-manage", *conf("placement"), "db", "sync"]),
        step("glance", ["glance-manage", *conf("glance", "glance-api.conf"), "db_sync"]),
        step("neutron", ["neutron-db-manage", *conf("neutron"), "upgrade", "heads"]),
        step(
            "nova",
            [*nova, "api_db", "sync"],
            [*nova, "cell_v2", "map_cell0", *cell0],
            [*nova, "cell_v2", "create_cell", "--name", "cell1"],
            [*nova, "db", "sync"],
        ),
    )


def run(
    layout: Layout,
    name: str,
    command: list[str],
    env: Path | None = None,
    more: Mapping[str, str] | None = None,
) -> None:
    """Run a program to its end; its output goes to a log. Raises `LabError` with the log's end if it fails."""
    log = layout.log(f"setup-{name.replace(' ', '-')}")
    for folder in (log.parent, layout.work):
        folder.mkdir(parents=True, exist_ok=True)
    quiet = {"LC_ALL": "C.UTF-8", "PYTHONWARNINGS": "ignore"}
    path = f"{env / 'bin'}:{os.environ.get('PATH', '')}" if env else os.environ.get("PATH", "")
    with log.open("ab") as out:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd=layout.work,
            env={"PATH": path, "HOME": str(layout.work), **quiet, **(more or {})},
            check=False,
        )
    if done.returncode:
        raise LabError(f"{' '.join(command)} ended with {done.returncode}\n{tail((log,))}")


def golden_step(golden: Path, layout: Layout, pause: Callable[[Callable[[], None]], None]) -> Step:
    """Save the golden image with MariaDB stopped for a moment; the services reconnect by themselves."""

    def work() -> None:
        pause(lambda: save(layout, golden))
        filled_path(layout).touch()

    return Step("golden image", work, after=("bootstrap",))
