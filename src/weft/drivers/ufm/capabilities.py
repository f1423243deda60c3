"""What UFM can do, known without asking one, for planning offline."""

from __future__ import annotations

from weft.model.fabric import Capabilities

CAPABILITIES = Capabilities(virtual_functions=True)
"""A VF is a member by the GUID of its virtual port, also before that port exists."""
