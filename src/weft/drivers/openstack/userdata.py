"""User data of servers, with the pod's keys and its storage substituted."""

from __future__ import annotations

from collections.abc import Sequence

from weft.drivers.openstack.base import Call
from weft.drivers.openstack.manila import export_location
from weft.generate.podtls import text_of
from weft.model.errors import PermanentError
from weft.model.messages import outside
from weft.model.podkeys import place
from weft.model.specs import ServerSpec


def user_data(call: Call, name: str, spec: ServerSpec) -> str | None:
    """User data of the server with this name; None if it has none."""
    if spec.user_data is None:
        return None
    text = _with_storage(call, spec.user_data, spec.storage)
    return _with_keys(call, name, text, spec.secrets) if spec.secrets else text


def _with_keys(call: Call, name: str, text: str, secrets: Sequence[str]) -> str:
    """User data with the pod's keys substituted; only those that the server may have."""
    keys = call.keys
    if keys is None:
        then = "run it with weft serve or weft worker"
        raise PermanentError(
            outside.REQUEST(verb="create", what=f"server {name}"),
            "weft",
            "its keys are not available here",
            then,
        )
    for secret in secrets:
        text = text.replace(place(secret), text_of(keys, call.scope.owner.id, secret))
    return text


def _with_storage(call: Call, text: str, storage: Sequence[str]) -> str:
    """User data with the shares' export locations, and the volumes' ids."""
    for key in storage:
        if place(key) in text:
            thing = call.ids.get(key, key)
            there = thing if key.startswith("volume/") else export_location(call.project, thing)
            text = text.replace(place(key), there)
    return text
