"""What Neutron is asked for a virtual function behind its NIC's embedded switch."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from weft.drivers.openstack.base import Call
from weft.drivers.openstack.port import Ports
from weft.model.resources import Resource
from weft.model.specs import PortSpec


def port(switchdev: bool) -> Resource:
    spec = PortSpec(
        network="n", subnet="s", address="10.0.0.5", vnic_type="direct", host="gpu01", switchdev=switchdev
    )
    return Resource(key="port/gpu01/mlx5_0", name="weft-port", where="lab", spec=spec)


@pytest.mark.parametrize("switchdev", [False, True])
def test_open_vswitch_functions_have_the_switchdev_capability(switchdev: bool) -> None:
    call = cast(Call, SimpleNamespace(id_of=lambda key: f"id of {key}"))
    body: dict[str, Any] = Ports().body(call, port(switchdev))
    assert body["binding:vnic_type"] == "direct" and body["port_security_enabled"] is False
    assert body.get("binding:profile") == ({"capabilities": ["switchdev"]} if switchdev else None)
