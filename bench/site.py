"""Applying a large site: first upload, then a change of one node, from a folder of YAML and CSV to the active site.

Client, server and PostgreSQL are three processes on the same machine. The rows are for 10,000 and 100,000 nodes (SITES
in the environment sets others, separated by commas); `python -m bench.site measure N` prints them for any number.
"""

from __future__ import annotations

import csv
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml

from bench.row import row
from bench.threads import served_by
from weftlab.processes import interrupt_on_sigterm

SITES = tuple(map(int, os.environ.get("SITES", "10000,100000").split(",")))
_TABLES = ("nodes", "hcas", "accelerators", "links", "switches")


def rows() -> list[dict[str, Any]]:
    return [one for nodes in SITES for one in rows_of(nodes)]


def rows_of(nodes: int) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="weft-bench-") as folder:
        write_site(Path(folder), nodes)
        words = [sys.executable, "-W", "ignore", "-m", "bench.site", "serve", folder]
        with served_by(words, 300) as (server, url):
            first = _client(Path(folder), url)
            _change(Path(folder), "new fan")
            change = _client(Path(folder), url)
            assert server.stdin is not None and server.stdout is not None
            server.stdin.close()
            served = json.loads(server.stdout.readline())
    return list(_rows(f"site of {nodes:,} nodes", first, change, served))


def _rows(of: str, first: dict[str, float], change: dict[str, float], served: dict[str, float]) -> Any:
    for what, one in (("first upload", first), ("one node changed", change)):
        yield row(f"{of}: {what}, file to in force", one["seconds"], "s")
        yield row(f"{of}: {what}, sent", one["bytes"] / 1e6, "MB")
    yield row(f"{of}: one node changed, processor of the client", change["processor"], "s")
    yield row(f"{of}: first upload, memory of the client", first["memory"], "MiB")
    yield row(f"{of}: one node changed, memory of the client", change["memory"], "MiB")
    yield row(f"{of}: memory of the server", served["memory"], "MiB")
    yield row(f"{of}: processor of the server, both", served["processor"], "s")
    yield row(f"{of}: another process reads the first", served["load"], "s")
    yield row(f"{of}: another process reads the change", served["reload"], "s")


def write_site(folder: Path, nodes: int) -> None:
    """The regular site as an operator would have it: `site.yaml` and CSV tables."""
    words = [sys.executable, "-m", "bench.site", "write", str(folder), str(nodes)]
    subprocess.run(words, check=True)  # in a process of its own, so that its memory isn't counted


def _write(folder: Path, nodes: int) -> None:
    from bench.sites import regular_site

    document = regular_site(nodes, managed=True).model_dump(mode="json")
    document["hcas"] = [{**h, "node": n["name"]} for n in document["nodes"] for h in n.pop("hcas")]
    document["accelerators"] = [
        {**a, "node": n["name"]} for n in document["nodes"] for a in n.pop("accelerators")
    ]
    for table in _TABLES:
        found = document.pop(table)
        with (folder / f"{table}.csv").open("w", newline="") as file:
            fields = [name for name in found[0] if not isinstance(found[0][name], list)]
            writer = csv.DictWriter(file, fields, extrasaction="ignore")
            writer.writeheader()
            writer.writerows(found)
        document[table] = {"csv": f"{table}.csv"}
    (folder / "site.yaml").write_text(yaml.safe_dump(document))


def _change(folder: Path, why: str) -> None:
    """Put the first node into maintenance, as an editor would write it."""
    file = folder / "nodes.csv"
    with file.open(newline="") as read:
        header, first, *rest = csv.reader(read)
    first[header.index("maintenance")] = why
    with file.open("w", newline="") as written:
        csv.writer(written).writerows([header, first, *rest])


def _client(folder: Path, url: str) -> dict[str, float]:
    """`weft site activate` in a process of its own: seconds from its start to its end."""
    words = [sys.executable, "-W", "ignore", "-m", "bench.site", "activate", str(folder), url]
    given = {"OS_AUTH_TYPE": "admin_token", "OS_ENDPOINT": url, "OS_TOKEN": "operator", "WEFT_ENDPOINT": url}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OS_")}
    env = {**kept, **given, "XDG_CACHE_HOME": str(folder / "cache")}
    began = time.perf_counter()
    done = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, env=env)
    seconds = time.perf_counter() - began
    return {"seconds": seconds, **json.loads(done.stdout.splitlines()[-1])}


def _activate(folder: Path) -> dict[str, float]:
    from keystoneauth1.session import Session

    from weft.cli.main import main

    sent, request = [0], Session.request

    def counted(self: Session, *args: Any, **kwargs: Any) -> Any:
        sent[0] += len(kwargs.get("data") or b"")
        return request(self, *args, **kwargs)

    Session.request = counted
    if code := main(["site", "activate", str(folder / "site.yaml")]):
        raise RuntimeError(f"weft site activate ended with {code}")
    return {"bytes": sent[0], "memory": _memory(), "processor": time.process_time()}


def _serve(folder: Path) -> None:
    from weft.api.app import create_app
    from weft.app.policy import Policy
    from weft.app.settings import ServeSettings
    from weft.app.wiring import shared_services
    from weft.engine.store.store import Store
    from weft.testing.callers import tokens
    from weft.testing.keystone import FakeIdentity
    from weft.testing.serving import served

    # The site's clouds, which are never asked but must be known.
    (folder / "clouds.yaml").write_text(
        yaml.safe_dump({"clouds": {"main": {"auth_type": "none", "auth": {"endpoint": "http://[::1]:1"}}}})
    )
    os.environ["OS_CLIENT_CONFIG_FILE"] = str(folder / "clouds.yaml")
    with shared_services(ServeSettings(state=folder / "state", worker=False)) as made:
        app = create_app(made.service(Policy()), FakeIdentity(tokens()), Policy())
        with served(app) as url:
            print(url, flush=True)
            sys.stdin.read()
        found = {"memory": _memory(), "processor": time.process_time()}
        other = Store(made.store.database)
        found |= _reading(other, made.store.database.url, made.store.site().generation)
        print(json.dumps(found), flush=True)


def _reading(store: Any, url: str, generation: int) -> dict[str, float]:
    """Seconds in which a new process reads a generation, and then the next."""
    import psycopg

    def read() -> float:
        began = time.process_time()
        store.site()
        return time.process_time() - began

    with psycopg.connect(url, autocommit=True) as connection:
        sql = "CREATE TABLE newest AS SELECT * FROM site WHERE generation = %s"
        connection.execute(sql.replace("%s", str(generation)))  # type: ignore[arg-type]
        connection.execute("DELETE FROM site WHERE generation = %s", [generation])
        load = read()
        connection.execute("INSERT INTO site OVERRIDING SYSTEM VALUE SELECT * FROM newest")
        return {"load": load, "reload": read()}


def _memory() -> float:
    """Peak memory of this process in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main(what: str, *words: str) -> int:
    interrupt_on_sigterm()
    if what == "measure":
        for found in rows_of(int(words[0])):
            print(f"{found['name']}: {found['value']:.3g} {found['unit']}", flush=True)
    elif what == "write":
        _write(Path(words[0]), int(words[1]))
    elif what == "serve":
        _serve(Path(words[0]))
    elif what == "activate":
        print(json.dumps(_activate(Path(words[0]))))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
