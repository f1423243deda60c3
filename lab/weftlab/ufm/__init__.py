"""A stand-in for NVIDIA UFM Enterprise: its REST as documented, over the lab's own OpenSM.

What was seen on real ones is followed version by version (`dialect`); what isn't published is an option, and tests
try it both ways. What is set by REST ends in the P_Key tables of ports on the wire, by the partition file of a real
OpenSM (`fabrics`). Faults are planted by a control of its own (`faults`, `control`).

    python -m weftlab.ufm --config FILE
"""

from weftlab.ufm.dialect import Dialect
from weftlab.ufm.faults import Faults
from weftlab.ufm.messages import Request, Response
from weftlab.ufm.ufm import Ufm

__all__ = ["Dialect", "Faults", "Request", "Response", "Ufm"]
