"""The lab's InfiniBand fabric: real OpenSM (two of them) over ibsim, an agent next to each, and faults on demand."""

from weftlab.fabric.faults import Faults
from weftlab.fabric.files import FabricFolder, write_files
from weftlab.fabric.jobs import fabric_jobs

__all__ = ["FabricFolder", "Faults", "fabric_jobs", "write_files"]
