"""openstacksdk's `conn.accelerator_pod`: weft's pods as resources of openstacksdk.

`weft.sdk:hook` is a vendor hook (`vendor_hook: weft.sdk:hook` in clouds.yaml); `add` is called with a connection. The
address is that of the catalog, or `accelerator_pod_endpoint_override`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from openstack.connection import Connection
from openstack.service_description import ServiceDescription

from weft.client import SERVICE_TYPE
from weft.sdk.pod import Pod
from weft.sdk.proxy import PodProxy

__all__ = ["Pod", "PodProxy", "add", "hook"]


if TYPE_CHECKING:
    _Description = ServiceDescription[PodProxy]
else:
    _Description = ServiceDescription  # not generic in openstacksdk 4.4


class _PodService(_Description):
    """weft's API, which has one version."""

    supported_versions = {"1": PodProxy}  # noqa: RUF012 - the base class has it so


def hook(connection: Connection) -> None:
    """Give a connection the attribute `accelerator_pod`. Nothing is sent before its first use, since openstacksdk calls
    this for every connection to the cloud, whatever it is for.
    """
    connection.add_service(_PodService(SERVICE_TYPE))


def add(connection: Connection) -> PodProxy:
    """Give a connection the attribute `accelerator_pod`, and return it."""
    hook(connection)
    proxy: PodProxy = connection.accelerator_pod  # type: ignore[attr-defined]
    return proxy
