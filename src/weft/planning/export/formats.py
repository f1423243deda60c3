"""The formats of `weft site export`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from weft.model.site import Site
from weft.planning.export.kolla import kolla_files
from weft.planning.export.tripleo import tripleo_files
from weft.planning.export.view import View, view_of

FORMATS: Mapping[str, Callable[[View], dict[str, str]]] = {"kolla": kolla_files, "tripleo": tripleo_files}
"""Name -> path and text of each file."""


def export(site: Site, form: str, cloud: str | None = None) -> dict[str, str]:
    """Path -> text of the files of a deployment tool; the same site gives the same bytes.

    Raises `InputError` or `InputErrors` for what the site lacks for it.
    """
    return FORMATS[form](view_of(site, cloud))
