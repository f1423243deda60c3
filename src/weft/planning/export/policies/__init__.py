"""What weft's service user may do in OpenStack's services beyond what a member may: rules of oslo.policy, one file a
service, and the reason of each (docs/operating-roles.md). The lab's services read the same files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib import resources

import yaml

from weft.planning.export.text import head
from weft.planning.export.view import CloudView

USER = "weft_user_id"
"""Variable with the id of weft's user in Keystone, which is known once the user was created."""
PLACE = "WEFT_USER_ID"
"""Its placeholder in the file."""
WHAT = "the id of weft's user in Keystone; `nobody` until the user was created"


@cache
def policy(name: str, user: str = PLACE) -> str:
    """The text of a file: `neutron`, `nova`, `manila`, or `nova_moves`, which is for Nova, too.

    Args:
        user: the text that replaces the placeholder of the id of weft's user.
    """
    file = resources.files("weft.planning.export.policies") / f"{name}.yaml"
    return file.read_text(encoding="utf-8").replace(PLACE, user)


def policies_of(view: CloudView, user: str) -> Mapping[str, str]:
    """Service -> text of its rules, for the services that a cloud has."""
    nova = "\n".join((policy("nova"), policy("nova_moves", user)))
    found = {"neutron": policy("neutron"), "nova": nova}
    return {**found, "manila": policy("manila")} if view.cloud.storage.shares else found


def policy_files(view: CloudView, ref: Callable[[str], str]) -> dict[str, str]:
    """Path -> text, for Kolla Ansible, which renders them as templates."""
    texts = policies_of(view, ref(USER))
    return {f"config/{name}/policy.yaml": head(view.site.name) + text for name, text in texts.items()}


def rules(text: str) -> dict[str, str]:
    """Name of a rule -> what it checks."""
    return yaml.safe_load(text)
