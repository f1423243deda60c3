"""weft: the orchestrator between an OpenStack cloud and its accelerator fabric."""

__version__ = "0.1.0"
