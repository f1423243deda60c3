"""networking-mlnx's unmodified `mlnx_sdn_assist` in the lab's Neutron, with weft in UFM's place.

The package is put beside OpenStack's environment, which isn't changed by it: a folder on PYTHONPATH of every process of
Neutron. It needs nothing that Neutron doesn't have.
"""

from __future__ import annotations

import secrets
import shutil
from pathlib import Path

from weft.model.site import Site
from weftlab import checks, database
from weftlab.config import Sections
from weftlab.environment import Say, install_overlay, lock, program
from weftlab.layout import Layout
from weftlab.service import Service, Step

PACKAGE = "networking-mlnx==21.0.0"
DOMAIN = "cloudx"
FRONT_PACKAGES = {"haproxy": "haproxy"}
_FRONT = Path(__file__).parents[2] / "examples/neutron/haproxy.cfg"


def is_served(site: Site) -> bool:
    """Whether tenants' networks get partitions in this lab."""
    return any(f.tenant_networks for f in site.fabrics.values())


def overlay_path(cache: Path) -> Path:
    """Folder of networking-mlnx for the lab's Neutron."""
    return cache / PACKAGE.replace("==", "-")


def environment(layout: Layout, site: Site) -> dict[str, str]:
    """Environment variables of Neutron's processes."""
    return {"PYTHONPATH": str(overlay_path(layout.cache))} if is_served(site) else {}


def ensure_overlay(cache: Path, env: Path, say: Say) -> None:
    """Install the package, once for all labs. Raises `LabError`."""
    path = overlay_path(cache)
    with lock(cache / "environment.lock"):
        if (path / "complete").exists():
            return
        say(f"installing {PACKAGE} into {path}")
        shutil.rmtree(path, ignore_errors=True)
        install_overlay(env, path, PACKAGE)
        (path / "complete").touch()


def token_path(layout: Layout) -> Path:
    """File with the token that Neutron shows weft."""
    return layout.etc / "neutron" / "weft-token"


def write_token(layout: Layout) -> None:
    """Write the token that Neutron sends and weft demands; each lab has its own."""
    path = token_path(layout)
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(0o600)
        path.write_text(secrets.token_hex(16))


def with_driver(sections: Sections, layout: Layout, site: Site) -> Sections:
    """Neutron's configuration with the driver. It comes first: as the last one it isn't notified of `direct` ports."""
    first = f"mlnx_sdn_assist,{sections['ml2']['mechanism_drivers']}"
    places = sorted(f.physical_network for f in site.fabrics.values() if f.tenant_networks)
    return {
        **sections,
        "ml2": {**sections["ml2"], "mechanism_drivers": first},
        "sdn": {
            "url": f"{layout.url('front')}/mlnx",
            "token": token_path(layout).read_text(),
            "domain": DOMAIN,
            "sync_enabled": True,
            "physical_networks": ",".join(places),
        },
    }


def schema_step(layout: Layout, env: Path, site: Site, after: tuple[str, ...]) -> Step:
    """Create the driver's own tables."""
    config = str(layout.etc / "neutron" / "neutron.conf")
    command = [str(env / "bin" / "neutron-db-manage"), "--config-file", config]
    command += ["--subproject", "networking-mlnx", "upgrade", "head"]
    more = environment(layout, site)
    # At another start of the lab there is nothing to do; the program takes 3 s of processor time to find that out.
    made = layout.data / "neutron" / "mlnx-schema"

    def work() -> None:
        database.run(layout, "mlnx", command, env, more)
        made.write_text(PACKAGE)

    return Step(
        "schema of mlnx", work, after=after, done=lambda: made.exists() and made.read_text() == PACKAGE
    )


def front_text(listen: int, weft: int) -> str:
    """The front's configuration as it is shipped, but for the two ports; weft is on this host, without TLS."""
    lines = _FRONT.read_text().splitlines()
    own = {"bind ": f"    bind 127.0.0.1:{listen}", "server ": f"    server weft 127.0.0.1:{weft}"}
    return "\n".join(next((own[w] for w in own if line.strip().startswith(w)), line) for line in lines) + "\n"


def front(layout: Layout) -> Service:
    """haproxy between Neutron and weft, as a service: it answers also while weft is down."""
    path = layout.etc / "front" / "haproxy.cfg"
    return Service(
        name="front",
        argv=(program("haproxy") or "haproxy", "-db", "-f", str(path)),
        log=layout.log("front"),
        cwd=layout.work / "front",
        ready=checks.answers_tcp("127.0.0.1", layout.port("front")),
        timeout=30,
    )


def write_front(layout: Layout) -> None:
    """Write the configuration of the haproxy in front of weft."""
    path = layout.etc / "front" / "haproxy.cfg"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(front_text(layout.port("front"), layout.port("weft")))
