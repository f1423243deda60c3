"""An IPU that a machine doesn't list, or lists twice with different health, isn't healthy."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest

from openvipu.controller.health import Health
from openvipu.model.hardware import MachineStatus, SettingStatus
from openvipu.model.partition import Partition
from openvipu.model.site import Ipu

IPUS = tuple(Ipu(number, f"chip{number}") for number in range(4))
STATUS = MachineStatus("m1", IPUS, ())
DEAD = Ipu(2, "chip2", healthy=False)


@pytest.mark.parametrize(
    ("ipus", "unhealthy"),
    [
        (IPUS, set()),
        (IPUS[:3], {3}),
        ((), {0, 1, 2, 3}),
        ((*IPUS[:2], DEAD, IPUS[3]), {2}),
        ((*IPUS, DEAD), {2}),
    ],
)
def test_unlisted_ipu_is_not_assigned(ipus: tuple[Ipu, ...], unhealthy: set[int]) -> None:
    health = Health(3)
    health.answered("a1", replace(STATUS, ipus=ipus))
    assert health.unhealthy() == {("a1", number) for number in unhealthy}


@pytest.mark.parametrize(
    ("settings", "errors"),
    [
        ((SettingStatus("p", 1),), ()),
        ((SettingStatus("p", 1), SettingStatus("p", 1, ("link down",))), ("link down",)),
        ((SettingStatus("p", 2), SettingStatus("q", 1)), ("agent a1 has lost its setting",)),
        ((), ("agent a1 has lost its setting",)),
    ],
)
def test_errors_of_every_row_of_a_setting_are_reported(
    settings: tuple[SettingStatus, ...], errors: tuple[str, ...]
) -> None:
    class Active:
        id, generation, agent_ids = "p", 1, ("a1",)

    health = Health(3)
    health.answered("a1", replace(STATUS, settings=settings))
    assert health.errors(cast(Partition, Active())) == errors
