"""The command lines ``vipu`` and ``vipu-admin``."""
