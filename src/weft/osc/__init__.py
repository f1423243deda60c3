"""Plugin for `openstack`: the commands of `weft pod` as `openstack pod …`, with its session and its catalog.

osc-lib finds it by the entry point `openstack.cli.extension`. `openstack` imports this module at every start, for any
command: nothing large is imported here.
"""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft.client import Client

API_NAME = "accelerator_pod"
API_VERSION_OPTION = "os_accelerator_pod_api_version"
API_VERSIONS = ("1",)
DEFAULT_API_VERSION = "1"


def make_client(instance: Any) -> Client:
    """weft's client with the session of `openstack` (an osc-lib `ClientManager`).

    The address is `WEFT_ENDPOINT`, or that of the catalog. Raises `PermanentError` if the catalog has none.
    """
    from weft.client import SERVICE_TYPE, Client
    from weft.model.errors import PermanentError

    url = os.environ.get("WEFT_ENDPOINT") or instance.get_endpoint_for_service_type(
        SERVICE_TYPE, region_name=instance.region_name, interface=instance.interface
    )
    if not url:
        raise PermanentError(
            f"find the service {SERVICE_TYPE}",
            "Keystone's catalog",
            "it has no such entry for this region and interface",
            "have the operator register weft's endpoint, or set WEFT_ENDPOINT",
        )
    return Client(instance.session, str(url))


def build_option_parser(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """The option that osc-lib expects of every service."""
    parser.add_argument(
        "--os-accelerator-pod-api-version",
        metavar="<accelerator-pod-api-version>",
        default=os.environ.get("OS_ACCELERATOR_POD_API_VERSION", DEFAULT_API_VERSION),
        help="version of weft's API (OS_ACCELERATOR_POD_API_VERSION; default 1)",
    )
    return parser
