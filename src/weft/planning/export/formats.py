"""The formats of `weft site export`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from weft.model.errors import InputError
from weft.model.site import Site
from weft.planning.export.kayobe import kayobe_files
from weft.planning.export.kolla import kolla_files
from weft.planning.export.prometheus import prometheus_files
from weft.planning.export.terraform import NOTHING, terraform_files
from weft.planning.export.tripleo import tripleo_files
from weft.planning.export.view import CloudView, view_of
from weft.ports.existing import ExistingResources

DEPLOYMENTS: Mapping[str, Callable[[CloudView], dict[str, str]]] = {
    "kolla": kolla_files,
    "kayobe": kayobe_files,
    "tripleo": tripleo_files,
}
"""Name -> path and text of each file that a cloud is deployed with."""
TERRAFORM = "terraform"
PROMETHEUS = "prometheus"
FORMATS = (*DEPLOYMENTS, TERRAFORM, PROMETHEUS)


def export(
    site: Site,
    form: str,
    cloud: str | None = None,
    there: ExistingResources = NOTHING,
    profile: str | None = None,
) -> dict[str, str]:
    """Path -> text of the files of a tool; the same site gives the same bytes.

    Args:
        there: what is in the cloud already, for Terraform.
        profile: the cloud's name in clouds.yaml, for Terraform; None: as the site says.

    Raises `InputError` or `InputErrors` for what the site lacks for it.
    """
    if form == TERRAFORM:
        return terraform_files(site, cloud, there, profile)
    if form == PROMETHEUS:
        if cloud is not None:
            raise InputError("--cloud", cloud, "no cloud: Prometheus' files are of the whole site")
        return prometheus_files(site)
    return DEPLOYMENTS[form](view_of(site, cloud))
