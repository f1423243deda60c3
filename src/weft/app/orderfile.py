"""The pod file: YAML (or an already parsed document) into an `Order`; every error with its file and line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from weft.app.explain import validate_written
from weft.app.sitefile import read_text
from weft.app.yamltext import Positions, read_yaml
from weft.model.errors import InputError, InputErrors
from weft.model.ids import is_uuid
from weft.model.order import Order
from weft.model.sshkeys import shortened, wrong_ssh_key


def load_order(source: str | Path | Mapping[str, Any], name: str = "order") -> Order:
    """The order from a file (`Path`), from YAML text (`str`, called `name` in errors) or from a parsed document.

    Raises `InputErrors` with everything that is wrong.
    """
    if isinstance(source, Mapping):
        data, where = dict(source), Positions()
    elif isinstance(source, Path):
        data, where = read_yaml(read_text(source), str(source))
    else:
        data, where = read_yaml(source, name)
    order = validate_written(Order, data, where)
    if is_uuid(order.name):  # stored orders of before have such names
        raise InputErrors(
            [InputError("name", order.name, "a name that isn't like a pod's id", where.at(("name",)))]
        )
    key = order.access.ssh_key
    if key is not None and (allowed := wrong_ssh_key(key)):
        raise InputErrors(
            [InputError("access.ssh_key", shortened(key), allowed, where.at(("access", "ssh_key")))]
        )
    return order
