"""Fixtures that every room's tests may use."""

from __future__ import annotations

from fixtures.lab import lab

__all__ = ["lab"]
