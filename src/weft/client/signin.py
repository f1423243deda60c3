"""Signing in like every OpenStack client, and finding the API in Keystone's catalog."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keystoneauth1 import exceptions as ksa
from keystoneauth1.session import Session

from weft.client.client import Client
from weft.client.transport import Json, outside, short
from weft.model.errors import InputError, PermanentError
from weft.model.errortable import Shown
from weft.planning.cloudsfile import check_clouds, check_profile

SERVICE_TYPE = "accelerator-pod"
"""Type of weft's entry in Keystone's catalog."""


def connect(
    cloud: str | None = None,
    endpoint: str | None = None,
    region: str | None = None,
    timeout: float = 60.0,
    cacert: str | None = None,
    given: Mapping[str, str | bool] | None = None,
) -> Client:
    """Sign in by clouds.yaml or OS_* and find the API.

    Args:
        cloud: name in clouds.yaml; None: OS_CLOUD, or OS_* alone.
        endpoint: address of the API; None: as the catalog says.
        timeout: seconds that a single answer may take.
        given: further options by name, such as `os_auth_url` and `insecure`; they win over files and variables.
        cacert: file with the authority of Keystone's and weft's certificates; None: OS_CACERT, or that of clouds.yaml.

    Raises `InputError` if there is nothing to sign in with, `UnauthenticatedError` if Keystone refuses,
    `TemporaryError` if it can't be reached and `PermanentError` if the catalog has no such service.
    """
    # Imported here: openstacksdk's configuration alone takes a second to load.
    from openstack import exceptions as sdk
    from openstack.config import OpenStackConfig
    from openstack.config.loader import CONFIG_FILES, SECURE_FILES

    for variable, usual in (("OS_CLIENT_CONFIG_FILE", CONFIG_FILES), ("OS_CLIENT_SECURE_FILE", SECURE_FILES)):
        files = [*filter(None, [os.environ.get(variable)]), *usual]
        check_clouds((str(file), Path(file).read_bytes) for file in files)
    # The error repeats keystoneauth's warnings in better words: they don't go to stderr unless there is a log.
    logging.getLogger("keystoneauth").addHandler(logging.NullHandler())
    try:
        config = OpenStackConfig(app_name="weft")
        settings: Json = {"region_name": region} if region else {}
        if authority := cacert or os.environ.get(
            "OS_CACERT"
        ):  # openstacksdk ignores the variable beside a named cloud
            settings["cacert"] = _readable(authority)
        found = config.get_one(cloud=cloud, **settings, **_given(given or {}))
        check_profile(found.config)
        for name in ("cacert", "cert", "key"):
            if isinstance(path := found.config.get(name), str):
                _readable(path, name)
        return of_cloud(found, endpoint, timeout)
    except sdk.ConfigException as error:
        raise InputError("--os-cloud", cloud, f"a cloud of clouds.yaml ({short(error)})") from None
    except (AttributeError, TypeError) as error:  # openstacksdk takes any YAML for what it should be
        raise InputError(
            "clouds.yaml", Shown("the file"), f"a mapping with `clouds` ({short(error)})"
        ) from None
    except (ksa.AuthPluginException, ValueError) as error:
        raise InputError(
            "--os-cloud", cloud, f"sign-in data in clouds.yaml (OS_CLOUD, --os-cloud) or OS_* ({error})"
        ) from None


_OF_CLOUD = ("auth_type", "default_domain", "interface", "cert", "key", "insecure")
"""Options that aren't of the plugin that signs in."""


def _given(options: Mapping[str, str | bool]) -> Json:
    """Options as openstacksdk takes them: those under `auth` win over a named cloud's."""
    plain = {name.removeprefix("os_"): value for name, value in options.items()}
    auth = {name: value for name, value in plain.items() if name not in _OF_CLOUD}
    rest = {name: value for name, value in plain.items() if name in _OF_CLOUD}
    return {**rest, **({"auth": auth} if auth else {})}


def _readable(authority: str, field: str = "--os-cacert") -> str:
    try:
        Path(authority).read_bytes()
    except OSError as error:
        raise InputError(field, authority, f"a file with certificates in PEM ({error.strerror})") from None
    return authority


def of_cloud(found: Any, endpoint: str | None = None, timeout: float = 60.0) -> Client:
    """The client for one cloud of openstacksdk's configuration (a `CloudRegion`)."""
    session = found.get_session()
    url = endpoint or found.get_endpoint(SERVICE_TYPE) or _from_catalog(session, found)
    return Client(session, url, timeout)


def _from_catalog(session: Session, found: Any) -> str:
    keystone = f"Keystone at {found.config.get('auth', {}).get('auth_url', '?')}"
    try:
        url = session.get_endpoint(
            service_type=SERVICE_TYPE,
            interface=found.get_interface(SERVICE_TYPE),
            region_name=found.get_region_name(SERVICE_TYPE),
        )
    except ksa.ClientException as error:
        raise outside(error, f"sign in and find the service {SERVICE_TYPE}", keystone) from None
    if not url:
        raise PermanentError(
            f"find the service {SERVICE_TYPE}",
            keystone,
            "its catalog has no such entry for this region and interface",
            "have the operator register weft's endpoint, or give --endpoint or WEFT_ENDPOINT",
        )
    return str(url)
