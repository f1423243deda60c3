"""A lab of a test module's own, beside that of the whole run."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from weftlab.lab import Lab
from weftlab.layout import free_ports


@contextmanager
def own_lab(**settings: Any) -> Generator[Lab]:
    """Up while it is used; down, it leaves no port taken. `settings`: as `weft lab up`.

    Not in pytest's own folder: another run makes that private again, and a lab's PostgreSQL runs as a user of its own.
    """
    with TemporaryDirectory(prefix="weft-lab-") as folder:
        Path(folder).chmod(0o755)
        made = Lab(Path(folder) / "lab", ports=free_ports(), say=print, **settings)
        made.up()
        try:
            yield made
        finally:
            made.down()
            assert made.layout.taken_ports() == {}
