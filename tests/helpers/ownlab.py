"""A lab for one test module, beside that of the whole run."""

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
    """A lab that is taken down at the end, with its ports free.

    It isn't in pytest's folder: another run makes that private, and a lab's PostgreSQL runs as another user.

    Args:
        settings: those of `weft lab up`.
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
