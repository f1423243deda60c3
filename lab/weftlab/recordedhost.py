"""`python -m weftlab.recordedhost FOLDER …`: weft-check on a recorded host instead of this machine.

The program is the real one: what it reads comes from the folder (`weftlab.hostfolder`) and from recorded outputs.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from weftcheck.cli import main
from weftcheck.host import MissingError, Output
from weftlab.hostfolder import CHRONY, CHRONY_COMMAND, JOURNAL, JOURNAL_COMMAND
from weftlab.smioutput import output

RECORDED = {JOURNAL_COMMAND: JOURNAL, CHRONY_COMMAND: CHRONY, "nvidia-smi -q -x": output()}


def run(command: Sequence[str], timeout: float) -> Output:
    """A `weftcheck.host.Runner`: what was recorded; other programs aren't installed."""
    name = " ".join(command)
    if name not in RECORDED:
        raise MissingError(name, f"the program {command[0]} isn't installed")
    return Output(RECORDED[name], 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[2:], Path(sys.argv[1]), run))
