"""Lists of GUIDs for a planned fabric: CSV with the columns node, name, guid, port_guid and pci.

A row without a node is a switch's. What the list doesn't have keeps its placeholder.
"""

from __future__ import annotations

from pathlib import Path

from weft.app.csvtables import read_rows
from weft.app.explain import validate
from weft.app.yamltext import Positions
from weft.generate.fattree import AdapterIdentity, Identities, SwitchIdentity
from weft.model.errors import InputError, InputErrors
from weft.planning.site.fattree import FatTree, adapter, server

_COLUMNS = frozenset(AdapterIdentity.model_fields)


def read_guids(file: str, tree: FatTree) -> Identities:
    """What a list says of the design's switches and adapters. Raises `InputErrors` with every wrong row."""
    path = Path(file)
    if not path.is_file():
        raise InputErrors([InputError("--guids", file, "an existing CSV file")])
    errors: list[InputError] = []
    once: list[tuple[str, str, int | str]]
    found, seen = Identities(), dict[tuple[str, int | str], str]()
    known = {server(i): {adapter(r) for r in range(tree.rails)} for i in range(tree.servers)}
    switches = {s.name for s in tree.switches}
    for row, place in read_rows(path, file, _COLUMNS, errors):
        where = Positions({(): place})
        try:
            if "node" in row:
                one = validate(AdapterIdentity, row, where)
                if one.name not in known.get(one.node, ()):
                    first, last = server(0), server(tree.servers - 1)
                    allowed = f"of this design: {first}/{adapter(0)} to {last}/{adapter(tree.rails - 1)}"
                    raise InputErrors([InputError("node", f"{one.node}/{one.name}", allowed, place)])
                once = [("guid", "guid", one.guid), ("port_guid", "port_guid", one.port_guid)]
                once += [("pci", one.node, one.pci)] if one.pci is not None else []
                twice = found.adapters.setdefault((one.node, one.name), one) is not one
            else:
                it = validate(SwitchIdentity, row, where)
                if it.name not in switches:
                    allowed = (
                        f"a switch of this design, such as {tree.switches[0].name}; adapters need their node"
                    )
                    raise InputErrors([InputError("name", it.name, allowed, place)])
                once = [("guid", "guid", it.guid), ("guid", "port_guid", it.guid)]
                twice = found.switches.setdefault(it.name, it) is not it
        except InputErrors as error:
            errors += error.errors
            continue
        if twice:
            errors.append(InputError("name", row["name"], "each switch and adapter once", place))
            continue
        for column, among, value in once:
            if (other := seen.setdefault((among, value), place)) != place:
                what = "PCI address of a server" if column == "pci" else "GUID"
                errors.append(InputError(column, row[column], f"each {what} once; {other} has it too", place))
    if errors:
        raise InputErrors(errors)
    return found
