"""Rooms of the engine stay small enough to be read at one go."""

from __future__ import annotations

from pathlib import Path

import weft.engine

MOST = 20


def test_no_room_of_the_engine_has_more_than_twenty_modules() -> None:
    rooms = [folder.parent for folder in Path(weft.engine.__file__).parent.glob("*/__init__.py")]
    sizes = {room.name: sum(one.name != "__init__.py" for one in room.glob("*.py")) for room in rooms}
    assert len(rooms) > 10
    assert {room: size for room, size in sizes.items() if size > MOST} == {}
