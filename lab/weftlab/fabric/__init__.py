"""The lab's InfiniBand fabric: real OpenSM (two of them) over ibsim, an agent next to each, and faults on demand."""

from weftlab.fabric.faults import Faults
from weftlab.fabric.files import Place, write_files
from weftlab.fabric.jobs import fabric_jobs

__all__ = ["Faults", "Place", "fabric_jobs", "write_files"]
