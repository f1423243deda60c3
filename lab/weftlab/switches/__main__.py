"""The management interfaces of a lab's switches, as one program: `python -m weftlab.switches STATE CACHE PORTS`.

Each switch starts with the configuration that was saved last, as a switch does after a power failure.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from weft.ending import EndSignal
from weftlab.layout import LabError, Layout, load
from weftlab.switches.fronts import Fronts
from weftlab.switches.labsite import lab_ovs, lab_plan, ports_of, switches_folder


def main(argv: Sequence[str]) -> int:
    """Serve all switches until SIGTERM; `argv`: state folder, cache, first port. Raises `LabError`."""
    state, cache, ports = argv
    layout = Layout(Path(state), Path(cache), int(ports))
    settings = load(layout.state)
    if settings is None:
        raise LabError(f"no lab in {state}")
    plan = lab_plan(settings)
    ended = EndSignal()
    fronts = Fronts(switches_folder(layout), plan, lab_ovs(layout), ports_of(layout, plan), keep=True)
    ended.wait()
    fronts.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
