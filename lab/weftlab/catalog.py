"""The APIs: one row each, the source of processes, catalog, users and readiness checks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from weftlab import config
from weftlab.layout import Layout


@dataclass(frozen=True, slots=True)
class Api:
    """An OpenStack API.

    Attributes:
        name: of the service and of its Keystone user.
        type: in the catalog.
        path: behind the port, in the catalog's URL.
        module: WSGI module; its `application` is served.
        files: configuration files, in the service's folder; the function gives their content.
        env: environment with which the module finds them; `{etc}` is the folder.
    """

    name: str
    type: str
    path: str
    module: str
    files: tuple[tuple[str, Callable[[Layout, Path], config.Sections]], ...]
    env: tuple[tuple[str, str], ...]

    def url(self, layout: Layout) -> str:
        """Address in the catalog, `http://127.0.0.1:PORT/PATH`."""
        return layout.url(self.name) + self.path


COLLECTOR = ("--pythonpath", str(Path(__file__).with_name("programs")), "--import", "weftlab_collector")
"""Options of uwsgi: a module that each of its processes imports after the application."""

REQUEST_LOG = ("--log-format", "request %(status) %(msecs)ms %(method) %(uri) by %(uagent)")
"""Options of uwsgi: a line for each answered request, with the name that the asking program gives itself."""

API_SERVICES = (
    Api(
        "keystone",
        "identity",
        "/v3",
        "keystone.wsgi.api",
        (("keystone.conf", config.keystone),),
        (("OS_KEYSTONE_CONFIG_DIR", "{etc}"), ("OS_KEYSTONE_CONFIG_FILES", "{etc}/keystone.conf")),
    ),
    Api(
        "placement",
        "placement",
        "",
        "placement.wsgi.api",
        (("placement.conf", config.placement),),
        (("OS_PLACEMENT_CONFIG_DIR", "{etc}"),),
    ),
    Api(
        "glance",
        "image",
        "",
        "glance.wsgi.api",
        (("glance-api.conf", config.glance),),
        (("OS_GLANCE_CONFIG_DIR", "{etc}"), ("OS_GLANCE_CONFIG_FILES", "{etc}/glance-api.conf")),
    ),
    Api(
        "neutron",
        "network",
        "",
        "neutron.wsgi.api",
        (("neutron.conf", config.neutron),),
        (("OS_NEUTRON_CONFIG_DIR", "{etc}"), ("OS_NEUTRON_CONFIG_FILES", "{etc}/neutron.conf")),
    ),
    Api(
        "nova",
        "compute",
        "/v2.1",
        "nova.wsgi.osapi_compute",
        (("nova.conf", config.nova), ("nova-compute.conf", config.nova_compute)),
        # api-paste.ini must be in the same folder; OS_NOVA_CONFIG_FILES must stay unset.
        (("OS_NOVA_CONFIG_DIR", "{etc}"),),
    ),
)

WEFT_TYPE = "accelerator-pod"


def endpoints(layout: Layout) -> list[tuple[str, str, str]]:
    """Name, type and URL of everything in the catalog, weft itself included."""
    rows = [(api.name, api.type, api.url(layout)) for api in API_SERVICES]
    return [*rows, ("weft", WEFT_TYPE, layout.url("weft"))]
