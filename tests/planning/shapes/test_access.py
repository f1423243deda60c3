"""Orders whose servers no user could log in to are recognized before they are submitted."""

from __future__ import annotations

import pytest

from weft.cli.podrecord import record
from weft.model.order import Order
from weft.planning.shapes.access import access_notes

NODES = {"count": 1, "flavor": "gpu8", "image": "ubuntu-24.04"}
INSIDE = "no floating IP (access.floating_ip): its servers are reachable only from inside"
NO_KEY = "no SSH key (access.key_pair or access.ssh_key): you can't log in"


@pytest.mark.parametrize(
    ("more", "notes"),
    [
        ({}, (NO_KEY, INSIDE)),
        (
            {"access": {"user_data": "#!/bin/sh"}},
            (f"{NO_KEY}, unless user_data or the image lets you in", INSIDE),
        ),
        ({"access": {"key_pair": "mine"}}, (INSIDE,)),
        (
            {"access": {"key_pair": "mine"}, "network": {"router": True}},
            (f"{INSIDE}, and by what its router leads to",),
        ),
        (
            {"access": {"key_pair": "mine", "floating_ip": "first"}},
            ("no access.ssh_from: SSH is let in only from the pod's own servers, whatever their addresses",),
        ),
        ({"access": {"key_pair": "mine", "floating_ip": "each", "ssh_from": ["192.0.2.0/24"]}}, ()),
    ],
)
def test_missing_access_is_reported(more: dict[str, object], notes: tuple[str, ...]) -> None:
    assert access_notes(Order.model_validate({"name": "p", "nodes": NODES, **more})) == notes


@pytest.mark.parametrize(
    ("image", "public", "command", "note"),
    [
        ("ubuntu-24.04", "203.0.113.7", "ssh ubuntu@203.0.113.7", ""),
        ("Rocky-9", None, "ssh rocky@10.0.0.5", "from inside: it has no floating IP"),
        (
            "tiny",
            "203.0.113.7",
            "ssh USER@203.0.113.7",
            "USER: by image, such as ubuntu or debian: docs/tenants.md",
        ),
    ],
)
def test_pod_is_shown_with_the_command_to_log_in(
    image: str, public: str | None, command: str, note: str
) -> None:
    server = {"name": "s", "node": "n", "management_address": "10.0.0.5", "floating_ip": public}
    shown = record({"name": "p", "order": {"nodes": {"image": image}}, "servers": [server]}).fields
    assert (shown["ssh"], shown["ssh_note"]) == (command, note)
